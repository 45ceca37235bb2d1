"""Settings of reading a chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from cdc.schema import TableId
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.stream import BinlogStream
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.plan.splits import ChunkRead
from connectors.mysql.value_rules import DEFAULT_RULES, ValueRules

Inside: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Returns bool[n] for the split columns of n rows: whether they belong to the chunk."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access to the server: a new session; its log from a position on, or after a GTID set to its end."""

    session: Callable[[], MySqlConnection]
    at: Callable[[LogPosition], BinlogStream]
    after: Callable[[str], BinlogStream]

    @classmethod
    def of(cls, streams: Streams, reader: int, server: str) -> Access:
        """Return the access for the reader of that number; its log only if the server is still the same."""
        at, after = (partial(opener, reader=reader, server=server) for opener in (streams.at, streams.after))
        return cls(streams.session, at, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """The settings for reading chunks.

    Attributes:
        server: whose positions count (`ServerInfo.identity`); empty for any. files_ahead: as in the offset.
        least: minimum sequence of the chunk's position, because the log up to there is not read for its table.
        where: SQL condition on the rows of the SELECT, such as the user's filter for the table; empty for all rows.
        key: columns that identify a row; None for the primary key.
        skip_window: skip changes made while the view was opened; the chunk then counts as of the view's `low`, and the
            log repeats those changes. For sinks that keep one row per key.
        most_window_rows: maximum images of changed rows held.
        margin_s: see `view`.
        lock_wait_s: how long to wait for a table that is being altered.
    """

    server: str = ""
    files_ahead: int = 0
    least: int = 0
    rules: ValueRules = DEFAULT_RULES
    where: str = ""
    key: tuple[str, ...] | None = None
    skip_window: bool = False
    most_window_rows: int = 100_000
    margin_s: float = 1.0
    lock_wait_s: int = 10

    @classmethod
    def of(cls, options: MySqlSourceOptions, table: TableId, wanted: ChunkRead) -> ReadSettings:
        """Return the settings for a table's chunks in a split."""
        return cls(
            server=wanted.server,
            files_ahead=wanted.files_ahead,
            least=wanted.least,
            rules=options.value_rules,
            where=options.snapshot_filter(table) or "",
            skip_window=options.backfill_skip,
        )
