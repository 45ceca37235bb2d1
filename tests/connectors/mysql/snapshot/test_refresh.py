"""A table with a key is copied anew over the rows that the sink has: readers find it at every moment, it ends equal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from stepping import Steps

from cdc.schema import TableId
from cdc.state.store import LocalStore
from cdc.testing import ListSink
from cdc_services.server import MySqlServer
from connectors.mysql.snapshot.plan.requests import Requests

pytestmark = pytest.mark.mysql

ROWS = 300


def filled(server: MySqlServer, key: str) -> str:
    database = server.new_database("refresh")
    values = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
    create = f"CREATE TABLE t (id {key}, note VARCHAR(99))"
    server.execute(create, f"INSERT INTO t VALUES {values}", database=database)
    return database


def refreshed(server: MySqlServer, folder: Path, table: TableId, chunk_rows: int = 30) -> Steps:
    """A pipeline that has copied the table, whose sink then differs, and that is to copy it anew."""
    steps = Steps(server, table.database, folder, **{"scan.incremental.snapshot.chunk.size": chunk_rows})
    steps.sink = ListSink()  # type: ignore[assignment]  # one that takes a row again, as every sink with keys does
    steps.finish(server)
    for row in steps.sink.rows(table):
        row["note"] = "what the sink made of it"
    Requests(LocalStore(steps.folder)).add(table, "schema-change-1", refresh=True)
    return steps


@pytest.mark.parametrize("seed", range(4))
def test_rows_stay_while_a_table_is_refreshed_and_end_equal(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    database = filled(any_server, "INT PRIMARY KEY")
    table, choose = TableId(database, "t"), random.Random(seed)
    steps = refreshed(any_server, tmp_path, table, chunk_rows=20)
    seen = []
    for _ in range(12):
        key = choose.randrange(ROWS)
        changes = (
            f"DELETE FROM t WHERE id = {key}",
            f"UPDATE t SET note = 'changed {key}' WHERE id BETWEEN {key} AND {key + 9}",
            f"REPLACE INTO t VALUES ({choose.randrange(2 * ROWS)}, 'new')",
            f"UPDATE IGNORE t SET id = id + {choose.randrange(-ROWS, ROWS)} WHERE id = {choose.randrange(ROWS)}",
        )
        any_server.execute(*choose.sample(changes, 3), database=database)
        steps.step()
        seen.append(len(steps.sink.rows(table)))
    steps.finish(any_server)
    assert_same(steps, any_server, table)
    assert min(seen) >= ROWS - 12
    assert steps.restarts() == []
    assert len([entry for entry in steps.entries("begin") if entry["refresh"]]) == 1


def test_a_table_without_a_key_is_emptied_first(any_server: MySqlServer, tmp_path: Path) -> None:
    database = filled(any_server, "INT")
    table = TableId(database, "t")
    steps = refreshed(any_server, tmp_path, table)
    steps.finish(any_server)
    assert_same(steps, any_server, table)
    assert steps.restarts() == ["t"]


def test_a_request_counts_once(any_server: MySqlServer, tmp_path: Path) -> None:
    database = filled(any_server, "INT PRIMARY KEY")
    table = TableId(database, "t")
    steps = refreshed(any_server, tmp_path, table)
    steps.step()
    Requests(LocalStore(tmp_path)).add(table, "schema-change-1", refresh=True)  # as after a crash behind it
    steps.finish(any_server)
    assert_same(steps, any_server, table)
    assert len([entry for entry in steps.entries("begin") if entry["refresh"]]) == 1


def assert_same(steps: Steps, server: MySqlServer, table: TableId) -> None:
    wanted = server.execute("SELECT id, note FROM t", database=table.database)
    assert sorted((row["id"], row["note"]) for row in steps.sink.rows(table)) == sorted(wanted)
