"""Splits tables into chunks: even ranges of integers, else points found by queries on the index.

Runs in the stream reader process, ahead of the batches that take the chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cdc.schema import TableId
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
class Part:
    """The next chunk of a table, not yet in the plan. Attributes as in `chunk.Chunk`."""

    columns: tuple[str, ...]
    collations: tuple[str | None, ...]
    lower: Bound | None
    upper: Bound | None
    last: bool
    rows: int
    table_rows: int

    def chunk(self, number: int, table: TableId) -> Chunk:
        """Return the part as an entry of the plan."""
        return Chunk(
            number, table, self.columns, self.lower, self.upper, {}, self.collations, self.last, self.rows,
            self.table_rows,
        )  # fmt: skip


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


def parts(
    connection: MySqlConnection, table: MySqlTable, key: KeyColumns, size: ChunkSize, rows: int, lower: Bound | None
) -> Iterator[Part]:
    """Yield the chunks of a table above `lower` (None: all), in key order; the last one has `last` set.

    `rows` is the estimate for the table. With `lower`, `key` is that of the previous chunks. Raises SourceError.
    """
    if not key.columns:
        yield Part((), (), None, None, True, rows, rows)
        return
    columns = split_columns(key.columns, table)
    if rows >= SMALL * size.rows and columns[0].type in _SPREAD and (lower is None or len(key.columns) == 1):
        step = _even_step(connection, table, columns[0], size, rows)
        if step is not None:
            yield from _even(connection, table, columns[0], step, size, rows, lower)
            return
    yield from _query_chunks(connection, table, key, size, rows, lower)


def _even_step(
    connection: MySqlConnection, table: MySqlTable, column: MySqlColumn, size: ChunkSize, rows: int
) -> int | None:
    lowest, highest = _extremes(connection, table, column)
    if lowest is None or highest is None:
        return None
    factor = (highest - lowest + 1) / rows
    if not size.lower_factor <= factor <= size.upper_factor:
        return None
    return max(1, int(size.rows * factor))


def _even(
    connection: MySqlConnection,
    table: MySqlTable,
    column: MySqlColumn,
    step: int,
    size: ChunkSize,
    rows: int,
    lower: Bound | None,
) -> Iterator[Part]:
    lowest, highest = _extremes(connection, table, column)
    upper = int(lower[0]) if lower is not None else (lowest or 0) - 1
    end = upper if highest is None else highest
    while upper + step < end:
        upper += step
        yield Part((column.name,), (None,), lower, (upper,), False, size.rows, rows)
        lower = (upper,)
    yield Part((column.name,), (None,), lower, None, True, size.rows, rows)


def _extremes(connection: MySqlConnection, table: MySqlTable, column: MySqlColumn) -> tuple[int | None, int | None]:
    name = quoted(column.name)
    ((lowest, highest),) = query(connection, f"SELECT MIN({name}), MAX({name}) FROM {_name(table)}", slow=True)
    return lowest, highest


def _query_chunks(
    connection: MySqlConnection, table: MySqlTable, key: KeyColumns, size: ChunkSize, rows: int, lower: Bound | None
) -> Iterator[Part]:
    """Yield chunks of exactly `size.rows` rows at the time of the query."""
    columns = split_columns(key.columns, table)
    while True:
        upper = _point(connection, table, key, columns, size.rows, lower)
        left = min(rows, size.rows) if upper is None else size.rows
        yield Part(key.columns, key.collations, lower, upper, upper is None, left, rows)
        if upper is None:
            return
        lower = upper


def _point(
    connection: MySqlConnection,
    table: MySqlTable,
    key: KeyColumns,
    columns: tuple[MySqlColumn, ...],
    rows: int,
    lower: Bound | None,
) -> Bound | None:
    """Return the key of the `rows`-th row above `lower`; None when there are fewer."""
    shown = ", ".join(_bound_sql(column) for column in columns)
    where = "" if lower is None else f"WHERE {after(columns, key.collations, lower)} "
    order = names_of(columns)
    found = query(
        connection,
        f"SELECT {shown} FROM {_name(table)} FORCE INDEX ({quoted(key.index)}) {where}"
        f"ORDER BY {order} LIMIT 1 OFFSET {rows - 1}",
        slow=True,
    )
    if not found or found[0][0] is None:
        return None
    return tuple(_value(column, value) for column, value in zip(columns, found[0], strict=True))


def _bound_sql(column: MySqlColumn) -> str:
    """SQL of a column in the form of bounds: text, numbers and bytes as they are, the rest in the server's spelling."""
    if column.type in TEXT:
        return f"CONVERT({quoted(column.name)} USING utf8mb4)"
    return quoted(column.name) if column.type in INTEGERS | BINARY else f"CAST({quoted(column.name)} AS CHAR)"


def _value(column: MySqlColumn, value: Any) -> Any:
    if column.type in INTEGERS:
        return int(value)
    return bytes(value) if column.type in BINARY else str(value)


def _name(table: MySqlTable) -> str:
    return quoted(table.id.database, table.id.table)
