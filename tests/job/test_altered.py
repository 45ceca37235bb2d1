"""Sink tables that somebody altered between two runs are put back; the plan tells of them, and of edited rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.job.sink_tables import SinkTables
from cdc.planning.differences import notes_since
from cdc.planning.last_run import LastRun
from cdc.planning.run import changed_note
from cdc.schema import AddColumn, Column, CreateTable, DataType, DropColumn, TableId, TableSchema
from cdc.source import Context
from cdc.state.directory import StateDir
from cdc.testing import ListSource, block, run_in_memory
from cdc.transform.rules import Rules
from cdc.transform.sqltext import SqlText
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink

pytestmark = pytest.mark.usefixtures("files_stay_open")

ORDERS = TableId("shop", "orders")
SCHEMA = TableSchema(
    (Column("id", DataType.parse("INT"), nullable=False), Column("qty", DataType.parse("INT")),
     Column("note", DataType.parse("STRING"))), ("id",),
)  # fmt: skip


def rules(projection: str, condition: str = "") -> Rules:
    texts = RuleTexts(projection=SqlText(projection), filter=SqlText(condition) if condition else None)
    return Rules([RuleSource("transform[0]", "shop.orders", texts)], RuleSettings())


class Life:
    def __init__(self, folder: Path) -> None:
        self.state, self.file = StateDir(folder / "state"), str(folder / "one.duckdb")

    def sink(self) -> DuckDbSink:
        return DuckDbSink(DuckDbSinkOptions(type="duckdb", path=self.file), Context("p-1", self.state.sink))

    def run(self, made: Rules | None = None) -> None:
        first = block(ORDERS, SCHEMA, [("+I", {"id": 1, "qty": 2, "note": "a"})], sequence=1)
        run_in_memory(ListSource([CreateTable(ORDERS, SCHEMA), first]), self.sink(), state=self.state.root, rules=made)

    def check(self) -> None:
        SinkTables(ListSource([]), self.sink(), self.state, "one.duckdb", Middle()).restore({ORDERS: {ORDERS}})

    def sql(self, statement: str) -> list[Any]:
        with duckdb.connect(self.file) as connection:
            return connection.execute(statement).fetchall()

    def notes(self, made: Rules | None = None) -> list[str]:
        return list(notes_since(LastRun.read(self.state), made, self.sink()))


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def test_a_column_that_was_dropped_in_the_sink_is_put_back(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    life.run()
    life.check()
    assert life.notes() == [], "nothing is said of what is as it was left"
    assert caplog.messages == []
    assert LastRun.read(life.state).changed_tables({ORDERS: SCHEMA, TableId("shop", "new"): SCHEMA}) == []
    assert LastRun.read(life.state).changed_tables({ORDERS: TableSchema(SCHEMA.columns[:2], ("id",))}) == [ORDERS]
    assert changed_note([ORDERS]).startswith("the source has changed shop.orders: a run applies the changes")
    life.sql("ALTER TABLE shop.orders DROP COLUMN qty")
    life.sql("ALTER TABLE shop.orders ADD COLUMN loaded TIMESTAMP")
    (note,) = life.notes()
    assert note.startswith("shop.orders: qty was dropped in the sink: it is added again, NULL in existing rows; ")
    assert "loaded was added in the sink: it is left as it is" in note
    life.check()
    life.check()
    assert life.sql("SELECT id, qty, note, loaded FROM shop.orders") == [(1, None, "a", None)]
    (message,) = (text for text in caplog.messages if "qty was dropped" in text)
    assert "`cdc resync FILE TABLE` brings the values of qty" in message
    assert [note.split(":")[1].strip().partition(" ")[0] for note in life.notes()] == ["loaded"]


def test_a_column_that_has_become_too_narrow_is_told(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    life.run()
    life.sql("ALTER TABLE shop.orders ALTER qty TYPE TINYINT")
    (note,) = life.notes()
    assert note.startswith("shop.orders: a run would stop: ")
    assert "TINYINT" in note
    life.check()
    assert any("a table was altered in the sink" in text and "TINYINT" in text for text in caplog.messages)


def test_the_plan_says_what_edited_rules_leave_as_it_is(life: Life) -> None:
    life.run(rules("*, qty * 2 AS share", "qty > 0"))
    start = "shop.orders: the rules have changed: existing rows keep their values, "
    end = "; `cdc resync FILE shop.orders` re-snapshots it"
    assert life.notes(rules("*, qty * 2 AS share", "qty > 0")) == []
    assert life.notes(rules("*, qty * 3 AS share", "qty > 0")) == [f"{start}as the earlier rules computed share{end}"]
    assert life.notes(rules("*, qty * 2 AS share, 1 AS one", "qty > 0")) == [f"{start}without values in one{end}"]
    filtered = f"{start}those that the earlier filter rejected stay excluded{end}"
    assert life.notes(rules("*, qty * 2 AS share", "qty > 1")) == [filtered]
    assert life.notes(rules("*", "qty > 0")) == ["shop.orders: the rules have changed: share goes"]
    (wrong,) = life.notes(rules("*, nope AS share"))
    assert wrong.startswith("the rules do not fit the tables as of the last run: ")


def test_rules_that_are_new_are_told_too(life: Life) -> None:
    assert life.notes(rules("*, qty * 2 AS share")) == [], "there was no run before"
    life.run()
    (note,) = life.notes(rules("*, qty * 2 AS share"))
    assert "without values in share" in note


LEFT_OUT = Policy(Behavior.EVOLVE, exclude=("add.column",))
IGNORED = Policy(Behavior.IGNORE)
ADDING_NOTHING = pytest.mark.parametrize(
    ("policy", "why"),
    [(LEFT_OUT, "add.column is excluded by the sink's filters"), (IGNORED, "schema.change.behavior is ignore")],
)


@ADDING_NOTHING
def test_nothing_is_put_back_where_columns_may_not_be_added(life: Life, policy: Policy, why: str) -> None:
    life.run()
    life.sql("ALTER TABLE shop.orders DROP COLUMN qty")
    dropped = SinkTables(ListSource([]), life.sink(), life.state, "one.duckdb", Middle(policy=policy))
    with pytest.raises(ChangeRefused, match=rf"shop\.orders: the sink's table has no column qty, and {why}") as caught:
        dropped.restore({ORDERS: {ORDERS}})
    assert "add it to the table" in caught.value.hint
    assert [row[0] for row in life.sql("DESCRIBE shop.orders")] == ["id", "note"]
    life.sql("ALTER TABLE shop.orders ADD COLUMN qty INT")
    dropped.restore({ORDERS: {ORDERS}})


@ADDING_NOTHING
@pytest.mark.parametrize("made", ["CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT)", ""])
def test_nothing_is_added_to_a_table_made_by_hand_where_columns_may_not_be(
    life: Life, made: str, policy: Policy, why: str
) -> None:
    life.sql("CREATE SCHEMA shop")
    items = [CreateTable(ORDERS, SCHEMA), block(ORDERS, SCHEMA, [("+I", {"id": 1, "qty": 2})])]
    middle = Middle(policy=policy)
    if made:
        life.sql(made)
        with pytest.raises(ChangeRefused, match=f"has no column qty, and {why}"):
            run_in_memory(ListSource(items), life.sink(), state=life.state.root, middle=middle)
        assert [row[0] for row in life.sql("DESCRIBE shop.orders")] == ["id", "note"]
        life.sql("ALTER TABLE shop.orders ADD COLUMN qty INT")
    run_in_memory(ListSource(items), life.sink(), state=life.state.root, middle=middle)
    assert life.sql("SELECT id, qty FROM shop.orders") == [(1, 2)]


def test_a_column_that_is_ignored_does_not_stop_the_next_run(life: Life) -> None:
    wider = TableSchema((*SCHEMA.columns, Column("more", DataType.parse("INT"))), SCHEMA.primary_key)
    items = [
        CreateTable(ORDERS, SCHEMA),
        AddColumn(ORDERS, Column("more", DataType.parse("INT"))),
        block(ORDERS, wider, [("+I", {"id": 1, "qty": 2, "more": 3})], sequence=1),
    ]
    run_in_memory(ListSource(items), life.sink(), state=life.state.root, middle=Middle(policy=IGNORED))
    dropped = SinkTables(ListSource([]), life.sink(), life.state, "one.duckdb", Middle(policy=IGNORED))
    dropped.restore({ORDERS: {ORDERS}})
    assert life.sql("SELECT * FROM shop.orders") == [(1, 2, None)]


BY_HAND = Policy(Behavior.EVOLVE, exclude=("create.table",))


def test_a_table_that_has_to_be_there_and_lacks_a_column_stops_the_run_at_its_start(life: Life) -> None:
    items = [CreateTable(ORDERS, SCHEMA), block(ORDERS, SCHEMA, [("+I", {"id": 1, "qty": 2})])]
    middle = Middle(policy=BY_HAND)
    life.sql("CREATE SCHEMA shop")
    with pytest.raises(
        ChangeRefused, match=r"the sink has no such table, and create\.table is excluded by its filters"
    ):
        run_in_memory(ListSource(items), life.sink(), state=life.state.root, middle=middle)
    life.sql("CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT)")
    with pytest.raises(
        ChangeRefused, match=r"has no column qty, and create\.table is excluded by the sink's filters"
    ) as caught:
        run_in_memory(ListSource(items), life.sink(), state=life.state.root, middle=middle)
    assert "include create.table" in caught.value.hint
    life.sql("ALTER TABLE shop.orders ADD COLUMN qty INT")
    run_in_memory(ListSource(items), life.sink(), state=life.state.root, middle=middle)
    assert life.sql("SELECT id, qty FROM shop.orders") == [(1, 2)]


def test_a_column_that_comes_or_goes_later_is_not_expected_of_a_table_that_has_to_be_there(life: Life) -> None:
    added = AddColumn(ORDERS, Column("more", DataType.parse("INT")))
    life.sql("CREATE SCHEMA shop")
    life.sql("CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT)")
    items = [CreateTable(ORDERS, SCHEMA), DropColumn(ORDERS, "qty"), added]
    run_in_memory(ListSource(items), life.sink(), state=life.state.root, middle=Middle(policy=BY_HAND))
    assert [row[0] for row in life.sql("DESCRIBE shop.orders")] == ["id", "note", "more"]
