"""A sink's tables as they are, in one form for all sinks, and as they will be after what is planned so far. Pure.

`T` is a sink's own type of a column: a value with an SQL spelling, compared and printed by the core, made and
understood by the sink's dialect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cdc.schema import TableId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ActualColumn(Generic[T]):
    """A column that exists, as it is spelled there. `default` is the text of a constant, None when there is none."""

    name: str
    type: T
    nullable: bool = True
    default: str | None = None
    comment: str = ""


@dataclass(frozen=True)
class ActualTable(Generic[T]):
    """A table that exists. A sink whose tables have more to them (a model, a distribution) derives from it.

    Attributes:
        key: the columns that tell rows apart; empty for a table that keeps every row.
    """

    id: TableId
    columns: tuple[ActualColumn[T], ...]
    key: tuple[str, ...] = ()
    comment: str = ""

    def column(self, name: str) -> ActualColumn[T] | None:
        """The column of that name, None when there is none. Column names are the same whatever their case."""
        return next((column for column in self.columns if same(column.name, name)), None)

    def in_key(self, name: str) -> bool:
        """Whether the column is part of the key."""
        return any(same(part, name) for part in self.key)


class Layout(Generic[T]):
    """Databases and tables of a sink, those that a plan asks for.

    Args:
        tables: what is there.
        databases: names of the databases that are there.
        ignore_case: the sink takes names of tables and databases for the same whatever their case.
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
        """The table that the sink takes for this name, None when there is none."""
        return self._tables.get(self._key(table))

    def has_database(self, name: str) -> bool:
        """Whether there is the database."""
        return self._folded(name) in self._databases

    def put(self, table: ActualTable[T]) -> None:
        """Add the table, or replace the one of its name."""
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
    """Whether two column names are the same to a sink."""
    return left.casefold() == right.casefold()


def same_names(left: Iterable[str], right: Iterable[str]) -> bool:
    """Whether two lists name the same columns, in any order."""
    return {name.casefold() for name in left} == {name.casefold() for name in right}
