"""Tables that somebody dropped in the sink between two runs: the start says what to do, and that works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from transform_rules import text

from cdc import events as on
from cdc.block import ChangeBlock, Stream
from cdc.errors import SinkError
from cdc.flow.middle import Middle
from cdc.job.sink_tables import SinkTables
from cdc.offsets import numbered
from cdc.route import RouteTable, StoredRule
from cdc.schema import Column, CreateTable, DataType, DropTable, TableId, TableSchema
from cdc.sink import Prepared
from cdc.source import Context, Order, Snapshots
from cdc.state.directory import StateDir
from cdc.tables.requests import Mailbox, RequestKind
from cdc.testing import ListSource, block, run_in_memory
from cdc.testing.local_pipeline import LocalPipeline
from cdc.transform.rules import Rules
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink

pytestmark = pytest.mark.usefixtures("files_stay_open")

ORDERS, OTHERS = TableId("shop", "orders"), TableId("shop", "others")
SMALL = TableSchema((Column("id", DataType.parse("INT"), nullable=False),), ("id",))


def rows(*numbers: int, table: TableId = ORDERS, sequence: int = 1) -> ChangeBlock:
    return block(table, SMALL, [("+I", {"id": number}) for number in numbers], sequence=sequence)


class Live(ListSource):
    """Copies what `now` says after all else that there is, each request once."""

    def __init__(self, items: Sequence[Any], now: dict[TableId, ChangeBlock]) -> None:
        super().__init__(items)
        self.now, self.requests = now, dict[str, TableId]()

    def snapshots(self, table: TableId) -> Snapshots:
        return Snapshots.ALWAYS

    def order(self, orders: Mapping[TableId, Order]) -> None:
        for table, order in orders.items():
            if order.id in self.requests:
                continue
            self.requests[order.id] = table
            copied = replace(self.now[table], streams=frozenset({Stream.SNAPSHOT_ROWS}))
            self._items = (*self._items, on.SnapshotBegun(table), copied, on.SnapshotDone(table))


class Failing(DuckDbSink):
    """Stops at the commit of one batch, for good."""

    batch = -1

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> Any:
        if batch == self.batch:
            raise SinkError("the power went")
        return super().commit(batch, prepared)


class Life:
    def __init__(self, folder: Path, source: Live, middle: Middle | None = None) -> None:
        self.state, self.source, self.middle = StateDir(folder / "state"), source, middle or Middle()
        self.file = str(folder / "one.duckdb")
        self.start: Any = None
        self.batches = 0

    def sink(self) -> Failing:
        options = DuckDbSinkOptions(type="duckdb", path=self.file)
        return Failing(options, Context("p-1", self.state.sink))

    def run(self, failing: int = -1) -> None:
        sink = self.sink()
        sink.batch = failing
        done = run_in_memory(
            self.source, sink, state=self.state.root, start=self.start, first_batch=self.batches, middle=self.middle
        )
        self.start, self.batches = done.offset, self.batches + done.batches

    def check(self) -> None:
        """As a run does before it commits anything."""
        routed: dict[TableId, set[TableId]] = {}
        for table in (ORDERS, OTHERS):
            for place in self.middle.routes(table):
                routed.setdefault(place, set()).add(table)
        SinkTables(self.source, self.sink(), self.state, "one.duckdb", self.middle).restore(routed)

    def sql(self, statement: str) -> list[Any]:
        with duckdb.connect(self.file) as connection:
            return connection.execute(statement).fetchall()

    def resync(self, *tables: TableId) -> None:
        """As `cdc resync`."""
        for table in tables:
            Mailbox(self.state.store).add(table, RequestKind.SNAPSHOT)


def test_the_command_that_is_named_brings_the_table_back(tmp_path: Path) -> None:
    life = Life(tmp_path, Live([CreateTable(ORDERS, SMALL), rows(1, 2)], {ORDERS: rows(2, 3, sequence=9)}))
    life.run()
    life.sql("DROP TABLE shop.orders")
    with pytest.raises(SinkError, match=r"are missing, or not visible.*: shop\.orders") as caught:
        life.check()
    assert "`cdc resync FILE shop.orders`" in caught.value.hint
    life.resync(ORDERS)
    life.check()
    life.check()
    life.run()
    assert life.sql("SELECT id FROM shop.orders ORDER BY id") == [(2,), (3,)]


def test_it_is_created_as_its_rule_says(tmp_path: Path) -> None:
    life = Life(tmp_path, Live([CreateTable(ORDERS, SMALL), rows(1)], {ORDERS: rows(1, sequence=9)}))
    life.run()
    life.sql("DROP TABLE shop.orders")
    life.resync(ORDERS)
    created: list[Any] = []
    sink = life.sink()
    sink.apply = lambda batch, changes: created.extend(changes)  # type: ignore[method-assign]
    texts = RuleTexts(table_options=text("replication_num=1,x=y"), partition_keys=text("id"))
    rules = Rules([RuleSource("transform[0]", "shop.orders", texts)], RuleSettings())
    found = SinkTables(life.source, sink, life.state, life.file, Middle(rules=rules))
    found.restore({ORDERS: [ORDERS]})
    assert created == [CreateTable(ORDERS, SMALL, (("replication_num", "1"), ("x", "y")), ("id",))]


def test_a_decided_batch_with_rows_for_it_does_not_stand_in_the_way(tmp_path: Path) -> None:
    source = Live([CreateTable(ORDERS, SMALL), CreateTable(OTHERS, SMALL), rows(1)], {ORDERS: rows(1, 2, sequence=9)})
    life = Life(tmp_path, source)
    life.run()
    source._items = (*source._items, rows(2, sequence=2), rows(7, table=OTHERS, sequence=2))
    with pytest.raises(SinkError, match="the power went"):
        life.run(failing=1)
    life.sql("DROP TABLE shop.orders")
    with pytest.raises(SinkError, match=r"`cdc resync FILE shop\.orders`"):
        life.check()
    life.resync(ORDERS)
    life.check()
    goes_on = LocalPipeline(source, life.sink(), life.state.root, {}, life.sink)
    goes_on.plan(numbered({"item": 3}, 1), numbered({"item": 5}, 2))  # decided by the run before
    at, batch = {"item": 5}, 3
    goes_on.batch(numbered(at, 2), numbered(at, 3), 1)  # takes the request in
    while (end := goes_on.latest(at, batch)) != at:
        goes_on.batch(numbered(at, batch), numbered(end, batch + 1), 1)
        at, batch = end, batch + 1
    goes_on.finish(batch, at)
    assert life.sql("SELECT id FROM shop.orders ORDER BY id") == [(1,), (2,)]
    assert life.sql("SELECT id FROM shop.others") == [(7,)]


def test_every_table_that_went_there_is_copied(tmp_path: Path) -> None:
    merged = Middle(RouteTable([StoredRule(r"shop.\.*", "ods.all")]))
    items = [CreateTable(ORDERS, SMALL), CreateTable(OTHERS, SMALL), rows(1), rows(7, table=OTHERS)]
    now = {ORDERS: rows(1, sequence=9), OTHERS: rows(7, table=OTHERS, sequence=9)}
    life = Life(tmp_path, Live(items, now), merged)
    life.run()
    life.sql("DROP TABLE ods.all")
    life.resync(ORDERS)
    life.check()
    life.run()
    assert life.sql("SELECT id FROM ods.all ORDER BY id") == [(1,), (7,)]


def test_tables_that_a_batch_has_dropped_itself_before_a_crash_are_not_missed(tmp_path: Path) -> None:
    life = Life(tmp_path, Live([CreateTable(ORDERS, SMALL), rows(1)], {}))
    life.run()
    life.source._items = (*life.source._items, DropTable(ORDERS))
    life.sink().apply(1, [DropTable(ORDERS)])  # and the power went
    life.check()
    life.run()
    assert life.sql("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'orders'") == [(0,)]


def test_what_is_put_back_may_be_dropped_again_before_a_batch_comes(tmp_path: Path) -> None:
    noted = TableSchema((*SMALL.columns, Column("note", DataType.parse("STRING"))), ("id",))
    first = block(ORDERS, noted, [("+I", {"id": 1, "note": "a"})], sequence=1)
    again = block(ORDERS, noted, [("+I", {"id": 2, "note": "b"})], sequence=9)
    life = Life(tmp_path, Live([CreateTable(ORDERS, noted), first], {ORDERS: again}))
    life.run()
    for _ in range(2):
        life.sql("ALTER TABLE shop.orders DROP COLUMN note")
        life.check()
        assert life.sql("SELECT id, note FROM shop.orders") == [(1, None)]
    life.sql("DROP TABLE shop.orders")
    with pytest.raises(SinkError, match=r"are missing, or not visible.*: shop\.orders"):
        life.check()
    life.resync(ORDERS)
    for _ in range(2):
        life.check()
        assert life.sql("SELECT id, note FROM shop.orders") == []
        life.sql("DROP TABLE shop.orders")
    life.check()
    life.run()
    assert life.sql("SELECT id, note FROM shop.orders") == [(2, "b")]
