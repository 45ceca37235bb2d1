"""Current rows of tables: read with SELECTs by parts of the table, or by keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from cdc.block import ChangeBlock
from cdc.errors import SourceError
from cdc.schema import TableId
from cdc.source import Count
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.information_schema import estimated_size
from connectors.mysql.snapshot.plan.bounds import (
    BINARY,
    INTEGERS,
    TEXT,
    condition,
    literals_of,
    names_of,
    split_columns,
)
from connectors.mysql.snapshot.plan.key_columns import KeyColumns, key_columns
from connectors.mysql.snapshot.plan.split_points import ChunkSize, Splitter
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_plan import select_from
from connectors.mysql.snapshot.read.result_stream import DefinitionChanged, ResultStream
from connectors.mysql.snapshot.read.session import ChunkSessions
from connectors.mysql.snapshot.read.throttle import Throttle
from connectors.mysql.table import MySqlTable

if TYPE_CHECKING:
    from connectors.mysql.server.connection import MySqlConnection

_LOCK_WAIT_S = 10
_PART_ROWS = 500_000
"""Rows per SELECT: a longer one would keep the server from purging old row versions."""
_KEYS_AT_ONCE = 1000
_MOMENTS = frozenset({"date", "datetime", "timestamp"})
_LOOKED_UP = INTEGERS | BINARY | TEXT | _MOMENTS | {"decimal"}


class CurrentRows:
    """Reads rows over its own sessions, opened on first use."""

    def __init__(self, options: MySqlSourceOptions, connect: Callable[[], MySqlConnection]) -> None:
        self._options, self._connect = options, connect
        self._split: dict[TableId, KeyColumns] = {}
        self._throttle = Throttle(options.rows_per_second)

    @cached_property
    def sessions(self) -> ChunkSessions:
        """The sessions, opened on first use. Raises SourceError."""
        return ChunkSessions(self._connect, _LOCK_WAIT_S)

    def close(self) -> None:
        """Close the sessions."""
        if "sessions" in self.__dict__:
            with suppress(pymysql.err.MySQLError, OSError):
                self.sessions.close()
            del self.sessions

    def keys(self, table: MySqlTable) -> tuple[str, ...]:
        """Return the primary key if all of it can be written as SQL, else nothing."""
        whole = self._split_by(table).columns == table.primary_key and can_look_up(table)
        return table.primary_key if whole else ()

    def read(self, table: MySqlTable, keys: pa.RecordBatch | None, count: Count) -> Iterator[ChangeBlock]:
        """Read with one SELECT per part of the table, or per thousand keys."""
        for where in self._parts(table) if keys is None else self._looked_up(table, keys):
            yield from self._select(table, where, count)

    def _parts(self, table: MySqlTable) -> Iterator[str]:
        options = self._options
        size = ChunkSize(_PART_ROWS, options.chunk_factor_low, options.chunk_factor_high)
        rows, _ = estimated_size(self.sessions.side, table.id)
        for chunk in Splitter(self.sessions.side, table, self._split_by(table), size, rows).chunks():
            yield condition(chunk, table)

    def _looked_up(self, table: MySqlTable, keys: pa.RecordBatch) -> Iterator[str]:
        collations = self._split_by(table).collations
        for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
            yield with_keys(table, collations, keys.slice(start, _KEYS_AT_ONCE))

    def _select(self, table: MySqlTable, where: str, count: Count) -> Iterator[ChangeBlock]:
        select = select_from(table, where, versions=self.sessions.check_engine(table.id))
        try:
            stream = ResultStream(self.sessions.reader, select, str(table.id))
            stamp, rules = Stamp(0, 0, int(time.time() * 1000)), self._options.value_rules
            reader = RowReader(table, stream.columns, stamp, count, rules, where=str(table.id))
            for block in reader.blocks(stream):
                yield block
                self._throttle.acquire(len(block))
        except DefinitionChanged as error:
            hint = "run it again when the schema change is through"
            raise SourceError(
                f"the table was changed while it was read: {error}", where=str(table.id), hint=hint
            ) from None

    def _split_by(self, table: MySqlTable) -> KeyColumns:
        if table.id not in self._split:
            self._split[table.id] = key_columns(self.sessions.side, table, self._options.chunk_key_column(table.id))
        return self._split[table.id]


def can_look_up(table: MySqlTable) -> bool:
    """Return whether the table has a primary key whose columns can all be compared with Arrow values."""
    columns = split_columns(table.primary_key, table)
    return bool(columns) and all(column.type in _LOOKED_UP for column in columns)


def with_keys(table: MySqlTable, collations: Sequence[str | None], keys: pa.RecordBatch) -> str:
    """Return the SQL condition that the primary key is one of these; needs at least one.

    Raises SourceError as `literal`.
    """
    columns = split_columns(table.primary_key, table)
    values = [_plain(keys.column(index)) for index in range(len(columns))]
    rows = [", ".join(literals_of(columns, collations, row)) for row in zip(*values, strict=True)]
    if len(columns) == 1:
        return f"{names_of(columns)} IN ({', '.join(rows)})"
    return f"({names_of(columns)}) IN ({', '.join(f'({row})' for row in rows)})"


def _plain(values: pa.Array) -> list[Any]:
    """Convert values to the form of bounds: dates and times as text."""
    if pa.types.is_temporal(values.type):
        return [str(text).removesuffix("Z") for text in pc.cast(values, pa.string()).to_pylist()]
    return list(values.to_pylist())
