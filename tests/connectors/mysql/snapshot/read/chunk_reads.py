"""Chunks read from a real server, for tests."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

from cdc.block import ChangeBlock
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.log.stream import BinlogStream
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import table_reader
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_info import query
from connectors.mysql.snapshot.chunk import Chunk, Watermark
from connectors.mysql.snapshot.filter.membership import InChunk
from connectors.mysql.snapshot.read.read_chunk import ChunkReader
from connectors.mysql.snapshot.read.read_settings import Access, ReadSettings
from connectors.mysql.snapshot.read.session import SessionPool
from connectors.mysql.snapshot.read.throttle import Throttle
from connectors.mysql.table import MySqlTable

Row = tuple[Any, ...]
_SESSION = "SET time_zone = '+00:00', sql_mode = ''"
_ids = itertools.count(3_000_000)


class ChunkReads:
    """Reads chunks of tables of one server; counts sessions and streams."""

    def __init__(self, server: MySqlServer) -> None:
        self.server = server
        self.sessions: list[MySqlConnection] = []
        self.streams = 0
        self.counts: Counter[str] = Counter()
        self.blocks: list[ChangeBlock] = []
        self.user: dict[str, Any] = {}

    def session(self) -> MySqlConnection:
        self.sessions.append(self.server.connect(init_command=_SESSION, **self.user))
        return self.sessions[-1]

    def at(self, position: LogPosition) -> BinlogStream:
        self.streams += 1
        session = self.session()
        return BinlogStream(session, server_id=next(_ids), file=position.file, position=position.position)

    def after(self, gtids: str) -> BinlogStream:
        self.streams += 1
        return BinlogStream(self.session(), server_id=next(_ids), gtid_set=gtids, until_end=True)

    def definition(self, table: TableId) -> MySqlTable:
        session = self.session()
        try:
            found = table_reader(session)(table)
        finally:
            session.close()
        assert found is not None
        return found

    def ask(self, statement: str) -> Row:
        session = self.session()
        try:
            return query(session, statement)[0]
        finally:
            session.close()

    def read(
        self,
        table: MySqlTable,
        chunk: Chunk | None = None,
        settings: ReadSettings | None = None,
        on_block: Callable[[ChangeBlock], None] = lambda block: None,
        *,
        pool: SessionPool | None = None,
        **hooks: Any,
    ) -> tuple[list[Row], Watermark]:
        """The chunk's rows, in the order they came, and its watermark. All sessions are closed without a `pool`."""
        chunk = chunk or Chunk(5, table.id)
        access = Access(self.session, self.at, self.after)
        own = pool or SessionPool()
        reader = ChunkReader(access, self._count, own, Throttle(None), **hooks)
        generator = reader.read(chunk, table, InChunk(chunk, table, self.ask), settings or ReadSettings())
        rows: list[Row] = []
        self.blocks = []
        try:
            while True:
                block = next(generator)
                block.rows.validate(full=True)
                self.blocks.append(block)
                rows += rows_of(block)
                on_block(block)
        except StopIteration as stop:
            watermark: Watermark = stop.value
        finally:
            if pool is None:
                own.close()
        assert pool is not None or not any(session.open for session in self.sessions)
        return rows, watermark

    def _count(self, reason: str, number: int) -> None:
        self.counts[reason] += number


def rows_of(block: ChangeBlock) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in block.rows.columns), strict=True))
