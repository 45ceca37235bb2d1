"""Schema changes carried out: jobs, crashes in the middle, refusals; values of rows that are there."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from doris_harness import Harness
from doris_servers import DorisServer, own_doris
from sink_calls import created
from tiers import crossed

from cdc.errors import ChangeRefused, SinkUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    Kind,
    Position,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.testing.blocks import block
from cdc.testing.delivery_conformance import ID, KEYED, NAME, ORDERS, by_id, keyed, prepare, row
from connectors.doris import settings
from connectors.doris.schemas import DorisSchemas

pytestmark = pytest.mark.slow
NUMBER = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[DorisServer]:
    with own_doris() as running:
        yield running


@pytest.fixture
def harness(server: DorisServer, tmp_path: Path) -> Iterator[Harness]:
    server.query("DROP DATABASE IF EXISTS shop FORCE")
    yield Harness(server, tmp_path / "sink", f"ddl-{next(NUMBER)}")
    server.own.clear()


def filled(harness: Harness) -> Any:
    """A sink with two rows in the suite's table."""
    sink = harness.sink()
    sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"), "+I", row(2, "b"))], create=True))
    return sink


HEAVY = AlterColumnType(ORDERS, Column("name", DataType(Kind.STRING)), NAME)
WIDER_KEY = AlterColumnType(ORDERS, Column("id", DataType(Kind.BIGINT_UNSIGNED), nullable=False), ID)
EVERY: list[SchemaChange] = [
    AddColumn(ORDERS, Column("qty", DataType(Kind.INT), default="7", comment="how many"), Position(after="id")),
    AlterColumnType(ORDERS, Column("name", DataType(Kind.VARCHAR, 128)), NAME),
    WIDER_KEY,
    RenameColumn(ORDERS, "name", "title"),
    AlterTableComment(ORDERS, "all orders"),
    AlterColumnType(ORDERS, Column("qty", DataType(Kind.DECIMAL, 12, 2)), Column("qty", DataType(Kind.INT))),
    AlterPrimaryKey(ORDERS, ("title",)),
    RenameTable(ORDERS, TableId("shop", "sales")),
    DropColumn(TableId("shop", "sales"), "id"),
]


def check_every(harness: Harness) -> None:
    """The tables after `EVERY`."""
    assert harness.rows(ORDERS) is None
    found = harness.rows(TableId("shop", "sales"))
    assert found is not None
    assert [(item["title"], float(item["qty"])) for item in sorted(found, key=str)] == [("a", 7.0), ("b", 7.0)]
    schema = harness.sink().describe(TableId("shop", "sales"))
    assert schema is not None
    assert schema.primary_key == ("title",)
    assert schema.comment == "all orders"
    assert sorted(schema.names) == ["qty", "title"]
    assert schema.column("title").type.kind is Kind.STRING


def test_every_change_in_a_row(harness: Harness) -> None:
    filled(harness).apply(0, EVERY)
    check_every(harness)
    assert harness.sink().plan_text([CreateTable(TableId("shop", "new"), KEYED)])


@crossed("statement, point", range(9), ["sql", "sql.done"])
def test_a_crash_at_any_statement_is_made_good(harness: Harness, point: str, statement: int) -> None:
    filled(harness)
    like = [
        "ADD COLUMN", "MODIFY COLUMN `name`", "CAST(`id` AS LARGEINT)", "RENAME COLUMN", "MODIFY COMMENT",
        "CAST(`qty`", "REPLACE WITH TABLE", "RENAME `sales`", "DROP COLUMN",
    ][statement]  # fmt: skip
    harness.server.own.fault(point, action="cut", like=like)
    with pytest.raises(SinkUnavailable):
        harness.sink().apply(0, EVERY)
    harness.sink().apply(0, EVERY)
    check_every(harness)


def test_a_job_that_an_earlier_run_started_is_waited_for(harness: Harness) -> None:
    filled(harness)
    harness.server.own.fault("job", action="hold")
    harness.server.own.fault("sql", action="cut", like="SHOW ALTER TABLE COLUMN FROM `shop` WHERE TableName = 'orders'")
    with pytest.raises(SinkUnavailable):
        harness.sink().apply(0, [HEAVY])
    harness.server.query("ALTER TABLE shop.orders MODIFY COLUMN name STRING NULL")
    applying = threading.Thread(target=harness.sink().apply, args=(0, [HEAVY]))
    applying.start()
    harness.server.own.release("job")
    applying.join(60)
    assert not applying.is_alive()
    schema = harness.sink().describe(ORDERS)
    assert schema is not None
    assert schema.column("name").type.kind is Kind.STRING
    assert by_id(harness.rows(ORDERS)) == [row(1, "a"), row(2, "b")]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


def test_a_job_that_takes_too_long_says_what_it_waits_for(harness: Harness) -> None:
    sink = filled(harness)
    other = Harness(harness.server, harness.state, harness.pipeline + "-other").sink()
    held = prepare(other, 0, [keyed("+I", row(3))])
    clock = Clock()
    with sink._sql.session() as session:
        session.run("ALTER TABLE shop.orders MODIFY COLUMN name STRING NULL")
        waits = RetryPolicy(30.0, sleep=clock.sleep, clock=clock)
        schemas = DorisSchemas(session, settings.dialect(sink._options), waits, sink._wait_until_visible)
        with pytest.raises(SinkUnavailable, match="30 s") as caught:
            schemas.wait_for_earlier([ORDERS])
    assert "WAITING_TXN" in caught.value.message
    assert "SHOW TRANSACTION" in caught.value.hint
    other.commit(0, held)
    harness.sink().apply(0, [HEAVY])
    assert by_id(harness.rows(ORDERS)) == [row(1, "a"), row(2, "b"), row(3)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (AlterColumnType(ORDERS, Column("name", DataType(Kind.INT)), NAME), "come out differently|does not convert"),
        (AlterColumnType(ORDERS, Column("name", DataType(Kind.VARCHAR, 0)), NAME), "longer than"),
        (RenameTable(ORDERS, TableId("other", "orders")), "another database"),
    ],
)
def test_a_change_that_would_bend_values_is_refused(harness: Harness, change: SchemaChange, reason: str) -> None:
    sink = filled(harness)
    with pytest.raises(ChangeRefused, match=reason) as caught:
        sink.apply(0, [change])
    assert caught.value.hint
    assert by_id(harness.rows(ORDERS)) == [row(1, "a"), row(2, "b")]


def test_what_the_server_refuses_comes_with_its_reason(harness: Harness) -> None:
    sink = filled(harness)
    harness.server.own.fault(
        "sql", action="refuse", like="ADD COLUMN", message="errCode = 2, detailMessage = not today"
    )
    with pytest.raises(ChangeRefused, match="not today") as caught:
        sink.apply(0, [AddColumn(ORDERS, Column("x", DataType(Kind.INT)))])
    assert "ADD COLUMN `x`" in caught.value.hint
    with pytest.raises(ChangeRefused, match="Incorrect column name") as caught:
        sink.apply(0, [AddColumn(ORDERS, Column("größe", DataType(Kind.INT)))])
    assert "enable_unicode_name_support" in caught.value.hint


def test_nothing_is_left_of_a_copy_that_is_refused_on_its_way(harness: Harness) -> None:
    """The source's table is then copied beside instead, and nobody would ever take the half one away."""
    sink = filled(harness)
    harness.server.own.fault("sql", action="refuse", like="INSERT INTO", message="errCode = 2, detailMessage = no")
    with pytest.raises(ChangeRefused, match="no"):
        sink.apply(0, [AlterPrimaryKey(ORDERS, ("id", "name"))])
    tables = harness.server.own.query(f"SHOW TABLES FROM `{ORDERS.database}`")
    assert [name for (name,) in tables if "cdc_" in name] == []
    assert by_id(harness.rows(ORDERS)) == [row(1, "a"), row(2, "b")]


def test_a_column_of_nulls_may_become_anything(harness: Harness) -> None:
    sink = harness.sink()
    sink.commit(0, prepare(sink, 0, [keyed("+I", row(1))], create=True))
    number = Column("name", DataType(Kind.INT))
    sink.apply(0, [AlterColumnType(ORDERS, number, NAME)])
    schema = TableSchema((ID, number), ("id",))
    sink.commit(1, prepare(sink, 1, [block(ORDERS, schema, [("+I", {"id": 2, "name": 5})])]))
    assert by_id(harness.rows(ORDERS)) == [row(1), {"id": 2, "name": 5}]


def test_a_truncate_that_is_repeated_does_not_take_the_rows_after_it(harness: Harness) -> None:
    sink = filled(harness)
    changes = [TruncateTable(ORDERS)]
    sink.apply(0, changes)
    prepared = prepare(sink, 1, [keyed("+I", row(3))])
    harness.sink().apply(0, changes)
    sink.commit(1, prepared)
    assert harness.rows(ORDERS) == [row(3)]


def test_a_table_made_by_hand_is_filled_as_it_is(harness: Harness) -> None:
    harness.server.query("CREATE DATABASE shop")
    harness.server.query(
        "CREATE TABLE shop.orders (id LARGEINT NOT NULL, name STRING NULL, at DATETIME NULL DEFAULT CURRENT_TIMESTAMP) "
        "UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 3 PROPERTIES ('replication_num' = '1')"
    )
    sink = created(harness.sink(), ORDERS, KEYED)
    sink.commit(0, prepare(sink, 0, [keyed("+I", row(1, "a"))]))
    sink.commit(1, prepare(sink, 1, [keyed("-U", row(1, "a"), "+U", row(2, "b"))]))
    found = harness.rows(ORDERS)
    assert found is not None
    assert [(int(item["id"]), item["name"]) for item in found] == [(2, "b")]


def test_create_after_drop_is_a_new_table(harness: Harness) -> None:
    sink = filled(harness)
    other = replace(KEYED, primary_key=())
    sink.apply(0, [DropTable(ORDERS), CreateTable(ORDERS, other)])
    assert harness.rows(ORDERS) == []
    found = sink.describe(ORDERS)
    assert found is not None
    assert found.primary_key == ()


def test_keys_that_would_be_spelled_otherwise_stop_the_change(harness: Harness) -> None:
    """They are text here: rows that come later would not meet the rows that are there."""
    table, old = TableId("shop", "spelled"), Column("k", DataType.parse("TIME(0)"), nullable=False)
    schema = TableSchema((old, ID), ("k",))
    change = AlterColumnType(table, replace(old, type=DataType.parse("TIME(3)")), old)
    sink = created(harness.sink(), table, schema)
    sink.apply(0, [change, AlterColumnType(table, old, change.column)])
    sink.commit(0, prepare(sink, 0, [block(table, schema, [("+I", {"id": 1, "k": timedelta(hours=1)})])]))
    with pytest.raises(ChangeRefused, match="written differently"):
        sink.apply(0, [change])
