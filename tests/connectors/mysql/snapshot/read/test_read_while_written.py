"""Chunks read while others write: each one equals the log, applied up to the position that it names."""

from __future__ import annotations

import random
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
import pytest
from chunk_reads import ChunkReads, Row
from decoded import decode, definitions, logged
from servers import ServerFactory

from cdc.block import RowKind
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.snapshot.chunk import Chunk, Watermark
from connectors.mysql.snapshot.read.read_settings import ReadSettings

pytestmark = pytest.mark.mysql

_TABLES = (
    "CREATE TABLE numbered (id INT PRIMARY KEY, note VARCHAR(30))",
    "CREATE TABLE named (id VARCHAR(20) PRIMARY KEY, note VARCHAR(30))",
    "CREATE TABLE keyless (id INT, note VARCHAR(30))",
)
_KEYS = 60
_GONE = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


class Writer(threading.Thread):
    """Writes transactions until told to stop."""

    def __init__(self, server: MySqlServer, database: str, table: str, seed: int, pause_s: float) -> None:
        super().__init__()
        self._connection = server.connect(database=database, autocommit=False)
        self._table, self._rng, self._pause_s = table, random.Random(seed), pause_s
        self.stopping, self.transactions = threading.Event(), 0

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with self._connection.cursor() as cursor:
                    for _ in range(self._rng.choice([1, 1, 2, 6])):
                        cursor.execute(self._statement())
                if self._rng.random() < 0.1:
                    self._connection.rollback()
                else:
                    self._connection.commit()
                self.transactions += 1
            except (pymysql.err.IntegrityError, pymysql.err.OperationalError):  # a key that is there, a deadlock
                self._connection.rollback()
            self.stopping.wait(self._pause_s * self._rng.random())
        self._connection.close()

    def _key(self) -> str:
        number = self._rng.randrange(_KEYS)
        return f"'{self._rng.choice(['Key', 'key', 'KEY'])}{number:03}'" if self._table == "named" else str(number)

    def _statement(self) -> str:
        note = f"'{self._rng.getrandbits(60)}'"
        return self._rng.choice(
            [
                f"INSERT INTO {self._table} VALUES ({self._key()}, {note})",
                f"UPDATE {self._table} SET note = {note} WHERE id = {self._key()}",
                f"UPDATE {self._table} SET id = {self._key()} WHERE id = {self._key()}",
                f"DELETE FROM {self._table} WHERE id = {self._key()}",
            ]
        )


@contextmanager
def _writing(server: MySqlServer, database: str, *, keyless: bool) -> Iterator[list[Writer]]:
    tables = [("numbered", 0.002), ("numbered", 0.002), ("named", 0.002), ("keyless", 0.1)][: 3 + keyless]
    writers = [Writer(server, database, table, seed, pause_s) for seed, (table, pause_s) in enumerate(tables)]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.stopping.set()
        for writer in writers:
            writer.join()


@dataclass
class Found:
    """A chunk as it was read."""

    chunk: Chunk
    rows: list[Row]
    report: Watermark
    took_from_log: bool


def _chunks(database: str) -> list[tuple[Chunk, Callable[[Any], bool]]]:
    numbered, named, keyless = (TableId(database, name) for name in ("numbered", "named", "keyless"))
    numbers: dict[str, Any] = {"columns": ("id",), "collations": (None,)}
    return [
        (Chunk(1, numbered), lambda key: True),
        (Chunk(2, numbered, lower=(20,), upper=(40,), **numbers), lambda key: 20 < key <= 40),
        (Chunk(3, named, lower=None, upper=("kEy030",), columns=("id",)), lambda key: key.lower() <= "key030"),
        (Chunk(4, keyless), lambda key: True),
    ]


def _read_all(server: MySqlServer, rounds: int, settings: ReadSettings, *, keyless: bool = True) -> tuple[int, int]:
    """Read chunks while writers write, then compare with the log; chunks with a window, and transactions."""
    database = server.new_database("written")
    server.execute(*_TABLES, database=database)
    known = definitions(server, database)
    found: list[Found] = []
    with logged(server) as chunks:
        reads = ChunkReads(server)
        collation = reads.ask(
            f"SELECT collation_name FROM information_schema.columns WHERE table_schema = '{database}' "
            "AND table_name = 'named' AND column_name = 'id'"
        )[0]
        with _writing(server, database, keyless=keyless) as writers:
            while min(writer.transactions for writer in writers) < 30:
                time.sleep(0.01)
            for _ in range(rounds):
                for chunk, _ in _chunks(database)[: 3 + keyless]:
                    if chunk.columns and not chunk.collations:
                        chunk = Chunk(**{**_fields(chunk), "collations": (str(collation),)})
                    streams = reads.streams
                    rows, report = reads.read(known[chunk.table], chunk, settings)
                    found.append(Found(chunk, rows, report, reads.streams > streams))
    belongs = {chunk.number: belongs for chunk, belongs in _chunks(database)}
    log = decode(known, chunks, database=database)
    for table in {entry.chunk.table for entry in found}:
        _compare([entry for entry in found if entry.chunk.table == table], log.blocks, belongs)
    return sum(entry.took_from_log for entry in found), sum(writer.transactions for writer in writers)


def _fields(chunk: Chunk) -> dict[str, Any]:
    return {name: getattr(chunk, name) for name in chunk.__slots__}


def _compare(found: list[Found], blocks: Any, belongs: dict[int, Callable[[Any], bool]]) -> None:
    """Every chunk's rows are those of the log up to its position."""
    table = found[0].chunk.table
    changes: list[tuple[int, int, Row]] = []
    for block in blocks:
        if block.table == table:
            rows = zip(*(column.to_pylist() for column in block.rows.columns), strict=True)
            changes += zip(block.sequence.to_pylist(), block.kinds.to_pylist(), rows, strict=True)
    sequences = [sequence for sequence, _, _ in changes]
    assert sequences == sorted(sequences)
    assert len(changes) > 20
    for entry in found:
        assert entry.report.done
        image: Counter[Row] = Counter()
        for _, kind, row in changes[: bisect_right(sequences, entry.report.sequence)]:
            image[row] += -1 if kind in _GONE else 1
        assert min(image.values(), default=0) >= 0
        expected = Counter(
            {row: count for row, count in image.items() if count and belongs[entry.chunk.number](row[0])}
        )
        assert Counter(entry.rows) == expected, entry.report
        assert entry.report.rows == len(entry.rows)


def test_every_chunk_is_the_table_at_its_position(any_server: MySqlServer) -> None:
    windows, transactions = _read_all(any_server, 12, ReadSettings())
    assert transactions > 100
    if any_server.flavor == "mysql":
        assert windows > 5
    else:
        assert windows == 0


@pytest.mark.slow
def test_without_gtids(server_factory: ServerFactory) -> None:
    server = server_factory("mysql", extra_args=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"])
    windows, _ = _read_all(server, 6, ReadSettings(margin_s=0.2), keyless=False)
    assert windows > 5


@pytest.mark.slow
def test_when_commits_are_slow(server_factory: ServerFactory) -> None:
    """The log is flushed well before transactions are committed: the end of the log runs ahead of what a view shows."""
    options = ["--binlog-group-commit-sync-delay=20000", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"]
    windows, _ = _read_all(server_factory("mysql", extra_args=options), 10, ReadSettings())
    assert windows > 5
