"""What a SQL-like sink says about itself: its types, what it does in place, the texts of its statements.

A dialect is pure and picklable: it is asked while changes are planned and executes nothing. The statements written here
are those that most systems share; a dialect writes those anew that its system spells otherwise. Driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, Self

from cdc.errors import ChangeRefused
from cdc.evolution import certain
from cdc.evolution.table import ActualColumn, ActualTable, T
from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema

_PLAIN = frozenset({*certain.RANGES, *certain.TEXTS, Kind.DECIMAL, Kind.DATE, Kind.JSON})
"""Kinds whose values every system casts to the same text."""


class Dialect(ABC, Generic[T]):
    """One system's words.

    Attributes:
        name: of the system, for messages.
        key_word: what the system calls the key that tells rows apart.
        unseen: what to do about a table that is there and hidden from the user; empty when none ever is.
        ignore_case: names of tables and databases are the same whatever their case. Those of columns always are.
        transactional: the statements of a change are carried out whole or not at all, in one transaction.
        sessions: how many tables may be created at the same time, each in a session of its own.
        moves_tables: a table can be put into another database, by copying its rows.
        all_in_jobs: new names and comments of columns may be carried out by a job too, not only what changes data.
        has_comments: tables and columns can have comments.
        native_bytes: bytes are kept as bytes rather than as text.
    """

    name: ClassVar[str]
    key_word: ClassVar[str] = "primary key"
    unseen: ClassVar[str] = ""
    ignore_case: ClassVar[bool] = False
    transactional: ClassVar[bool] = False
    sessions: ClassVar[int] = 1
    moves_tables: ClassVar[bool] = False
    all_in_jobs: ClassVar[bool] = False
    has_comments: ClassVar[bool] = True
    native_bytes: ClassVar[bool] = True

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

    @abstractmethod
    def quoted(self, name: str) -> str:
        """One identifier as the system reads it back."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """A string literal."""

    def table_name(self, table: TableId) -> str:
        """The whole name of a table."""
        return f"{self.quoted(table.database)}.{self.quoted(table.table)}"

    def copy_of(self, table: TableId) -> TableId:
        """The table that a copy of a table is made in: one of its own for each table, always the same."""
        return TableId(table.database, f"__cdc_copy_{table.table}")

    def check_table(self, table: TableId, schema: TableSchema) -> None:
        """Raise ChangeRefused when there can be no such table, or an existing one is not to be touched."""

    def check_existing(self, actual: ActualTable[T]) -> None:
        """Raise ChangeRefused when a table that somebody made is of a kind that cannot be written."""

    def check_column(self, table: TableId, name: str) -> None:
        """Raise ChangeRefused for a column name that the system keeps for itself."""

    # types

    @abstractmethod
    def wanted(self, data_type: DataType, *, key: bool) -> T:
        """The type that keeps every value of a column, as it is created."""

    @abstractmethod
    def holds(self, actual: T, data_type: DataType, *, key: bool) -> bool:
        """Whether an existing column takes every value of the source's type unchanged."""

    @abstractmethod
    def data_type(self, actual: T) -> DataType:
        """This tool's type for a column that exists, as near as it goes."""

    def is_text(self, actual: T) -> bool:
        """Whether the type holds any text."""
        return self.data_type(actual).kind in certain.TEXTS

    def stays(self, actual: T, new: DataType, old: DataType | None, *, key: bool) -> bool:
        """Whether a column's type, and every value, is left as it is when the source's type changes."""
        return actual == self.wanted(new, key=key)

    def in_place(self, table: ActualTable[T], column: ActualColumn[T], new: T) -> bool:
        """Whether `modify_column` makes the change and keeps every value; otherwise the table is copied."""
        return True

    def reached(self, old: T, new: T) -> T:
        """The type that a column gets where the source's change asks for `new`: that, or a wider one."""
        return new

    def by_copy(self, old: T, new: T) -> bool:
        """Whether `value` keeps every value when the table is copied; otherwise the column must be empty."""
        return True

    def converts(self, actual: T, new: DataType, old: DataType | None) -> bool:
        """Whether `value` makes of any row what the source's server made of it, although the log does not tell.

        `old` is the source's type before, None when it is not known.
        """
        return False

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

    # rows

    def condition(self, column: str, rows: certain.Rows) -> str:
        """SQL that finds rows whose values are uncertain; `column` is the quoted name."""
        return certain.condition(column, rows, native_bytes=self.native_bytes)

    def value(
        self, old: ActualColumn[T], new: ActualColumn[T], source: DataType | None, before: DataType | None
    ) -> str:
        """An expression over a column that gives the value of its new type.

        `source` and `before` are the source's types after and before, None when they do not change or are not known.
        """
        name = self.quoted(old.name)
        return name if old.type == new.type else f"CAST({name} AS {new.type})"

    def kept_value(self, old: ActualColumn[T], new: ActualColumn[T], after: DataType, before: DataType) -> str | None:
        """An expression for a value that stays what it is when its column gets room for others besides.

        Text has to be what `cdc.flow.casts` makes of it: numbers plain, times in ISO form, bytes in base64. None where
        the system has no such expression. `after` and `before` are this tool's types.
        """
        if after.kind not in certain.TEXTS or before.kind in _PLAIN:
            return self.quoted(old.name) if old.type == new.type else f"CAST({self.quoted(old.name)} AS {new.type})"
        return None

    def value_or_null(
        self, old: ActualColumn[T], new: ActualColumn[T], source: DataType | None, before: DataType | None
    ) -> str:
        """As `value`, for rows that are copied anew behind it: never fails, NULL for what has no value in the new type.

        Where a system has no such expression it is NULL for all.
        """
        return f"CAST(NULL AS {new.type})"

    # statements

    def create_database(self, database: str) -> str:
        """When there is none."""
        return f"CREATE DATABASE IF NOT EXISTS {self.quoted(database)}"

    @abstractmethod
    def create_table(self, table: ActualTable[T]) -> Sequence[str]:
        """With its comments."""

    def create_like(self, table: ActualTable[T], new: TableId) -> Sequence[str]:
        """An empty table with all that another one is made of, what somebody chose by hand included."""
        return self.create_table(replace(table, id=new))

    def drop_table(self, table: TableId) -> str:
        """When there is one."""
        return f"DROP TABLE IF EXISTS {self.table_name(table)}"

    def drop_copy(self, copy: TableId) -> str:
        """A copy that is left, when there is one."""
        return self.drop_table(copy)

    def truncate_table(self, table: TableId) -> str:
        """All rows go."""
        return f"TRUNCATE TABLE {self.table_name(table)}"

    def rename_table(self, table: TableId, new_name: str) -> str:
        """Inside of its database."""
        return f"ALTER TABLE {self.table_name(table)} RENAME TO {self.quoted(new_name)}"

    def comment_table(self, table: ActualTable[T], comment: str) -> str:
        """Another comment, or none."""
        return f"COMMENT ON TABLE {self.table_name(table.id)} IS {self.literal(comment)}"

    @abstractmethod
    def add_column(self, table: ActualTable[T], column: ActualColumn[T], after: str | None) -> Sequence[str]:
        """Behind another column, or last. Rows that are there get the column's default."""

    @abstractmethod
    def modify_column(self, table: ActualTable[T], column: ActualColumn[T], value: str) -> str:
        """Another type in place; `value` is what `value()` gives."""

    def comment_column(self, table: ActualTable[T], column: ActualColumn[T]) -> str:
        """Another comment, or none; `column` has it already."""
        name = f"{self.table_name(table.id)}.{self.quoted(column.name)}"
        return f"COMMENT ON COLUMN {name} IS {self.literal(column.comment)}"

    def rename_column(self, table: TableId, old_name: str, new_name: str) -> str:
        """Another name."""
        return f"ALTER TABLE {self.table_name(table)} RENAME COLUMN {self.quoted(old_name)} TO {self.quoted(new_name)}"

    def drop_column(self, table: TableId, name: str) -> str:
        """One that is not fixed."""
        return f"ALTER TABLE {self.table_name(table)} DROP COLUMN {self.quoted(name)}"

    def copy_rows(self, source: TableId, target: TableId, values: Iterable[tuple[str, str]]) -> str:
        """All rows of one table into another; each value is a column of the target and an expression."""
        pairs = list(values)
        names = ", ".join(self.quoted(name) for name, _ in pairs)
        expressions = ", ".join(expression for _, expression in pairs)
        return f"INSERT INTO {self.table_name(target)} ({names}) SELECT {expressions} FROM {self.table_name(source)}"

    @abstractmethod
    def take_place(self, copy: TableId, table: ActualTable[T]) -> Sequence[str]:
        """A copy, with all rows, takes the place of a table that it is like; nothing of the old one is left.

        At every moment there is a table of that name, unless the dialect is transactional.
        """
