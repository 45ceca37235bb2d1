"""JSON columns as a real server logs them, read from its binary log without the row decoder.

The table is always `(id int primary key, j json)`; the events are those of MySQL's rows_event.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cdc_services.server import MySqlServer
from connectors.mysql import events
from connectors.mysql.log.stream import BinlogStream, EndOfLog

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, j JSON)"


@dataclass(frozen=True)
class Image:
    """One logged row change: documents before and after; `diffs` instead of `after` for a partial update."""

    id: int
    before: bytes | None = None
    after: bytes | None = None
    diffs: bytes | None = None


@dataclass
class JsonTable:
    """A fresh table `t` on a server and what it wrote to the log since."""

    server: MySqlServer
    database: str = field(init=False)

    def __post_init__(self) -> None:
        self.database = self.server.new_database("json")
        self.connection = self.server.connect(database=self.database)
        self.execute(TABLE)
        self.start = self.execute("SHOW BINARY LOG STATUS")[0][:2]

    def execute(self, statement: str, arguments: Any = None) -> tuple[tuple[Any, ...], ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            return tuple(cursor.fetchall())

    def insert(self, documents: list[str]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%s, %s)", list(enumerate(documents)))

    def shown(self) -> dict[int, str | None]:
        """What SELECT shows, by id."""
        return dict(self.execute("SELECT id, j FROM t"))

    def logged(self) -> Iterator[Image]:
        """Every row change of this server since the table was made; no other table may be written meanwhile."""
        stream = BinlogStream(
            self.server.connect(), server_id=7_001, file=self.start[0], position=self.start[1], until_end=True
        )
        try:
            while True:
                chunk = stream.read(5)
                for i in range(len(chunk.type) if chunk else 0):
                    body = chunk.data[chunk.start[i] + events.HEADER_SIZE : chunk.end[i]].tobytes()
                    yield from _images(int(chunk.type[i]), body)
        except EndOfLog:
            return
        finally:
            stream.close()
            self.connection.close()


def _images(kind: int, body: bytes) -> Iterator[Image]:
    if kind not in (events.WRITE_ROWS_V2, events.UPDATE_ROWS_V2, events.PARTIAL_UPDATE_ROWS):
        return
    at = 8 + struct.unpack_from("<H", body, 8)[0] + 1  # table id, flags, extra data, number of columns (2)
    at += 1 if kind == events.WRITE_ROWS_V2 else 2
    while at < len(body):
        row, value, at = _row(body, at)
        if kind == events.WRITE_ROWS_V2:
            yield Image(row, after=value)
            continue
        partial = False
        if kind == events.PARTIAL_UPDATE_ROWS:
            options, at = body[at], at + 1
            if options & 1:
                partial, at = bool(body[at]), at + 1
        row, new, at = _row(body, at)
        yield Image(row, value, diffs=new) if partial else Image(row, value, new)


def _row(body: bytes, at: int) -> tuple[int, bytes | None, int]:
    row = struct.unpack_from("<i", body, at + 1)[0]
    if body[at] & 2:
        return row, None, at + 5
    length = struct.unpack_from("<I", body, at + 5)[0]
    return row, body[at + 9 : at + 9 + length], at + 9 + length
