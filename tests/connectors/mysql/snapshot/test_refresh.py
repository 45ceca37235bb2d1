"""Tables are re-snapshotted while readers use them: over the rows that the sink has, or beside them; they end equal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from stepping import Steps
from tiers import crossed

from cdc.schema import (
    AddColumn,
    Column,
    CreateShadow,
    DataType,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.source import Limits, Order
from cdc.state.store import LocalStore
from cdc.testing import ListSink, block
from cdc_services.server import MySqlServer
from connectors.mysql.ddl.cascades import Link
from connectors.mysql.snapshot.cascade_targets import write_links
from connectors.mysql.snapshot.watched_parents import watch_parents

pytestmark = pytest.mark.mysql

ROWS = 300
STALE = 5
MOST_CHUNKS = 8
SHORTER = ("SET sql_mode = ''", "ALTER TABLE t MODIFY note VARCHAR(98)")
"""What a session that is not strict makes of rows is not in the log."""


def filled(server: MySqlServer, key: str) -> str:
    database = server.new_database("refresh")
    values = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
    create = f"CREATE TABLE t (id {key}, note VARCHAR(99))"
    server.execute(create, f"INSERT INTO t VALUES {values}", database=database)
    return database


def copied(server: MySqlServer, folder: Path, table: TableId, chunk_rows: int = 30) -> Steps:
    """A pipeline that has copied the table, whose sink then differs."""
    steps = Steps(server, table.database, folder, **{"scan.incremental.snapshot.chunk.size": chunk_rows})
    steps.sink = ListSink()  # type: ignore[assignment]  # one that takes a row again, as every sink with keys does
    steps.finish(server)
    for row in steps.sink.rows(table):
        row["note"] = "what the sink made of it"
    steps.changes.clear()
    return steps


def cascade(folder: Path, table: TableId) -> None:
    """As a task does that meets a deleted row which the table's rows refer to."""
    store, parent = LocalStore(folder), TableId(table.database, "parent")
    write_links(store, [Link(parent, table, ("id",), "CASCADE")])
    schema = TableSchema((Column("id", DataType.parse("INT"), nullable=False),), ("id",))
    list(watch_parents(iter([block(parent, schema, [("-D", {"id": 1})])]), store, table.__eq__, "4"))


def with_stale_rows(steps: Steps, table: TableId) -> None:
    for number in range(STALE):
        steps.sink.change(table, "+I", {"id": 10_000 + number, "note": "is not in the source"})


def change(server: MySqlServer, database: str, choose: random.Random) -> None:
    key = choose.randrange(ROWS)
    changes = (
        f"DELETE FROM t WHERE id = {key}",
        f"UPDATE t SET note = 'changed {key}' WHERE id BETWEEN {key} AND {key + 9}",
        f"REPLACE INTO t VALUES ({choose.randrange(2 * ROWS)}, 'new')",
        f"UPDATE IGNORE t SET id = id + {choose.randrange(-ROWS, ROWS)} WHERE id = {choose.randrange(ROWS)}",
    )
    server.execute(*choose.sample(changes, 3), database=database)


@pytest.mark.parametrize("seed", range(2))
def test_rows_stay_while_a_table_is_refreshed_and_end_equal(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    database = filled(any_server, "INT PRIMARY KEY")
    table, choose = TableId(database, "t"), random.Random(seed)
    steps = copied(any_server, tmp_path, table, chunk_rows=20)
    any_server.execute(*SHORTER, database=database)
    seen = []
    for _ in range(12):
        change(any_server, database, choose)
        steps.step()
        seen.append(len(steps.sink.rows(table)))
    steps.finish(any_server)
    assert_same(steps, any_server, table)
    assert min(seen) >= ROWS - 12
    assert steps.restarts() == []
    assert len([entry for entry in steps.entries("begin") if entry["keys_certain"]]) == 1


@pytest.mark.parametrize("key", ["INT PRIMARY KEY", "INT"])
def test_a_table_that_is_asked_for_is_there_all_the_time_and_loses_stale_rows(
    any_server: MySqlServer, tmp_path: Path, key: str
) -> None:
    database = filled(any_server, key)
    table, choose = TableId(database, "t"), random.Random(key)
    steps = copied(any_server, tmp_path, table, chunk_rows=20)
    with_stale_rows(steps, table)
    steps.ask(table)
    while CreateShadow(table) not in steps.changes:
        steps.step()
    any_server.execute("INSERT INTO t VALUES (20000, 'of the log')", database=database)
    for number in range(60):
        change(any_server, database, choose)
        if number % 3 == 2:
            steps.started_on(any_server)  # a new process: all that counts is on disk
        steps.step()
        if SwapShadow(table) in steps.changes:
            break
        assert len(steps.sink.rows(table)) >= ROWS - 60
    assert any(row["id"] == 20000 for row in steps.sink.rows(table))
    steps.finish(any_server)
    assert_same(steps, any_server, table)
    assert steps.changes == [CreateShadow(table), SwapShadow(table)]
    assert steps.sink.tables == {table}


DURING = {
    "truncated": ("TRUNCATE TABLE t; INSERT INTO t VALUES (1, 'again')", "t"),
    "dropped and made": ("DROP TABLE t; CREATE TABLE t (id INT, note VARCHAR(9)); INSERT INTO t VALUES (1, 'b')", "t"),
    "renamed": ("RENAME TABLE t TO u; INSERT INTO u VALUES (90000, 'u')", "u"),
    "a new key": ("DELETE FROM t WHERE id > 200; ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (note)", "t"),
    "a new column": ("ALTER TABLE t ADD more INT DEFAULT 7; INSERT INTO t VALUES (90000, 'n', 8)", "t"),
    "uncertain rows": ("; ".join(SHORTER), "t"),
    "swapped": ("CREATE TABLE o LIKE t; RENAME TABLE t TO x, o TO t, x TO o; INSERT INTO t VALUES (1, 'o')", "t"),
}


@crossed("name, early", list(DURING), [True, False])
def test_what_happens_to_a_table_while_it_is_copied(
    mysql_server: MySqlServer, tmp_path: Path, name: str, early: bool
) -> None:
    """Whatever it is, the sink ends equal, with nothing left beside its tables."""
    statements, last = DURING[name]
    database = filled(mysql_server, "INT PRIMARY KEY")
    table = TableId(database, "t")
    steps = copied(mysql_server, tmp_path, table)
    with_stale_rows(steps, table)
    steps.ask(table)
    before = steps.chunks_read()
    while CreateShadow(table) not in steps.changes or (not early and steps.chunks_read() < before + MOST_CHUNKS):
        assert SwapShadow(table) not in steps.changes
        steps.step()
    mysql_server.execute(*statements.split("; "), database=database)
    steps.finish(mysql_server)
    for found in {TableId(database, last), *steps.sink.tables}:
        assert_same(steps, mysql_server, found)


def test_a_table_without_a_key_keeps_its_rows_until_a_change_of_them_is_copied(
    any_server: MySqlServer, tmp_path: Path
) -> None:
    """They stay as they were before the change, which the sink is not asked to imitate."""
    database = filled(any_server, "INT")
    table = TableId(database, "t")
    steps = copied(any_server, tmp_path, table)
    any_server.execute("ALTER TABLE t ADD twice INT AS (id * 2) STORED", database=database)
    while not any(isinstance(change, CreateShadow) for change in steps.changes):
        steps.step()
    assert {(*row,) for row in steps.sink.rows(table)} == {("id", "note")}
    any_server.execute("INSERT INTO t (id, note) VALUES (7, 'meanwhile')", database=database)
    steps.finish(any_server)
    wanted = any_server.execute("SELECT id, note, twice FROM t", database=database)
    assert sorted((row["id"], row["note"], row["twice"]) for row in steps.sink.rows(table)) == sorted(wanted)
    assert not of_kind(steps, AddColumn, TruncateTable)


def test_a_table_of_which_the_sink_has_but_a_part_is_emptied(any_server: MySqlServer, tmp_path: Path) -> None:
    """Asked for while it is copied for the first time."""
    database = filled(any_server, "INT PRIMARY KEY")
    table = TableId(database, "t")
    steps = Steps(any_server, database, tmp_path)
    steps.step()
    steps.step()
    steps.ask(table)
    steps.finish(any_server)
    steps.assert_equal(any_server, "t")
    assert not of_kind(steps, CreateShadow)


def test_an_order_counts_once(any_server: MySqlServer, tmp_path: Path) -> None:
    database = filled(any_server, "INT PRIMARY KEY")
    table = TableId(database, "t")
    steps = copied(any_server, tmp_path, table)
    order = {table: Order("1-x", "cdc resync")}
    steps.source.order(order)
    steps.read(steps.source.latest_offset(steps.offset, None, 1.0))
    steps.source.order(order)  # as after a crash before its batch is decided
    steps.source.latest_offset(steps.offset, None, 0.1)
    assert len([entry for entry in steps.entries("begin") if entry["request"] == "1-x"]) == 1
    steps.source.stop()


@pytest.mark.parametrize("whole", [False, True], ids=["in the first snapshot", "after it"])
def test_a_request_that_waits_goes_with_a_table_that_is_renamed(
    any_server: MySqlServer, tmp_path: Path, whole: bool
) -> None:
    """It waits for the snapshot before it; the batch of the rename takes it up, as nothing has its name later."""
    database = filled(any_server, "INT PRIMARY KEY")
    old, new = TableId(database, "t"), TableId(database, "u")
    steps = copied(any_server, tmp_path, old) if whole else Steps(any_server, database, tmp_path)
    if not whole:
        steps.sink = ListSink()  # type: ignore[assignment]
        steps.step_until(lambda: old in steps.sink.tables and bool(steps.sink.rows(old)), Limits(1 << 26, 30))
        assert len(steps.sink.rows(old)) < ROWS
    cascade(tmp_path, old)
    with_stale_rows(steps, old)
    any_server.execute("RENAME TABLE t TO u", database=database)
    steps.finish(any_server)
    assert_same(steps, any_server, new)
    assert steps.sink.tables == {new}


def of_kind(steps: Steps, *kinds: type[SchemaChange]) -> list[SchemaChange]:
    return [change for change in steps.changes if isinstance(change, kinds)]


def assert_same(steps: Steps, server: MySqlServer, table: TableId) -> None:
    wanted = server.execute(f"SELECT id, note FROM {table.table}", database=table.database)
    assert sorted((row["id"], row["note"]) for row in steps.sink.rows(table)) == sorted(wanted)
