"""The source copies tables and follows them, through the contract alone: batches read in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.schema import TableId
from cdc.services.server import MySqlServer
from cdc.source import Context, Limits, Offset
from cdc.testing import ListSink, Run, run_in_memory
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql

LIMITS = Limits(1 << 26, 400)


class Shop:
    """A database and a pipeline from it into a list."""

    def __init__(self, server: MySqlServer, folder: Path) -> None:
        self.server, self.folder, self.sink = server, folder, ListSink()
        self.database = server.new_database("copy")
        self.options: dict[str, Any] = {"scan.incremental.snapshot.chunk.size": 100}
        self.offset: Offset | None = None
        self.batches = 0

    def run(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def source(self) -> MySqlSource:
        server = self.server
        fields = {
            "type": "mysql", "hostname": server.host, "port": server.port, "username": server.user,
            "password": server.password, "tables": rf"{self.database}.\.*", "tls.mode": "disabled",
        }  # fmt: skip
        options = MySqlSourceOptions.model_validate({**fields, **self.options})
        return MySqlSource(options, Context("copy-1", self.folder))

    def catch_up(self, limits: Limits | None = LIMITS, parallelism: int = 3) -> Run:
        source = self.source()
        source.stop_at_current()
        run = run_in_memory(
            source, self.sink, limits=limits, parallelism=parallelism, start=self.offset, first_batch=self.batches
        )
        self.offset, self.batches = run.offset, self.batches + run.batches
        return run

    def table(self, name: str) -> TableId:
        return TableId(self.database, name)

    def differs(self, name: str, columns: str) -> bool:
        source = self.server.execute(f"SELECT {columns} FROM {name}", database=self.database)
        names = columns.split(", ")
        sink = [tuple(row[column] for column in names) for row in self.sink.rows(self.table(name))]
        return sorted(map(repr, source)) != sorted(map(repr, sink))


@pytest.fixture
def shop(any_server: MySqlServer, tmp_path: Path) -> Shop:
    return Shop(any_server, tmp_path)


def numbers(count: int) -> str:
    return ", ".join(f"({number}, 'row {number}')" for number in range(count))


def test_tables_are_copied_and_then_followed(shop: Shop) -> None:
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(1000)}")
    shop.run("CREATE TABLE k (code VARCHAR(20) PRIMARY KEY, id INT)")
    shop.run("INSERT INTO k SELECT name, id FROM t")
    shop.run(
        "CREATE TABLE nothing (id INT PRIMARY KEY)", "CREATE TABLE keyless (a INT)", "INSERT INTO keyless SELECT 7"
    )
    run = shop.catch_up()
    assert run.inserts == 2001
    for name, columns in (("t", "id, name"), ("k", "code, id"), ("nothing", "id"), ("keyless", "a")):
        assert not shop.differs(name, columns)
    shop.run(
        "UPDATE t SET name = 'new' WHERE id < 10", "DELETE FROM t WHERE id > 990", "INSERT INTO nothing VALUES (1)"
    )
    run = shop.catch_up()
    assert (run.inserts, run.updates, run.deletes) == (1, 10, 9)
    assert not shop.differs("t", "id, name")
    assert shop.catch_up().batches == 0
