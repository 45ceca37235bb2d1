"""Tables whose rows foreign keys change unlogged: who is looked for, what is asked, and when that is taken up."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import comparison
import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns
from log_script import chunk, sql
from together import together

from cdc.errors import SourceUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import Column, DataType, RenameTable, TableId, TableSchema
from cdc.source import Limits
from cdc.state.store import LocalStore
from cdc.testing import block
from cdc_services.server import MySqlServer
from connectors.mysql.ddl.cascades import Link, declared_links
from connectors.mysql.ddl.catalog import TableDefinitions
from connectors.mysql.ddl.delta import Delta
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import LogRange
from connectors.mysql.schema.history import SchemaEntry, SchemaHistory
from connectors.mysql.schema.tracker import Tracker
from connectors.mysql.server import server_info
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.cascade_targets import Parent, links_after, parents_of, read_links, write_links
from connectors.mysql.snapshot.cascades import Cascading
from connectors.mysql.snapshot.chunk import Begin, TableEnd
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan
from connectors.mysql.snapshot.plan.due_requests import DueRequests
from connectors.mysql.snapshot.plan.requests import Requests
from connectors.mysql.snapshot.watched_parents import changed_by, part_id, watch_parents
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.parser import parse

P, C, G = (TableId("shop", name) for name in ("parent", "child", "grandchild"))
SCHEMA = TableSchema(
    (Column("id", DataType.parse("INT"), nullable=False), Column("code", DataType.parse("INT"))), ("id",)
)
LINKS = (Link(P, C, ("ID",), on_delete="CASCADE"), Link(C, G, ("code",), on_update="SET NULL"))
CAPTURES = [P, C].__contains__


def test_children_of_children_are_copied_too_as_far_as_they_are_captured() -> None:
    assert parents_of(LINKS, [P, C, G].__contains__) == {
        P: Parent(deletes={C, G}),
        C: Parent(updates={G}, columns={"code"}),
    }
    assert parents_of(LINKS, [P, G].__contains__)[P].deletes == {G}
    around = (*LINKS, Link(G, C, ("id",), on_delete="CASCADE", on_update="CASCADE"))
    assert parents_of(around, [P, C, G].__contains__)[P].deletes == {C, G}


@together(
    "images, changed",
    [
        ([("+I", {"id": 1, "code": 1})], set()),
        ([("-D", {"id": 1, "code": 1})], {C}),
        ([("-U", {"id": 1, "code": 1}), ("+U", {"id": 2, "code": 1})], set()),
        ([("-U", {"id": 1, "code": 1}), ("+U", {"id": 1, "code": 2})], {G}),
        ([("-U", {"id": 1, "code": None}), ("+U", {"id": 1, "code": 2})], {G}),
        ([("-U", {"id": 1, "code": None}), ("+U", {"id": 2, "code": None})], set()),
    ],
)
def test_only_rows_that_others_refer_to_count(images: list[Any], changed: set[TableId]) -> None:
    assert changed_by(block(P, SCHEMA, images), Parent(deletes={C}, updates={G}, columns={"CODE"})) == changed


def test_a_column_that_was_renamed_since_counts_as_changed() -> None:
    images: list[Any] = [("-U", {"id": 1, "code": 1}), ("+U", {"id": 1, "code": 2})]
    assert changed_by(block(P, SCHEMA, images), Parent(updates={G}, columns={"id", "number"})) == {G}


def test_what_is_behind_is_looked_at_with_the_foreign_keys_of_its_time_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links: tuple[Link, ...] = LINKS[:1]
    end = ("b.000001", 500, "")
    cuts = [SourceUnavailable("the server is away"), SourceUnavailable("still")]

    def tables(session: object) -> list[TableId]:
        if cuts:
            raise cuts.pop()
        return [P, C, G]

    for name, found in (
        ("table_ids", tables),
        ("server_info", lambda session: None),
        ("unlogged_links", lambda session, info, tables: links),
        ("end_of_log", lambda session: end),
    ):
        monkeypatch.setattr(f"connectors.mysql.snapshot.cascades.{name}", found)
    options = SimpleNamespace(cascades="copy")
    streams = SimpleNamespace(session=lambda patient: nullcontext(), retry=RetryPolicy(sleep=lambda seconds: None))
    store = LocalStore(tmp_path)
    history = SchemaHistory(store)
    history.append(SchemaEntry({"file": "b.000001", "pos": 4}))

    def run() -> Cascading:
        return Cascading(options, store, history, streams, lambda table: True)  # type: ignore[arg-type]

    def at(position: int, file: str = "b.000001", schemas: int = 1) -> MySqlOffset:
        return MySqlOffset(LogPosition(file, position), None, schemas=schemas)

    run().refresh(at(4), at(100))
    assert read_links(store) == (LINKS[0],)
    links, end = (LINKS[1],), ("b.000002", 50, "")
    for stopped in (True, False):  # and started again before the log is read so far
        again = run()
        again.refresh(at(100), at(400))
        again.refresh(at(400), at(40, "b.000002"))
        assert set(read_links(store)) == set(LINKS), stopped
    again.refresh(at(50, "b.000002"), at(60, "b.000002"))
    assert read_links(store) == (LINKS[1],)
    links, end = (), ("b.000002", 90, "")
    history.append(SchemaEntry({"file": "b.000002", "pos": 70}, delta=Delta(links=LINKS[:1])))
    again.refresh(at(60, "b.000002"), at(80, "b.000002", schemas=2))
    assert set(read_links(store)) == set(LINKS), "declared, and dropped since"
    again.refresh(at(95, "b.000002", schemas=2), at(99, "b.000002", schemas=2))
    assert read_links(store) == ()


def test_a_foreign_key_is_followed_under_each_name_that_the_log_gives_its_tables() -> None:
    old, new = TableId("shop", "old"), TableId("shop", "new")
    entries = [
        SchemaEntry({}, delta=Delta(links=(Link(old, C, ("id",), "CASCADE"),))),
        SchemaEntry({}, (RenameTable(old, new), RenameTable(C, G))),
    ]
    found = parents_of(links_after(LINKS[:1], entries), [P, C, G, new, old].__contains__)
    assert {parent: targets.deletes for parent, targets in found.items()} == {P: {C, G}, old: {C, G}, new: {C, G}}
    delta = Delta(links=(Link(old, old, ("id",), "CASCADE"),))
    to_itself = [SchemaEntry({}, (RenameTable(old, new),), delta=delta)]
    found = parents_of(links_after([], to_itself), {new}.__contains__)  # MariaDB: `old` may be made anew
    assert {parent: targets.deletes for parent, targets in found.items()} == {old: {new}, new: {new}}


@together(
    "statement, declared",
    [
        ("CREATE TABLE child (a INT REFERENCES parent ON UPDATE NO ACTION ON DELETE SET NULL, b INT)",
         [Link(P, C, ("",), "SET NULL")]),
        ("ALTER TABLE shop.child ADD FOREIGN KEY f (a) REFERENCES /* x */ `other`.parent(`Id`, code) MATCH FULL "
         "ON DELETE RESTRICT ON UPDATE CASCADE, ADD FOREIGN KEY (b) references parent (id) on delete cascade",
         [Link(TableId("other", "parent"), C, ("Id", "code"), "", "CASCADE"), Link(P, C, ("id",), "CASCADE")]),
        ("ALTER TABLE child ADD FOREIGN KEY (a) REFERENCES parent (id) ON DELETE RESTRICT, ADD t TIMESTAMP "
         "ON UPDATE CURRENT_TIMESTAMP, COMMENT 'REFERENCES parent (id) ON DELETE CASCADE'", []),
    ],
)  # fmt: skip
def test_what_a_statement_declares(statement: str, declared: list[Link]) -> None:
    dialect = DdlDialect.of("10.11.19-MariaDB")
    (parsed,) = parse(statement, database="shop", dialect=dialect)
    assert list(declared_links(parsed, statement, dialect, lambda table: table)) == declared


@pytest.mark.parametrize(
    ("statement", "entries"),
    [
        ("ALTER TABLE child ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE", 1),
        ("alter table child add foreign key (p) references parent (id)", 0),
    ],
)
def test_a_foreign_key_that_is_added_is_asked_for(tmp_path: Path, statement: str, entries: int) -> None:
    history = SchemaHistory(LocalStore(tmp_path))
    catalog = TableDefinitions(captures=lambda table: table.database == "shop")
    catalog.dialect = DdlDialect.of("8.4.2")
    catalog.apply("CREATE TABLE child (id INT PRIMARY KEY, p INT)", "shop")
    tracker = Tracker(history, catalog, [])
    assert tracker.statement(chunk([sql(statement)]), 0, "") == frozenset()
    assert (tracker.entries, history.count()) == (entries, entries)
    read = SchemaHistory(LocalStore(tmp_path)).entries(0, entries)
    assert [entry.delta.links for entry in read] == [(Link(P, C, ("id",), "CASCADE"),)] * entries


@together(
    "statement, server, told",
    [
        ("CREATE TABLE c (p INT REFERENCES parent (id) ON DELETE CASCADE)", "10.11.19-MariaDB", "ON DELETE CASCADE"),
        (
            "ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES parent (id) ON UPDATE SET\nNULL",
            "8.4.2",
            "ON UPDATE SET NULL",
        ),
        ("ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE", "9.6.0", ""),
        ("ALTER TABLE child ADD FOREIGN KEY (p) REFERENCES parent (id) ON DELETE RESTRICT", "10.11.19-MariaDB", ""),
        ("ALTER TABLE other.child ADD t TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", "10.11.19-MariaDB", ""),
    ],
)
def test_a_foreign_key_that_the_log_declares_is_told_where_its_changes_are_not_logged(
    statement: str, server: str, told: str
) -> None:
    catalog = TableDefinitions(
        captures=lambda table: table.database == "shop", dialect=DdlDialect.of(server), warns_of_cascades=True
    )
    for table in ("child", "parent"):
        catalog.apply(f"CREATE TABLE {table} (id INT PRIMARY KEY, p INT)", "shop")
    notices = catalog.apply(statement, "shop").notices
    assert [told in notice and "shop.parent" not in notice for notice in notices] == [True] * bool(told)


@together(
    "statement, told",
    [
        ("CREATE TABLE other.child (p INT REFERENCES `shop` . `parent` (id) ON DELETE CASCADE)", []),
        ("ALTER TABLE other.child ADD FOREIGN KEY (p) REFERENCES shop.parent(id) ON DELETE CASCADE", []),
        ("ALTER TABLE parent ADD FOREIGN KEY (p) REFERENCES parent(id) ON DELETE CASCADE", ["shop.parent"]),
    ],
)
def test_a_table_that_a_foreign_key_only_refers_to_does_not_change_silently(statement: str, told: list[str]) -> None:
    catalog = TableDefinitions(
        captures=lambda table: table.database == "shop", dialect=DdlDialect.of("8.4.2"), warns_of_cascades=True
    )
    catalog.apply("CREATE TABLE parent (id INT PRIMARY KEY, p INT)", "shop")
    assert [notice.partition(":")[0] for notice in catalog.apply(statement, "shop").notices] == told


@pytest.mark.parametrize(("native", "told"), [("ON", 1), ("OFF", 0)])
def test_a_server_that_could_log_them_is_asked_whether_it_does(
    monkeypatch: pytest.MonkeyPatch, native: str, told: int
) -> None:
    answer = [("version", "9.7.4"), ("innodb_native_foreign_keys", native)]
    monkeypatch.setattr(server_info, "query", lambda *_: answer)
    dialect = server_info.server_settings(cast(Any, None)).dialect
    catalog = TableDefinitions(captures=lambda table: True, dialect=dialect, warns_of_cascades=True)
    statement = "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)"
    assert len(catalog.apply(statement, "shop").notices) == told


def test_a_part_of_the_log_asks_once_and_a_repeat_asks_the_same(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write_links(store, LINKS)
    blocks = [block(P, SCHEMA, [("-D", {"id": number})], sequence=number) for number in (1, 2)]
    for _ in range(2):
        assert list(watch_parents(iter(blocks), store, CAPTURES, "binlog.000001-4")) == blocks
        (name,) = Requests(store).names()
    assert Requests(store).get(name).table == C


def test_a_part_of_another_servers_log_asks_though_its_file_is_called_alike(tmp_path: Path) -> None:
    store, at = LocalStore(tmp_path), LogPosition("binlog.000001", 157)
    write_links(store, LINKS)
    for ahead in (0, 3):
        part = LogRange(at, LogPosition("binlog.000001", 900), 1, files_ahead=ahead)
        list(watch_parents(iter([block(P, SCHEMA, [("-D", {"id": 1})])]), store, CAPTURES, part_id(part)))
    assert len(Requests(store).names()) == 2


def test_a_request_waits_for_the_copy_under_way_and_for_its_time(tmp_path: Path) -> None:
    now, store = [1000.0], LocalStore(tmp_path)
    requests, plan = Requests(store), ChunkPlan(store)
    due = DueRequests(requests, plan, 60, lambda: now[0])

    def delete_parent(place: str) -> frozenset[str]:
        list(watch_parents(iter([block(P, SCHEMA, [("-D", {"id": 1})])]), store, CAPTURES, place))
        return requests.names()

    def selected(*renamed: TableId) -> frozenset[str]:
        return frozenset(found.name for found in due.select(plan.count(), CAPTURES, renamed=renamed))

    write_links(store, LINKS)
    first = delete_parent("binlog.000001-4")
    requests.add(P, "by-a-user", "")
    assert selected() == {*first, "by-a-user"}
    due.note_begun([requests.get(name) for name in first])
    requests.remove(first)
    for place in ("binlog.000001-5", "binlog.000001-6"):
        delete_parent(place)
    assert selected() == {"by-a-user"}
    assert len(requests.names()) == 2, "one stands for all"
    plan.append([Begin(C, "new")])
    assert selected(C) == requests.names()
    now[0] += 60
    assert selected() == {"by-a-user"}
    plan.append([TableEnd(C, "done")])
    assert selected() == requests.names()
    due.note_begun([requests.get(name) for name in requests.names()])
    due.hurry = True
    assert selected() == requests.names()


@pytest.mark.mysql
def test_what_a_foreign_key_does_to_rows_gets_into_the_sink(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("fk")
    any_server.execute(
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
        "CREATE TABLE grandchild (id INT PRIMARY KEY, c INT, "
        "FOREIGN KEY (c) REFERENCES child (id) ON DELETE SET NULL ON UPDATE CASCADE)",
        "INSERT INTO parent VALUES (1), (2)", "INSERT INTO child VALUES (11, 1), (12, 2)",
        "INSERT INTO grandchild VALUES (21, 11), (22, 12)", database=database,
    )  # fmt: skip
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*", foreign_key_cascades="copy"))
    limits = Limits(1 << 26, 10**6)
    runs.catch_up(limits)
    dropped_since = (
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES parent (id) "
        "ON DELETE CASCADE)", "INSERT INTO parent VALUES (3)", "INSERT INTO c VALUES (31, 3), (32, 2)",
        "RENAME TABLE parent TO p", "DELETE FROM p WHERE id <> 2", "ALTER TABLE c DROP FOREIGN KEY f",
        "RENAME TABLE c TO d",
    )  # fmt: skip
    for statements in (dropped_since, ("UPDATE child SET id = 13 WHERE id = 12",)):
        any_server.execute(*statements, database=database)
        runs.catch_up(limits)
        assert comparison.differences(any_server, runs.pipeline, [database]) == []
