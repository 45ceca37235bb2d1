"""Splits tables into chunks: even ranges of integers, else points found by queries on the index.

Runs in the stream reader process, ahead of the batches that take the chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import query
from connectors.mysql.snapshot.chunk import Bound, Chunk
from connectors.mysql.snapshot.plan.bounds import BINARY, INTEGERS, TEXT, after, names_of, split_columns
from connectors.mysql.snapshot.plan.key_columns import KeyColumns
from connectors.mysql.table import MySqlColumn, MySqlTable
from connectors.shared.sql.text import quoted

SMALL = 2
"""Tables estimated to have fewer chunks are split by queries: one query finds out that it is a single chunk."""

_SPREAD = INTEGERS - {"year"}
"""Types of which any number can be a bound. MySQL finds no year at all below 403, not even 0."""


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """The size of chunks.

    Attributes:
        rows: rows per chunk.
        lower_factor, upper_factor: an integer key counts as evenly distributed when (max - min + 1) / rows is between
            these.
    """

    rows: int
    lower_factor: float = 0.05
    upper_factor: float = 1000.0


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits a table into chunks; they get their numbers when they are planned.

    Attributes:
        rows: the estimate for the table.
    """

    connection: MySqlConnection
    table: MySqlTable
    key: KeyColumns
    size: ChunkSize
    rows: int

    def chunks(self, lower: Bound | None = None) -> Iterator[Chunk]:
        """Yield the chunks above `lower` (None: all), in key order; the last one has `last` set.

        With `lower`, the key is that of the previous chunks. Raises SourceError.
        """
        if not self.key.columns:
            yield Chunk(0, self.table.id, last=True, rows=self.rows, table_rows=self.rows)
            return
        first = self._columns[0]
        many = self.rows >= SMALL * self.size.rows
        if many and first.type in _SPREAD and (lower is None or len(self.key.columns) == 1):
            lowest, highest = self._extremes(first)
            step = self._even_step(lowest, highest)
            if step is not None:
                yield from self._even(first.name, int(lower[0]) if lower else lowest - 1, highest, step, lower)
                return
        yield from self._by_query(lower)

    @property
    def _columns(self) -> tuple[MySqlColumn, ...]:
        return split_columns(self.key.columns, self.table)

    def _extremes(self, column: MySqlColumn) -> tuple[Any, Any]:
        name = quoted(column.name)
        ((lowest, highest),) = query(self.connection, f"SELECT MIN({name}), MAX({name}) FROM {self._from}", slow=True)
        return lowest, highest

    def _even_step(self, lowest: int | None, highest: int | None) -> int | None:
        if lowest is None or highest is None:
            return None
        factor = (highest - lowest + 1) / self.rows
        if not self.size.lower_factor <= factor <= self.size.upper_factor:
            return None
        return max(1, int(self.size.rows * factor))

    def _even(self, column: str, upper: int, end: int, step: int, lower: Bound | None) -> Iterator[Chunk]:
        while upper + step < end:
            upper += step
            yield self._chunk((column,), (None,), lower, (upper,), self.size.rows)
            lower = (upper,)
        yield self._chunk((column,), (None,), lower, None, self.size.rows)

    def _by_query(self, lower: Bound | None) -> Iterator[Chunk]:
        """Yield chunks of exactly `size.rows` rows at the time of the query."""
        while True:
            upper = self._point(lower)
            left = min(self.rows, self.size.rows) if upper is None else self.size.rows
            yield self._chunk(self.key.columns, self.key.collations, lower, upper, left)
            if upper is None:
                return
            lower = upper

    def _point(self, lower: Bound | None) -> Bound | None:
        """Return the key of the `size.rows`-th row above `lower`; None when there are fewer."""
        columns = self._columns
        shown = ", ".join(_bound_sql(column) for column in columns)
        where = "" if lower is None else f"WHERE {after(columns, self.key.collations, lower)} "
        found = query(
            self.connection,
            f"SELECT {shown} FROM {self._from} FORCE INDEX ({quoted(self.key.index)}) {where}"
            f"ORDER BY {names_of(columns)} LIMIT 1 OFFSET {self.size.rows - 1}",
            slow=True,
        )
        if not found or found[0][0] is None:
            return None
        return tuple(_value(column, value) for column, value in zip(columns, found[0], strict=True))

    def _chunk(
        self,
        columns: tuple[str, ...],
        collations: tuple[str | None, ...],
        lower: Bound | None,
        upper: Bound | None,
        rows: int,
    ) -> Chunk:
        last = upper is None
        return Chunk(0, self.table.id, columns, lower, upper, {}, collations, last, rows, self.rows)

    @property
    def _from(self) -> str:
        return quoted(self.table.id.database, self.table.id.table)


def _bound_sql(column: MySqlColumn) -> str:
    """SQL of a column in the form of bounds: text, numbers and bytes as they are, the rest in the server's spelling."""
    if column.type in TEXT:
        return f"CONVERT({quoted(column.name)} USING utf8mb4)"
    return quoted(column.name) if column.type in INTEGERS | BINARY else f"CAST({quoted(column.name)} AS CHAR)"


def _value(column: MySqlColumn, value: Any) -> Any:
    if column.type in INTEGERS:
        return int(value)
    return bytes(value) if column.type in BINARY else str(value)
