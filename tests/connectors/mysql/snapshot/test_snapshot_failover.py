"""Another server takes over while tables are copied, or the server restarts: no row is lost, none comes twice."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import waits
from replication import Replication
from servers import FLAVORS, ServerFactory, own_servers
from stepping import Steps

from cdc.errors import SourceUnavailable
from cdc_services.server import MySqlServer
from connectors.mysql.source import MySqlSource

pytestmark = [pytest.mark.mysql, pytest.mark.slow]


@pytest.fixture(scope="module", params=FLAVORS)
def pair(request: pytest.FixtureRequest) -> Iterator[Replication]:
    with own_servers() as make:
        yield Replication.started(request.param, make)


def filled(server: MySqlServer, *tables: str, rows: int = 300) -> str:
    """A new database with these tables."""
    database = server.new_database("fail")
    for table in tables:
        values = ", ".join(f"({number}, 'row {number}')" for number in range(rows))
        create = f"CREATE TABLE {table} (id INT PRIMARY KEY, note VARCHAR(9999))"
        server.execute(create, f"INSERT INTO {table} VALUES {values}", database=database)
    return database


def write(server: MySqlServer, database: str, table: str, mark: str) -> None:
    """Changes all over the table: rows of chunks that are read and of those that are not, and keys that move."""
    server.execute(
        f"UPDATE {table} SET note = '{mark}' WHERE id % 7 = 0",
        f"DELETE FROM {table} WHERE id % 50 = 3",
        f"INSERT INTO {table} SELECT MAX(id) + 1, '{mark}' FROM {table}",
        f"UPDATE {table} SET id = id + 5000 WHERE id IN (5, 105, 205)",
        f"UPDATE {table} SET id = id - 10000 WHERE id IN (5005, 295)",
        database=database,
    )


@pytest.mark.parametrize("logs_ahead", [0, 3], ids=["alike", "old log is ahead"])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_the_replica_takes_over_while_tables_are_copied(
    pair: Replication, tmp_path: Path, restarted: bool, logs_ahead: int
) -> None:
    database = filled(pair.primary, "a", "b", "c")
    pair.primary.execute(*["FLUSH BINARY LOGS"] * logs_ahead)
    steps = Steps(pair.primary, database, tmp_path)
    while "b" not in steps.copied:  # a is read then, b is not at its end
        write(pair.primary, database, "a", f"a{steps.batch}")
        write(pair.primary, database, "b", f"b{steps.batch}")
        assert steps.step()
    pair.caught_up()
    elsewhere = steps.at_server(pair.replica)
    if restarted:
        steps.started_on(pair.replica)
    else:  # the address moves: what the process keeps open stays at the old server
        steps.source._parts.streams.__dict__.update(elsewhere._parts.streams.__dict__)
        steps.source._parts.tail.stop()
    write(pair.primary, database, "b", "moved")
    pair.caught_up()
    steps.finish(pair.replica)
    steps.assert_equal(pair.primary, "a", "b", "c")
    assert "b" in steps.restarts()
    assert "c" not in steps.restarts(), "nothing of it was read before"
    write(pair.primary, database, "c", "later")
    pair.caught_up()
    steps.finish(pair.replica)
    steps.assert_equal(pair.primary, "a", "b", "c")
    steps.source.stop()


def test_a_batch_planned_before_is_read_on_the_replica(pair: Replication, tmp_path: Path) -> None:
    """Its chunks are not read there, as their place would be another; its part of the log is."""
    database = filled(pair.primary, "a")
    steps = Steps(pair.primary, database, tmp_path)
    while not any("chunk" in report for report in steps.reports):
        steps.step()
    write(pair.primary, database, "a", "meanwhile")
    end = steps.plan()
    assert end != steps.offset
    pair.caught_up()
    steps.started_on(pair.replica)
    steps.read(end)
    assert not any(report["chunk"]["done"] for report in steps.reports if "chunk" in report)
    steps.finish(pair.replica)
    steps.assert_equal(pair.primary, "a")
    assert steps.restarts() == ["a"]
    steps.source.stop()


@pytest.mark.parametrize("comes_back", [False, True], ids=["stays away", "old server comes back"])
def test_a_log_around_a_chunk_that_is_read_on_the_replica(pair: Replication, tmp_path: Path, comes_back: bool) -> None:
    """The chunk's place lies inside the batch and means nothing on the other server: the table is re-snapshotted."""
    database = filled(pair.primary, "a", rows=20)
    steps = Steps(pair.primary, database, tmp_path)
    while not steps.entries("chunk"):
        end = steps.plan()
        if steps.entries("chunk"):
            break
        steps.read(end)
    change = "UPDATE a SET note = REPEAT('x', 5000) WHERE id < 10"
    pair.primary.execute(change, database=database)
    steps.read(end)  # the chunk is read after this change, which is in the next batch
    pair.primary.execute("UPDATE a SET note = 'last' WHERE id < 5", "DELETE FROM a WHERE id = 7", database=database)
    end = steps.plan_to_the_end(pair.primary)
    pair.caught_up()
    steps.read(end, tasks=steps.at_server(pair.replica))
    if not comes_back:
        steps.started_on(pair.replica)
    steps.finish(pair.primary if comes_back else pair.replica)
    steps.assert_equal(pair.primary, "a")
    assert steps.restarts() == ["a"]
    steps.source.stop()


def test_tables_that_are_copied_stay_so(pair: Replication, tmp_path: Path) -> None:
    database = filled(pair.primary, "a", rows=50)
    steps = Steps(pair.primary, database, tmp_path)
    steps.finish(pair.primary)
    pair.caught_up()
    steps.started_on(pair.replica)
    write(pair.primary, database, "a", "later")
    pair.caught_up()
    steps.finish(pair.replica)
    steps.assert_equal(pair.primary, "a")
    assert steps.restarts() == []
    steps.source.stop()


def test_the_server_restarts_while_tables_are_copied(server_factory: ServerFactory, tmp_path: Path) -> None:
    """Planner and tasks meet a server that is away, then the same one with a new log file; nothing starts over."""
    server = server_factory("mysql", extra_args=("--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"))
    database = filled(server, "a", "b")
    steps = Steps(server, database, tmp_path, **{"connect.max-retries": 0})
    while steps.inserts < 60:
        steps.step()
    write(server, database, "a", "before")
    end = steps.plan()
    server.kill9()
    tasks: MySqlSource = pickle.loads(pickle.dumps(steps.source))
    tasks._parts.streams.retry = waits.none()
    with pytest.raises(SourceUnavailable):  # the engine tries the task again
        steps.read(end, tasks)
    server.restart()
    write(server, database, "b", "between")
    steps.read(end)
    server.kill9()
    end = steps.plan()  # the planner waits for it
    server.restart()
    if end != steps.offset:
        steps.read(end)
    write(server, database, "a", "after")
    steps.finish(server)
    steps.assert_equal(server, "a", "b")
    assert steps.restarts() == []
    steps.source.stop()
