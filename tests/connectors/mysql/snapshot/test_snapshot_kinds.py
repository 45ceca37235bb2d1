"""Kinds of tables, a server without GTIDs, and the options that make copying gentle: each on a real server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from servers import ServerFactory
from stepping import Steps
from test_snapshot_source import Shop, numbers

from cdc.source import Limits, Offset, Split
from cdc_services.server import MySqlServer
from connectors.mysql import split_reader
from connectors.mysql.server.lazy_session import LazySession
from connectors.mysql.snapshot.plan.payloads import load_payload
from connectors.mysql.snapshot.plan.splits import ChunkRead
from connectors.mysql.snapshot.read import opening
from connectors.mysql.snapshot.read import reading as reading_module
from connectors.mysql.snapshot.read.throttle import Throttle
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql


@pytest.fixture
def shop(any_server: MySqlServer, tmp_path: Path) -> Shop:
    return Shop(any_server, tmp_path)


def test_partitions_are_one_table(shop: Shop) -> None:
    shop.run(
        "CREATE TABLE t (id INT, at INT, name VARCHAR(20), PRIMARY KEY (id, at)) PARTITION BY RANGE (at) "
        "(PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "INSERT INTO t VALUES " + ", ".join(f"({n}, {n * 7 % 200}, 'row {n}')" for n in range(500)),
    )
    assert shop.catch_up().inserts == 500
    assert len([entry for entry in shop.plan() if entry["kind"] == "chunk"]) > 3
    shop.run("UPDATE t SET at = at + 100, name = 'moved' WHERE at < 50", "DELETE FROM t WHERE id > 480")
    shop.catch_up()
    assert not shop.differs("t", "id, at, name")


def test_generated_columns_are_copied_and_split_by(shop: Shop) -> None:
    """MariaDB has none that are NOT NULL, so there they do not split a table."""
    mysql = shop.server.flavor == "mysql"
    shop.run(
        "CREATE TABLE t (a INT, twice INT GENERATED ALWAYS AS (a * 2) VIRTUAL, code VARCHAR(20) GENERATED ALWAYS AS "
        f"(CONCAT('c', a)) STORED {'NOT NULL' if mysql else ''}, UNIQUE KEY (code))",
        "INSERT INTO t (a) VALUES " + ", ".join(f"({n})" for n in range(350)),
    )
    assert shop.catch_up().inserts == 350
    chunks = [entry for entry in shop.plan() if entry["kind"] == "chunk"]
    assert {tuple(chunk["columns"]) for chunk in chunks} == ({("code",)} if mysql else {()})
    shop.run("UPDATE t SET a = a + 1000 WHERE a < 9", "INSERT INTO t (a) VALUES (7777)")
    shop.catch_up()
    assert not shop.differs("t", "a, twice, code")


def test_rows_that_change_while_a_chunk_is_read_may_come_twice_without_backfill(shop: Shop) -> None:
    shop.options["scan.incremental.snapshot.backfill.skip"] = True
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(300)}")
    opened = opening.open_view
    changed: list[int] = []

    def late(*args: Any, **fields: Any) -> Any:
        view = opened(*args, **fields)
        if len(changed) < 3:  # after the view
            changed.append(len(changed))
            shop.run(
                f"UPDATE t SET name = 'late {len(changed)}' WHERE id % 100 = {len(changed)}", "DELETE FROM t LIMIT 1"
            )
        return view

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(opening, "open_view", late)
        patched.setattr(opening, "read_window", lambda *args: pytest.fail("the window is not to be read"))
        shop.catch_up()
    shop.catch_up()
    assert not shop.differs("t", "id, name")


def test_rows_per_second_holds_all_readers_back_together(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.options |= {"scan.snapshot.rows-per-second": 1000}
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(400)}")
    rates: list[float | None] = []

    class Noting(Throttle):
        def __init__(self, rows_per_second: float | None, **fields: Any) -> None:
            rates.append(rows_per_second)
            super().__init__(rows_per_second, **fields)

    monkeypatch.setattr(reading_module, "Throttle", Noting)
    assert shop.catch_up(limits=None, parallelism=2).inserts == 400
    assert set(rates) <= {500, 1000}
    assert rates


def test_a_throttle_holds_for_all_chunks_of_a_reader_together(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.options |= {"scan.snapshot.rows-per-second": 1000, "scan.incremental.snapshot.chunk.size": 50}
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(400)}")
    readers: list[list[float]] = []  # how long each reader slept, chunk by chunk

    def with_a_stopped_clock(rate: float | None) -> Throttle:
        readers.append([])
        return Throttle(rate, clock=lambda: 0.0, sleep=readers[-1].append)

    monkeypatch.setattr(reading_module, "Throttle", with_a_stopped_clock)
    run = shop.catch_up(limits=None, parallelism=1)
    assert run.inserts == 400
    assert len(readers) <= run.batches, "one for all chunks of a batch"
    assert sum(max(slept) for slept in readers if slept) == pytest.approx(0.4), "all rows at 1,000 rows a second"
    assert sum(map(len, readers)) >= 8


def test_a_slow_copy_goes_in_small_steps(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.options |= {"scan.snapshot.rows-per-second": 5, "scan.incremental.snapshot.chunk.size": 8096}
    shop.run("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))", f"INSERT INTO t VALUES {numbers(400)}")
    monkeypatch.setattr(reading_module, "Throttle", lambda rate: Throttle(None))
    run = shop.catch_up(limits=Limits(1 << 26, 100_000))
    assert run.inserts == 400
    assert run.batches >= 8, "no more than 50 rows in each"
    assert not shop.differs("t", "id, name")


def test_connections_are_no_more_than_allowed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t", "u"):
        create = f"CREATE TABLE {name} (id INT PRIMARY KEY, name VARCHAR(20))"
        shop.run(create, f"INSERT INTO {name} VALUES {numbers(900)}")
    planned = MySqlSource.splits
    seen: list[list[set[str]]] = []

    def splits(source: MySqlSource, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        found = planned(source, start, end, parallelism)
        tables = [entry.get("table") for entry in shop.plan()]
        reads = [read for split in found if isinstance(read := load_payload(split).payload, ChunkRead)]
        seen.append([{tables[number]["table"] for number in read.chunks} for read in reads])
        return found

    monkeypatch.setattr(MySqlSource, "splits", splits)
    shop.options |= {"scan.snapshot.max-connections": 3, "scan.snapshot.max-connections-per-table": 1}
    assert shop.catch_up(limits=None, parallelism=8).inserts == 1800
    assert max(map(len, seen)) <= 3
    assert max(sum("t" in names for names in reads) for reads in seen) == 1
    assert max(sum("u" in names for names in reads) for reads in seen) == 1


def test_the_session_that_places_keys_of_text_ends_with_its_split(
    any_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = []

    class Recorded(LazySession):
        def only_row(self, statement: str) -> tuple[Any, ...]:
            row = super().only_row(statement)
            sessions.append(self._connection)
            return row

    monkeypatch.setattr(split_reader, "LazySession", Recorded)
    database = any_server.new_database("places")
    values = ", ".join(f"('key {number}', 'a')" for number in range(100))
    any_server.execute(
        "CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, note VARCHAR(9))", f"INSERT INTO t VALUES {values}",
        database=database,
    )  # fmt: skip
    steps = Steps(any_server, database, tmp_path)
    while len(sessions) < 2:
        end = steps.plan(Limits(1 << 26, 30))
        any_server.execute(f"UPDATE t SET note = '{steps.batch}'", database=database)
        steps.read(end)
    steps.finish(any_server)
    steps.assert_equal(any_server, "t")
    steps.source.stop()
    assert not any(session is not None and session.open for session in sessions)


@pytest.mark.slow
def test_a_server_without_gtids(server_factory: ServerFactory, tmp_path: Path) -> None:
    """The position of a view is one noted a second before; what was written since is read from the log."""
    server = server_factory("mysql", extra_args=("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"))
    database = server.new_database("plain")
    values = ", ".join(f"({number}, 'row {number}')" for number in range(200))
    server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(99))", f"INSERT INTO t VALUES {values}", database=database
    )
    steps = Steps(server, database, tmp_path, **{"scan.incremental.snapshot.chunk.size": 80})
    assert steps.offset["gtids"] is None
    while "t" not in steps.copied:
        end = steps.plan()
        server.execute(
            f"UPDATE t SET note = 'b{steps.batch}' WHERE id % 5 = 0",
            f"UPDATE t SET id = id + 1000 WHERE id = {steps.batch}",
            database=database,
        )
        if end != steps.offset:
            steps.read(end)
    steps.finish(server)
    steps.assert_equal(server, "t")
    assert steps.restarts() == []
    steps.source.stop()
