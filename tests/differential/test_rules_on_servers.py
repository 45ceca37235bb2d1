"""Rules between a server and a DuckDB file: the file holds what SELECT with the same expressions gives on the server.

Copy, log, schema changes, updates across the filter, tables without a key; every batch dies once at each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest

from cdc.flow.middle import Middle
from cdc.offsets import numbered
from cdc.options import SinkOptions, SourceOptions
from cdc.source import Context, Limits, Offset
from cdc.spec.check import check
from cdc.spec.rules import parsed_rules
from cdc.state.store import LocalStore
from cdc.testing import FailAt
from cdc.testing.local_pipeline import LocalPipeline
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql

LIMITS = Limits(1 << 20, 60)
TEXT = r"""
source:
  type: mysql
  hostname: {host}
  port: {port}
  username: {user}
  password: {password}
  tables: {database}.\.*
  tls.mode: disabled
  allow-public-key-retrieval: true
  scan.incremental.snapshot.chunk.size: 40
  metadata.list: op_ts, binlog_file, binlog_pos, server_id, gtid
sink:
  type: duckdb
  path: {path}
transform:
  - source-table: {database}.orders
    projection: |
      id AS number, \*, price * qty AS total, binlog_file, binlog_pos, server_id, gtid,
      CASE WHEN qty > 10 THEN 'many' ELSE 'few' END AS amount
    filter: qty > 2 AND price IS NOT NULL
  - source-table: {database}.log
    projection: line, qty + 1 AS more
    filter: qty <> 5
pipeline:
  schema.change.behavior: evolve
"""


class Shop:
    """A database, and a pipeline from it into a file, in lives of one process that go on after each other."""

    def __init__(self, server: MySqlServer, folder: Path) -> None:
        self.server, self.folder, self.database = server, folder, server.new_database("rules")
        self._offset: Offset | None = None
        self._batch = 0

    def run(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def catch_up(self, failures: Sequence[FailAt] = ()) -> None:
        """Read what the log holds now; every batch meets each of the failures."""
        server = self.server
        text = TEXT.format(
            host=server.host, port=server.port, user=server.user, password=server.password, database=self.database,
            path=self.folder / "shop.duckdb",
        )  # fmt: skip
        spec = check(str(self.folder / "rules.yaml"), text.encode(), env={}).spec
        assert isinstance(spec.source, SourceOptions)
        assert isinstance(spec.sink, SinkOptions)
        source = spec.source.build(Context("rules-1", LocalStore(self.folder / "source")))
        context = Context("rules-1", LocalStore(self.folder / "sink"))
        build = spec.sink.build
        source.stop_at_current()
        at: Offset = source.initial_offset() if self._offset is None else self._offset
        pipeline = LocalPipeline(
            source, build(context), self.folder / "engine", numbered(at, self._batch), lambda: build(context),
            Middle(rules=parsed_rules(spec)),
        )  # fmt: skip
        while (end := pipeline.latest(at, self._batch, LIMITS)) != at:
            pipeline.batch(numbered(at, self._batch), numbered(end, self._batch + 1), 2, failures)
            source.commit(end)
            at, self._batch = end, self._batch + 1
        pipeline.finish(self._batch, at)
        source.stop()
        self._offset = at

    def same(self, table: str, there: str, here: str, where: str) -> None:
        """What the server computes is what the file holds."""
        expected = self.server.execute(f"SELECT {there} FROM {table} WHERE {where}", database=self.database)
        with duckdb.connect(str(self.folder / "shop.duckdb"), read_only=True) as file:
            found = file.execute(f'SELECT {here} FROM "{self.database}"."{table}"').fetchall()
        assert sorted(map(repr, found)) == sorted(repr(tuple(row)) for row in expected)


def orders(first: int, count: int) -> str:
    rows = ", ".join(f"({n}, {n % 7}.50, {n % 20}, 'note {n}')" for n in range(first, first + count))
    return f"INSERT INTO orders VALUES {rows}"


ORDERS = "id, {}, qty, price, price * qty, IF(qty > 10, 'many', 'few')"


def test_the_sink_holds_what_the_expressions_give_on_the_server(any_server: MySqlServer, tmp_path: Path) -> None:
    shop = Shop(any_server, tmp_path)
    shop.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(10, 2), qty INT, note VARCHAR(20))",
        "CREATE TABLE log (line VARCHAR(20), qty INT)",
        orders(1, 150),
        "INSERT INTO log VALUES ('a', 1), ('b', 5), ('c', 7), ('d', NULL)",
    )
    shop.catch_up([FailAt.PREPARED])
    shop.same("orders", ORDERS.format("note"), "number, note, qty, price, total, amount", "qty > 2 AND price >= 0")
    shop.run(
        orders(151, 30),
        "UPDATE orders SET qty = qty + 3 WHERE id % 3 = 0",
        "UPDATE orders SET qty = 0 WHERE id % 5 = 0",
        "UPDATE orders SET id = id + 1000, price = NULL WHERE id % 11 = 0",
        "DELETE FROM orders WHERE id % 13 = 0",
        "UPDATE log SET qty = 5 WHERE line = 'c'",
        "UPDATE log SET qty = 6 WHERE line = 'b'",
        "UPDATE log SET line = 'e' WHERE qty = 1",
        "ALTER TABLE orders RENAME COLUMN note TO remark, ADD COLUMN extra INT DEFAULT 4 AFTER id",
        "INSERT INTO orders (id, price, qty, remark, extra) VALUES (5001, 2, 30, 'late', 1), (5002, 2, 1, 'out', 2)",
        "UPDATE orders SET qty = 4 WHERE id = 5002",
        "ALTER TABLE orders MODIFY qty BIGINT",
        "UPDATE orders SET qty = 3000000000 WHERE id = 5001",
    )
    shop.catch_up(list(FailAt))
    there = ORDERS.format("remark, extra")
    shop.same("orders", there, "number, remark, extra, qty, price, total, amount", "qty > 2 AND price IS NOT NULL")
    shop.same("log", "line, qty + 1", "line, more", "qty <> 5")
    with duckdb.connect(str(tmp_path / "shop.duckdb"), read_only=True) as file:
        copied = file.execute(f'SELECT gtid, server_id FROM "{shop.database}".orders WHERE number = 4').fetchall()
        ((name, position, server, gtid),) = file.execute(
            f'SELECT binlog_file, binlog_pos, server_id, gtid FROM "{shop.database}".orders WHERE number = 5001'
        ).fetchall()
    assert copied == [(None, None)]
    assert (server,) == tuple(any_server.execute("SELECT @@server_id")[0])
    events = any_server.execute(f"SHOW BINLOG EVENTS IN '{name}'")
    assert any(later[1] == position and "rows" in event[2].lower() for event, later in pairwise(events))
    assert gtid
