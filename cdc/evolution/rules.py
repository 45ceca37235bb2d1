"""The possible forms of a sink's tables: its types, its changes in place, the names it takes. For the planner.

Pure and picklable: it is asked while changes are planned and does nothing. A SQL system's rules are part of its
`cdc.evolution.dialect.Dialect`. Driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import ClassVar, Generic, Self

from cdc.errors import ChangeRefused
from cdc.evolution.table import ActualColumn, ActualTable, T
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from cdc.types.kinds import PLAIN, TEXTS


class NewColumn(Enum):
    """The way in which rows that are there get the default of a column that is added."""

    IN_PLACE = "in place"
    """Adding the column does it."""
    BACK_FILL = "back-fill"
    """An operation of its own behind it: `FillColumnOp`."""
    RE_SNAPSHOT = "re-snapshot"
    """The sink cannot: a column with a default brings a re-snapshot of the table."""


class TableRules(ABC, Generic[T]):
    """The rules of one system.

    What is not done in place is refused as `retryable by a re-snapshot`: the engine then fills a shadow table.

    Attributes:
        name: of the system, for messages.
        key_word: what the system calls the key that tells rows apart.
        unseen: what to do about a table that is there and hidden from the user; empty when none ever is.
        ignore_case: names of tables and databases are the same whatever their case. Those of columns always are.
        transactional: the operations of a change are carried out whole or not at all, in one transaction.
        sessions: how many tables may be created at the same time, each in a session of its own.
        moves_tables: a table can be put into another database, by copying its rows.
        has_comments: tables and columns can have comments.
        has_databases: a table is in a database that has to be made.
        renames_columns, drops_columns: in place.
        rebuilds: a table can be copied into one of other columns and key that takes its place.
        checks_rows: the rows that are there can be looked at.
        new_column_default: how rows that are there get a new column's default.
    """

    name: ClassVar[str]
    key_word: ClassVar[str] = "primary key"
    unseen: ClassVar[str] = ""
    ignore_case: ClassVar[bool] = False
    transactional: ClassVar[bool] = False
    sessions: ClassVar[int] = 1
    moves_tables: ClassVar[bool] = False
    has_comments: ClassVar[bool] = True
    has_databases: ClassVar[bool] = True
    renames_columns: ClassVar[bool] = True
    drops_columns: ClassVar[bool] = True
    rebuilds: ClassVar[bool] = True
    checks_rows: ClassVar[bool] = True
    new_column_default: ClassVar[NewColumn] = NewColumn.IN_PLACE

    def with_options(self, change: CreateTable) -> Self:
        """The dialect that creates this table, with the change's options. Override where the system takes any.

        Raises ChangeRefused when the system takes none.
        """
        if change.options:
            names = ", ".join(name for name, _ in change.options)
            hint = "remove table-options from the rule"
            raise ChangeRefused(f"{self.name} takes no table-options, got {names}", where=str(change.table), hint=hint)
        return self

    # names

    def written_name(self, table: TableId) -> str:
        """The whole name of a table as the system has it: equal for ids that are one table."""
        return str(table)

    def copy_of(self, table: TableId) -> TableId:
        """The table that a copy of a table is made in: one of its own for each table, always the same."""
        return TableId(table.database, f"__cdc_copy_{table.table}")

    def check_table(self, table: TableId) -> None:
        """Raise ChangeRefused when there can be no table of that name, or an existing one is not to be touched."""

    def check_existing(self, actual: ActualTable[T]) -> None:
        """Raise ChangeRefused when a table that somebody made is of a kind that cannot be written."""

    def check_column(self, table: TableId, name: str) -> None:
        """Raise ChangeRefused for a column name that the system keeps for itself."""

    # types

    @abstractmethod
    def column_type(self, data_type: DataType, *, key: bool) -> T:
        """The type that keeps every value of a column, as it is created."""

    @abstractmethod
    def holds(self, actual: T, data_type: DataType, *, key: bool) -> bool:
        """Whether an existing column takes every value of the source's type unchanged."""

    @abstractmethod
    def data_type(self, actual: T) -> DataType:
        """This tool's type for a column that exists, as near as it goes."""

    def is_text(self, actual: T) -> bool:
        """Whether the type holds any text."""
        return self.data_type(actual).kind in TEXTS

    def stays(self, actual: T, new: DataType, old: DataType | None, *, key: bool) -> bool:
        """Whether a column's type, and every value, is left as it is when the source's type changes."""
        return actual == self.column_type(new, key=key)

    def respelled(self, actual: T, column: Column, *, key: bool) -> T | None:
        """The type that a column gets where the source's own type is another, of the same type here; None: it stays."""
        return None

    def in_place(self, table: ActualTable[T], column: ActualColumn[T], new: T) -> bool:
        """Whether `modify_column` makes the change and keeps every value; otherwise the table is copied."""
        return True

    def altered_type(self, old: T, new: T) -> T:
        """The type that a column gets where the source's change asks for `new`: that, or a wider one."""
        return new

    def by_copy(self, old: T, new: T) -> bool:
        """Whether a cast keeps every value when the table is copied; otherwise the column must be empty."""
        return True

    def spells(self, data_type: DataType) -> bool:
        """Whether values become the text that `cdc.types.casts` makes of them when their column becomes text."""
        return data_type.kind in PLAIN

    def is_fixed(self, table: ActualTable[T], name: str) -> bool:
        """Whether the column cannot be dropped in place."""
        return table.in_key(name)

    # tables

    @abstractmethod
    def new_table(self, table: TableId, schema: TableSchema) -> ActualTable[T]:
        """The table as it is created. Raises ChangeRefused for one that the system cannot have."""

    @abstractmethod
    def new_column(self, column: Column, *, key: bool) -> ActualColumn[T]:
        """A column as it is created."""

    def added_column(self, column: Column) -> ActualColumn[T]:
        """A column as it is added to a table with rows: the default is what they get."""
        return self.new_column(column, key=False)

    @abstractmethod
    def with_key(self, table: ActualTable[T], key: tuple[str, ...]) -> ActualTable[T]:
        """The table with another key, or with other columns and the key that is left of it; names are those of columns.

        The key that comes out may be empty where the system cannot have it.
        """

    def renamed_column(self, table: ActualTable[T], old_name: str, new_name: str) -> ActualTable[T]:
        """The table after a column's new name, wherever that is written down besides columns and key."""
        return table

    def schema(self, table: ActualTable[T]) -> TableSchema:
        """The table in this tool's types."""
        columns = (
            Column(column.name, self.data_type(column.type), column.nullable, column.default, column.comment)
            for column in table.columns
        )
        return TableSchema(tuple(columns), table.key, table.comment)
