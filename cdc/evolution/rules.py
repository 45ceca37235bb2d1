"""Rules of a sink's tables, for the planner: its types, names and changes in place.

Pure and picklable; executes nothing. A SQL system's rules are part of its `cdc.evolution.dialect.Dialect`. Driver.
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
    """The way in which existing rows get the default of an added column."""

    IN_PLACE = "in place"
    """By adding the column."""
    BACK_FILL = "back-fill"
    """By a separate operation afterwards: `FillColumnOp`."""
    RE_SNAPSHOT = "re-snapshot"
    """Not in place: adding a column with a default requires a re-snapshot of the table."""


class TableRules(ABC, Generic[T]):
    """The rules of one system.

    What cannot be done in place is refused with `resnapshot_helps`: the engine then fills a shadow table.

    Attributes:
        name: name of the system, for messages.
        key_word: the system's term for the key that identifies rows.
        key_hint: how an existing table gets another key, ending in a comma; empty when it cannot.
        hidden_table_hint: what to do about a table that is hidden from the user; empty when that cannot happen.
        ignore_case: names of tables and databases are case-insensitive. Those of columns always are.
        transactional: the operations of a change run in one transaction.
        sessions: number of tables that may be created at the same time, each in its own session.
        moves_tables: a table can be moved to another database, by copying its rows.
        has_comments: tables and columns can have comments.
        has_databases: a table is in a database that has to be created.
        renames_columns, drops_columns: possible in place.
        rebuilds: a table can be replaced by a copy with other columns and another key.
        checks_rows: existing rows can be queried.
        new_column_default: how existing rows get a new column's default.
        skips_keyless: updates and deletes of tables without a key are skipped, so that their rows may be out of date.
    """

    name: ClassVar[str]
    key_word: ClassVar[str] = "primary key"
    key_hint: ClassVar[str] = ""
    hidden_table_hint: ClassVar[str] = ""
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
    skips_keyless: bool = False

    def with_options(self, change: CreateTable) -> Self:
        """Return the rules for creating this table, with the change's options. Override where the system supports any.

        Raises ChangeRefused when the system supports none.
        """
        if change.options:
            names = ", ".join(name for name, _ in change.options)
            hint = "remove table-options from the rule"
            raise ChangeRefused(f"{self.name} takes no table-options, got {names}", where=str(change.table), hint=hint)
        return self

    # names

    def written_name(self, table: TableId) -> str:
        """Return the system's full name of a table: equal for ids of the same table."""
        return str(table)

    def copy_of(self, table: TableId) -> TableId:
        """Return the id of a table's copy: unique, deterministic, and of limited length."""
        return TableId(table.database, f"cdc_rebuild_{table.digest}")

    def check_table(self, table: TableId) -> None:
        """Raise ChangeRefused when a table cannot have that name, or an existing one must not be changed."""

    def check_existing(self, actual: ActualTable[T]) -> None:
        """Raise ChangeRefused when an existing table is of a kind that cannot be written."""

    def remark_on_existing(self, actual: ActualTable[T], wanted: ActualTable[T]) -> str:
        """Return what the user should know of an existing table that is going to be written; empty for nothing.

        `wanted`: the table that would be created if there were none.
        """
        return ""

    def check_column(self, table: TableId, name: str) -> None:
        """Raise ChangeRefused for a column name that the system reserves."""

    # types

    @abstractmethod
    def column_type(self, data_type: DataType, *, key: bool) -> T:
        """Return the type for creating a column that holds every value."""

    @abstractmethod
    def holds(self, actual: T, data_type: DataType, *, key: bool) -> bool:
        """Whether an existing column holds every value of the source's type unchanged."""

    @abstractmethod
    def data_type(self, actual: T) -> DataType:
        """Return this tool's nearest type for an existing column."""

    def is_text(self, actual: T) -> bool:
        """Whether the type holds any text."""
        return self.data_type(actual).kind in TEXTS

    def stays(self, actual: T, new: DataType, old: DataType | None, *, key: bool) -> bool:
        """Whether a column's type and values do not change when the source's type changes."""
        return actual == self.column_type(new, key=key)

    def respelled(self, actual: T, column: Column, *, key: bool) -> T | None:
        """Return a column's new type when only the source's own type changes, not its type here; None: it stays."""
        return None

    def modifies_in_place(self, table: ActualTable[T], column: ActualColumn[T], new: T) -> bool:
        """Whether `modify_column` can make the change without changing values; otherwise the table is copied."""
        return True

    def altered_type(self, old: T, column: Column, *, key: bool) -> T:
        """Return an existing column's type after a change to `column`: that of a new column, or a wider one."""
        return self.column_type(column.type, key=key)

    def casts_exactly(self, old: T, new: T) -> bool:
        """Whether a cast in a copy of the table keeps every value; otherwise the column must be empty."""
        return True

    def spells(self, data_type: DataType) -> bool:
        """Whether values are converted to the same text as by `cdc.types.casts` when their column becomes text."""
        return data_type.kind in PLAIN

    def is_fixed(self, table: ActualTable[T], name: str) -> bool:
        """Whether the column cannot be dropped in place."""
        return table.in_key(name)

    # tables

    @abstractmethod
    def new_table(self, table: TableId, schema: TableSchema) -> ActualTable[T]:
        """Return a table to create. Raises ChangeRefused for one that the system does not support."""

    @abstractmethod
    def new_column(self, column: Column, *, key: bool) -> ActualColumn[T]:
        """Return a column of a new table."""

    def added_column(self, column: Column) -> ActualColumn[T]:
        """Return a column to add to a table with rows, which get its default."""
        return self.new_column(column, key=False)

    @abstractmethod
    def with_key(self, table: ActualTable[T], key: tuple[str, ...]) -> ActualTable[T]:
        """Return the table with another key, or with other columns and the rest of its key; `key` has column names.

        The resulting key may be empty where the system does not support it.
        """

    def renamed_column(self, table: ActualTable[T], old_name: str, new_name: str) -> ActualTable[T]:
        """Update the column's name wherever the table has it apart from columns and key."""
        return table

    def schema(self, table: ActualTable[T]) -> TableSchema:
        """Return the table's schema in this tool's types."""
        columns = (
            Column(column.name, self.data_type(column.type), column.nullable, column.default, column.comment)
            for column in table.columns
        )
        return TableSchema(tuple(columns), table.key, table.comment)
