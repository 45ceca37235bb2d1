"""A sink's tables, in one form for all sinks: as they are, and as they will be after the steps planned so far. Pure.

`T` is a sink's own column type: a value with an SQL spelling, compared and printed by the core, created and interpreted
by the sink's dialect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cdc.schema import TableId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ActualColumn(Generic[T]):
    """An existing column, in the sink's spelling. `default` is the text of a constant; None without one."""

    name: str
    type: T
    nullable: bool = True
    default: str | None = None
    comment: str = ""


@dataclass(frozen=True)
class ActualTable(Generic[T]):
    """An existing table. A sink whose tables have more properties (a model, a distribution) derives from it.

    Attributes:
        key: the columns that identify rows; empty for a table that keeps every row.
    """

    id: TableId
    columns: tuple[ActualColumn[T], ...]
    key: tuple[str, ...] = ()
    comment: str = ""

    def column(self, name: str) -> ActualColumn[T] | None:
        """Return a column by case-insensitive name, None when it is missing."""
        return next((column for column in self.columns if same(column.name, name)), None)

    def in_key(self, name: str) -> bool:
        """Whether the column is part of the key."""
        return any(same(part, name) for part in self.key)


class Layout(Generic[T]):
    """The databases and tables of a sink that a plan needs.

    Args:
        tables: existing tables.
        databases: names of existing databases.
        ignore_case: names of tables and databases are case-insensitive in the sink.
    """

    def __init__(
        self, tables: Iterable[ActualTable[T]] = (), databases: Iterable[str] = (), *, ignore_case: bool = False
    ) -> None:
        self._ignore_case = ignore_case
        self._databases = {self._folded(name) for name in databases}
        self._tables: dict[tuple[str, str], ActualTable[T]] = {}
        for table in tables:
            self.put(table)

    def get(self, table: TableId) -> ActualTable[T] | None:
        """Return the sink's table of this name, None when there is none."""
        return self._tables.get(self._key(table))

    def has_database(self, name: str) -> bool:
        """Whether the database exists."""
        return self._folded(name) in self._databases

    def put(self, table: ActualTable[T]) -> None:
        """Add the table, or replace the one of the same name."""
        self._databases.add(self._folded(table.id.database))
        self._tables[self._key(table.id)] = table

    def remove(self, table: TableId) -> None:
        """Forget the table."""
        self._tables.pop(self._key(table), None)

    def same_database(self, left: TableId, right: TableId) -> bool:
        """Whether two tables are in one database."""
        return self._folded(left.database) == self._folded(right.database)

    def _key(self, table: TableId) -> tuple[str, str]:
        return self._folded(table.database), self._folded(table.table)

    def _folded(self, name: str) -> str:
        return name.casefold() if self._ignore_case else name


def same(left: str, right: str) -> bool:
    """Whether two column names are equal to a sink: case-insensitively."""
    return left.casefold() == right.casefold()


def same_names(left: Iterable[str], right: Iterable[str]) -> bool:
    """Whether two lists name the same columns, in any order."""
    return {name.casefold() for name in left} == {name.casefold() for name in right}
