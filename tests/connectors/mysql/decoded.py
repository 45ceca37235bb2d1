"""What a real server logged and what it answers, side by side: helpers of the decoder tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from selected import selected

from cdc.block import ChangeBlock
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.stream import BinlogStream, EndOfLog
from connectors.mysql.rows.decoder import Decoder
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.table import MySqlTable
from connectors.mysql.value_rules import DEFAULT_RULES, ValueRules


@dataclass
class Decoded:
    """Blocks of a decoder, and what it counted."""

    blocks: list[ChangeBlock] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def table(self, table: TableId) -> pa.Table:
        """All row images of a table in log order."""
        return pa.Table.from_batches([block.rows for block in self.blocks if block.table == table])

    def kinds(self, table: TableId) -> list[int]:
        """Row kinds of a table in log order."""
        return [kind for block in self.blocks if block.table == table for kind in block.kinds.to_pylist()]

    def rows(self, table: TableId) -> list[tuple[Any, ...]]:
        """Row images as tuples of Python values."""
        columns = [column.to_pylist() for column in self.table(table).columns]
        return list(zip(*columns, strict=True))


def decode(
    tables: Mapping[TableId, MySqlTable],
    chunks: Sequence[ReceiveBuffer],
    *,
    database: str = "",
    rules: ValueRules = DEFAULT_RULES,
) -> Decoded:
    """Decode chunks; only tables of `database`, or all known ones."""
    found = Decoded()

    def count(name: str, number: int) -> None:
        found.counts[name] += number

    def wanted(table: TableId) -> bool:
        return table.database == database if database else table in tables

    decoder = Decoder(tables, captures=wanted, count=count, rules=rules)
    for chunk in chunks:
        for block in decoder.decode(chunk):
            block.rows.validate(full=True)
            found.blocks.append(block)
    return found


def definitions(server: MySqlServer, database: str) -> dict[TableId, MySqlTable]:
    """The definitions of a database's tables as the server has them now."""
    connection = server.connect()
    try:
        return read_tables(connection, lambda table: table.database == database)
    finally:
        connection.close()


def position(server: MySqlServer) -> tuple[str, int]:
    """The end of the server's log."""
    statement = "SHOW MASTER STATUS" if server.flavor == "mariadb" else "SHOW BINARY LOG STATUS"
    return server.execute(statement)[0][:2]


@contextmanager
def logged(server: MySqlServer) -> Iterator[list[ReceiveBuffer]]:
    """The chunks that the server logged while the block ran; they are in the list afterwards."""
    file, start = position(server)
    chunks: list[ReceiveBuffer] = []
    yield chunks
    stream = BinlogStream(
        server.connect(), server_id=4_000_000 + start % 90_000, file=file, position=start, until_end=True
    )
    try:
        while (chunk := stream.read(10.0)) is not None:
            chunks.append(chunk)
    except EndOfLog:
        pass
    finally:
        stream.close()


@dataclass(frozen=True)
class LoggedStatements:
    """A database of its own, with a table `t` in most cases, and what the server logged of the statements in it."""

    server: MySqlServer
    database: str
    chunks: list[ReceiveBuffer]

    @property
    def table(self) -> TableId:
        """The table `t`."""
        return TableId(self.database, "t")

    def definitions(self) -> dict[TableId, MySqlTable]:
        """The definitions of the tables as the server has them now."""
        return definitions(self.server, self.database)

    def decode(self, rules: ValueRules = DEFAULT_RULES) -> Decoded:
        """Decode all chunks."""
        return decode(self.definitions(), self.chunks, rules=rules)

    def rows(self) -> list[tuple[Any, ...]]:
        """The decoded row images of `t`."""
        return self.decode().rows(self.table)

    def selected(self) -> list[tuple[Any, ...]]:
        """The rows of `t` as the server has them now, by `id`."""
        return selected(self.server, self.definitions()[self.table], "id")


def executed(server: MySqlServer, *statements: str) -> LoggedStatements:
    """Execute statements in a new database."""
    database = server.new_database()
    with logged(server) as chunks:
        server.execute(*statements, database=database)
    return LoggedStatements(server, database, chunks)


def chunks_of(path: Path) -> list[ReceiveBuffer]:
    """The chunks of a recorded file."""
    from connectors.mysql.log.log_file import read_buffers

    return list(read_buffers(path))
