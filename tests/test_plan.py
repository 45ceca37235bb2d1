from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from together import together

from cdc.errors import ChangeRefused, SpecError
from cdc.planning.last_run import LastRun
from cdc.planning.plan import Plan, plan_text
from cdc.planning.planner import plan_pipeline
from cdc.planning.run import with_existing_rows
from cdc.schema import Column, CreateTable, DataType, Kind, SchemaChange, TableId, TableSchema
from cdc.sink import KeylessRows
from cdc.source import Snapshots
from cdc.spec.check import check
from cdc.spec.compiled import compile_spec
from cdc.spec.model import PipelineSpec
from cdc.tables.entry import TableViews
from cdc.tables.table_map import ExistingRows
from cdc.testing.line_sink import LineSink
from cdc.testing.list_source import ListSource

ORDERS = TableSchema(
    (Column("id", DataType(Kind.INT), nullable=False), Column("note", DataType(Kind.VARCHAR, 40))), ("id",)
)
LOG = TableSchema((Column("line", DataType(Kind.STRING)),))
TABLES = {TableId("shop", "orders"): ORDERS, TableId("shop", "log"): LOG}


def spec(route: str = "") -> PipelineSpec:
    text = f"source:\n  type: values\n  rows: []\nsink:\n  type: values\n{route}"
    return check("p.yaml", text.encode(), env={}).spec


def made_plan(spec: PipelineSpec, *given: Any, **more: Any) -> Plan:
    return plan_pipeline(spec, compile_spec(spec), *given, **more)


class Described(LineSink):
    """A sink that has `ods.orders`, older than the source's."""

    def describe(self, table: TableId) -> TableSchema | None:
        return TableSchema(ORDERS.columns[:1], ("id",)) if table == TableId("ods", "orders") else None

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        return [f"CREATE TABLE {change.table}" for change in changes if isinstance(change, CreateTable)]


class Filled(Described):
    """The same, with rows in it."""

    def holds_rows(self, table: TableId) -> bool:
        return table == TableId("ods", "orders")


RULES = "route:\n  - source-table: shop.\\.*\n    sink-table: ods.<>\n    replace-symbol: <>\n"


@together(
    "existing, said",
    [
        ("upsert", "(exists, without note, with rows: those that the source does not have stay)"),
        ("replace", "(exists, without note, with rows: the snapshot replaces them)"),
        ("fail", "ods.orders: holds rows already (empty or drop it; or write pipeline.existing-rows"),
    ],
)
def test_a_plan_tells_of_rows_that_a_table_has_before_its_first_snapshot(existing: str, said: str) -> None:
    class Snapshotting(ListSource):
        def snapshots(self, table: TableId) -> Snapshots:
            return Snapshots.ALWAYS

    plan, sink = made_plan(spec(RULES), TABLES, Filled()), Filled()
    found = with_existing_rows(plan, ExistingRows(existing), Snapshotting([]), sink)
    assert said in plan_text(found)
    assert with_existing_rows(plan, ExistingRows(existing), ListSource([]), sink) == plan
    assert with_existing_rows(plan, ExistingRows(existing), Snapshotting([]), sink, [TableId("ods", "orders")]) == plan


def test_a_column_that_a_table_has_in_another_case_is_not_missing() -> None:
    class Spelled(Described):
        def describe(self, table: TableId) -> TableSchema | None:
            return TableSchema((Column("ID", DataType(Kind.INT), nullable=False),), ("ID",))

    assert "-> ods.orders  (exists, without note)" in plan_text(made_plan(spec(RULES), TABLES, Spelled()))


def test_a_plan_shows_tables_routes_schemas_and_statements() -> None:
    text = plan_text(made_plan(spec(RULES), TABLES, Described()))
    assert text.splitlines() == [
        "pipeline p: values -> values, 2 tables",
        "schema changes: lenient",
        "",
        "shop.log -> ods.log  (to be created)",
        "    line  STRING",
        "    no primary key: kept equal, as many equal rows as the source has",
        "  would run: CREATE TABLE ods.log",
        "",
        "shop.orders -> ods.orders  (exists, without note)",
        "    id    INT NOT NULL",
        "    note  VARCHAR(40)",
        "    primary key (id)",
        "  would run: CREATE TABLE ods.orders",
    ]


class InSchemas(Described):
    """A sink whose schemas are made before their tables."""

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        return ["CREATE SCHEMA ods", *super().plan_text(changes)]


def test_a_statement_that_several_tables_need_is_in_the_plan_once() -> None:
    log, orders = made_plan(spec(RULES), TABLES, InSchemas()).tables
    assert log.statements == ("CREATE SCHEMA ods", "CREATE TABLE ods.log")
    assert orders.statements == ("CREATE TABLE ods.orders",)


class Choosy(Described):
    """A sink that takes no table without a key."""

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        for change in changes:
            if isinstance(change, CreateTable) and not change.schema.primary_key:
                raise ChangeRefused("a table needs a key", where=str(change.table), hint="give it one")
        return super().plan_text(changes)


def test_a_table_that_the_sink_refuses_is_marked_among_the_others() -> None:
    plan = made_plan(spec(RULES), TABLES, Choosy())
    lines = plan_text(plan).splitlines()
    assert "  would stop: ods.log: a table needs a key (give it one)" in lines
    assert "  would run: CREATE TABLE ods.orders" in lines
    with pytest.raises(ChangeRefused, match=r"values refuses 1 of 2 tables: ods\.log: a table needs a key"):
        plan.check()
    made_plan(spec(RULES), TABLES, Described()).check()
    log = TableId("shop", "log")
    known = {table.sink: table.schema for table in plan.tables}
    behind = made_plan(spec(RULES), TABLES, Choosy(), LastRun(TableViews({log: ORDERS}, sink=known)))
    behind.check()
    assert [len(table.statements) for table in behind.tables] == [0, 1], "the log has what a run would do"
    ruled = {table: TableSchema(schema.columns, ("id",)) for table, schema in TABLES.items()}
    made_plan(spec(RULES), TABLES, Choosy(), LastRun(TableViews(rules=ruled, sink=known))).check()


class ByHand(Described):
    def missing_tables(self, tables: Sequence[TableId]) -> list[TableId]:
        return [table for table in tables if self.describe(table) is None]


@together(
    "written, stops",
    [
        ("  exclude.schema.changes: [create]\n", {
            "ods.log": "ods.log: the sink has no such table, and create.table is excluded by its filters (create it "
            "there with the columns that `cdc plan` shows, or include create.table",
            "ods.orders": "ods.orders: the sink's table has no column note, and create.table is excluded",
        }),
        ("  include.schema.changes: [create]\n", {"ods.orders": "has no column note, and add.column is excluded"}),
        ("pipeline:\n  schema.change.behavior: ignore\n", {
            "ods.orders": "has no column note, and schema.change.behavior is ignore (add it to the table"
        }),
    ],
)  # fmt: skip
def test_a_plan_says_where_a_run_would_stop_as_nothing_may_be_made_in_the_sink(
    written: str, stops: dict[str, str]
) -> None:
    plan = made_plan(spec(written + RULES), TABLES, ByHand())
    found = {str(table.sink): table.refused for table in plan.tables if table.refused}
    assert found.keys() == stops.keys()
    assert all(text in found[name] for name, text in stops.items())
    last = LastRun(TableViews(sink={table.sink: table.schema for table in plan.tables}))
    assert not any(table.refused for table in made_plan(spec(written + RULES), TABLES, ByHand(), last).tables)


def test_a_sink_that_cannot_describe_is_planned_without_statements() -> None:
    plan = made_plan(spec(), {TableId("shop", "log"): LOG}, None)
    assert [(table.sink, table.statements) for table in plan.tables] == [(TableId("shop", "log"), ())]


def test_a_plan_without_tables_says_so() -> None:
    assert "no table matches" in plan_text(Plan("p", "mysql", "duckdb", ()))


def test_a_plan_shows_what_a_rule_makes_of_its_tables() -> None:
    projection = "'\\*, id * 2 AS twice, note AS text'"
    rule = f"transform:\n  - {{source-table: shop.orders, projection: {projection}, filter: id > 1}}\n"
    text = plan_text(made_plan(spec(rule + RULES), TABLES, None))
    assert text.splitlines()[7:] == [
        "shop.orders -> ods.orders  (new)",
        "    after transform[0], rows where id > 1",
        "    id     INT NOT NULL",
        "    note   VARCHAR(40)",
        "    twice  INT NOT NULL  = id * 2",
        "    text   VARCHAR(40)  = note",
        "    primary key (id)",
    ]


def test_a_plan_of_merged_tables_names_the_rules_of_all() -> None:
    rules = "transform:\n  - {source-table: a.t, projection: '\\*, 1 AS c'}\n  - {source-table: b.t, filter: id > 1}\n"
    merge = "route:\n  - {source-table: 'a.t,b.t', sink-table: m.t}\n"
    text = plan_text(made_plan(spec(rules + merge), {TableId("a", "t"): ORDERS, TableId("b", "t"): ORDERS}, None))
    assert text.splitlines()[3:8] == [
        "a.t, b.t -> m.t  (new)",
        "    after transform[0], transform[1]",
        "    id    INT NOT NULL",
        "    note  VARCHAR(40)",
        "    c     INT  (NULL for b.t, which lacks it)",
    ]


ALL = "route:\n  - source-table: shop\\.*.\\.*\n    sink-table: ods.all\n"


def test_tables_of_different_keys_in_one_are_refused() -> None:
    with pytest.raises(
        ChangeRefused, match=r"ods\.all: shop\.orders has \(id\), the sink's table has no key, as shop\.log"
    ):
        made_plan(spec(ALL), TABLES, None)


def test_a_merged_table_shows_where_its_rows_are_from_and_why_its_columns_are_so() -> None:
    wide = replace(
        ORDERS, columns=(Column("id", DataType(Kind.BIGINT)), *ORDERS.columns[1:], Column("x", DataType(Kind.DATE)))
    )
    tables = {TableId("shop_1", "orders"): ORDERS, TableId("shop_2", "orders"): wide}
    assert plan_text(made_plan(spec(ALL + "    shard-column: origin\n"), tables, None)).splitlines()[3:] == [
        "shop_1.orders, shop_2.orders -> ods.all  (new)",
        "    id      BIGINT  (INT in shop_1.orders and BIGINT in shop_2.orders)",
        "    origin  VARCHAR(255) NOT NULL",
        "    note    VARCHAR(40)",
        "    x       DATE  (NULL for shop_1.orders, which lacks it)",
        "    primary key (id, origin)",
        "    rows of one that is truncated or dropped stay here",
    ]
    gone = "    shard-column: origin\n    shard-gone: delete\npipeline:\n  schema.change.behavior: evolve\n"
    assert plan_text(made_plan(spec(ALL + gone), tables, None)).splitlines()[-1] == (
        "    rows of one that is truncated or dropped go: the others are re-snapshotted"
    )


def test_the_router_follows_the_rules() -> None:
    assert compile_spec(spec(RULES)).routes(TableId("shop", "orders")) == (TableId("ods", "orders"),)


RULE = "transform:\n  - source-table: shop.\\.*\n    projection: {}\n"


def test_a_plan_shows_what_the_rules_make_of_the_tables() -> None:
    text = plan_text(made_plan(spec(RULE.format("UPPER(__table_name__) AS origin, *")), TABLES, None))
    assert text.splitlines()[2:7] == [
        "",
        "shop.log -> shop.log  (new)",
        "    after transform[0]",
        "    origin  STRING NOT NULL  = UPPER(__table_name__)",
        "    line    STRING",
    ]


def test_a_paused_table_that_its_rule_does_not_fit_is_a_note() -> None:
    rules = RULE.format("line")
    planned = made_plan(spec(rules), TABLES, Described(), LastRun(paused=frozenset({TableId("shop", "orders")})))
    assert [str(table.source) for table in planned.tables] == ["shop.log"]
    (note,) = planned.notes
    assert note.startswith(
        "shop.orders: it is paused, and the rule does not fit it; correct the rule before `cdc resume`: "
    )
    assert "there is no column line" in note
    with pytest.raises(SpecError, match="there is no column line in shop"):
        made_plan(spec(rules), TABLES, Described())


def test_unknown_columns_of_all_tables_are_told_before_anything_starts() -> None:
    with pytest.raises(SpecError) as caught:
        made_plan(spec(RULE.format("id, note, lin")), TABLES, None)
    assert str(caught.value).splitlines() == [
        "p.yaml:8:17: transform[0].projection: there is no column id in shop.log (columns are line)",
        "p.yaml:8:21: transform[0].projection: there is no column note in shop.log (columns are line)",
        "p.yaml:8:27: transform[0].projection: there is no column lin in shop.log (did you mean line?)",
    ]


MASKED = """
transform:
  - source-table: shop.orders
    projection: "*, id + 1 AS next"
    mask: {note: MASK(4)}
"""


def test_a_plan_shows_how_a_column_is_masked() -> None:
    lines = plan_text(made_plan(spec(MASKED), TABLES, None)).splitlines()
    assert [line.split("=")[1].strip() for line in lines if "=" in line] == ["MASK(note, 4)", "id + 1"]


@together(
    "keyless, words",
    [(KeylessRows.EQUAL, "kept equal"), (KeylessRows.INSERTS, "only grows"), (KeylessRows.CHANGES, "every change")],
)
def test_a_plan_says_what_becomes_of_changes_without_a_key(keyless: KeylessRows, words: str) -> None:
    text = plan_text(made_plan(spec(), TABLES, None, keyless=keyless))
    (line,) = (line for line in text.splitlines() if "no primary key" in line)
    assert words in line


@together(
    "rule, words",
    [
        ("{projection: 'id, UPPER(Note) AS n', mask: {note: REDACT}}", "the column Note is masked"),
        ("{projection: 'id, note AS n', primary-keys: 'id, note'}", "there is no column note .the rule makes id, n"),
        ("{projection: 'id, note AS n', partition-keys: note}", "there is no column note"),
    ],
)
def test_what_no_table_can_have_is_told_without_one(rule: str, words: str) -> None:
    """`cdc validate` has the names already: it does not leave the refusal to `cdc plan`."""
    with pytest.raises(SpecError, match=words):
        spec("transform:\n  - {source-table: 'shop.\\.*', " + rule.lstrip("{") + "\n")
