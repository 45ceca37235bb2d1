"""The live source on real servers: what its log may hold, restarts of the server, and what it is pickled into."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cdc_process import wait_for
from servers import FLAVORS, own_servers, source_of

from cdc.errors import UnsupportedChange
from cdc.schema import DropTable, TableId, TruncateTable
from cdc.source import Context, Limits, Offset
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import ReadBatch, all_images, drain, read, read_split
from cdc_services.server import StartedServer
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log import segment as segment_module
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql
LONG_S = 60.0


@pytest.fixture(scope="module", params=FLAVORS)
def server(request: pytest.FixtureRequest) -> Iterator[StartedServer]:
    with own_servers() as make:
        yield make(request.param)


class Shop:
    """A database with a table `t`, and a pipeline that began just after its creation."""

    def __init__(self, server: StartedServer, folder: Path) -> None:
        self.server, self._folder = server, folder
        self.database = server.new_database("live")
        self.t = TableId(self.database, "t")
        self.run("CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(2000))", "CREATE TABLE m (id INT) ENGINE=MyISAM")
        self.start: Offset = {}
        self.start = self.source().initial_offset()

    def run(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def source(self, **options: Any) -> MySqlSource:
        return MySqlSource(self.options(**options), Context("p", LocalStore(self._folder)))

    def options(self, **options: Any) -> MySqlSourceOptions:
        given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
        fields = source_of(self.server, rf"{self.database}.\.*", **{"scan.startup.mode": "latest-offset", **given})
        return MySqlSourceOptions.model_validate(fields)

    def drained(self, **options: Any) -> list[ReadBatch]:
        return drain(self.source(), self.start, **options)


@pytest.fixture
def shop(server: StartedServer, tmp_path: Path) -> Shop:
    return Shop(server, tmp_path)


def ids(batches: list[ReadBatch]) -> list[int]:
    return [row["id"] for _, row in all_images(batches)]


def test_a_created_table_with_its_rows_is_one_transaction(shop: Shop) -> None:
    shop.run("INSERT INTO t VALUES (1, 'a')", "CREATE TABLE u SELECT * FROM t", "INSERT INTO u VALUES (2, 'b')")
    shop.run("CREATE TABLE none SELECT * FROM t WHERE id > 9", "INSERT INTO t VALUES (3, 'c')")
    batches = shop.drained(limits=Limits(1, 1))
    assert ids(batches) == [1, 1, 2, 3]
    (created,) = [batch for batch in batches if any(change.table.table == "u" for change in batch.changes)]
    assert ids([created]) == [1]


def test_xa_transactions_are_delivered_when_prepared(shop: Shop) -> None:
    shop.run("XA START 'a'", "INSERT INTO t VALUES (1, 'a')", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'")
    shop.run("XA START 'b'", "INSERT INTO t VALUES (2, 'a')", "XA END 'b'", "XA COMMIT 'b' ONE PHASE")
    shop.run("XA START 'c'", "INSERT INTO t VALUES (3, 'a')", "XA END 'c'", "XA ROLLBACK 'c'")
    other = shop.server.new_database("other")
    shop.run(f"CREATE TABLE {other}.x (id INT)", "XA START 'd'", f"INSERT INTO {other}.x VALUES (1)")
    shop.server.execute(
        f"CREATE TABLE {other}.y (id INT PRIMARY KEY)", "XA START 'e','q',7", f"INSERT INTO {other}.y VALUES (1)",
        "XA END 'e','q',7", "XA PREPARE 'e','q',7", "XA ROLLBACK 'e','q',7",
    )  # fmt: skip
    shop.run("INSERT INTO t VALUES (4, 'a')")
    assert ids(shop.drained(limits=Limits(1, 1))) == [1, 2, 4]


def test_a_prepared_xa_transaction_that_is_rolled_back_is_refused(shop: Shop) -> None:
    shop.run("INSERT INTO t VALUES (1, 'a')")
    shop.run("XA START 'f'", "INSERT INTO t VALUES (2, 'a')", "XA END 'f'", "XA PREPARE 'f'", "XA ROLLBACK 'f'")
    with pytest.raises(UnsupportedChange, match="a prepared XA transaction was rolled back"):
        shop.drained()


def test_rollbacks_leave_nothing(shop: Shop) -> None:
    shop.run("BEGIN", "INSERT INTO t VALUES (1, 'a')", "ROLLBACK")
    shop.run("BEGIN", "INSERT INTO t VALUES (2, 'a')", "SAVEPOINT s", "INSERT INTO t VALUES (3, 'a')", "ROLLBACK TO s")
    shop.run("BEGIN", "INSERT INTO t VALUES (4, 'a')", "SAVEPOINT s", "INSERT INTO t VALUES (5, 'a')",
             "ROLLBACK TO s", "INSERT INTO t VALUES (6, 'a')", "COMMIT")  # fmt: skip
    assert ids(shop.drained()) == [4, 6]


def test_a_transaction_that_mixes_engines_and_goes_back_is_refused(shop: Shop) -> None:
    if shop.server.flavor == "mysql":
        pytest.skip("MySQL with GTIDs does not let a transaction mix engines")
    shop.run("BEGIN", "INSERT INTO t VALUES (1, 'a')", "SAVEPOINT s", "INSERT INTO m VALUES (7)",
             "INSERT INTO t VALUES (2, 'a')", "ROLLBACK TO s", "COMMIT")  # fmt: skip
    with pytest.raises(UnsupportedChange, match="rows that were rolled back"):
        shop.drained()


def test_tables_without_transactions_end_with_a_statement(shop: Shop) -> None:
    shop.run("INSERT INTO m VALUES (1), (2)", "INSERT INTO t VALUES (3, 'a')", "DELETE FROM m WHERE id = 1")
    assert ids(shop.drained(limits=Limits(1, 1))) == [1, 2, 3, 1]


def test_an_alter_in_two_phases_counts_once(shop: Shop) -> None:
    if shop.server.flavor == "mysql":
        pytest.skip("only MariaDB logs an ALTER when it begins and again when it ends")
    shop.run("INSERT INTO t VALUES (1, 'a')", "SET SESSION binlog_alter_two_phase = 1")
    shop.run("SET SESSION binlog_alter_two_phase = 1", "ALTER TABLE t ADD more INT, ALGORITHM=COPY")
    shop.run("INSERT INTO t VALUES (2, 'b', 3)")
    batches = shop.drained()
    changes = [type(change).__name__ for batch in batches for change in batch.changes]
    assert changes == ["CreateTable", "CreateTable", "AddColumn"]
    assert all_images(batches)[1] == ("+I", {"id": 2, "note": "b", "more": 3})


def test_compressed_transactions_are_read_in_any_parts(shop: Shop) -> None:
    if shop.server.flavor == "mysql":
        compress = "SET binlog_transaction_compression = 1"
        for first in (0, 100):
            values = ", ".join(f"({first + number}, REPEAT('x', 999))" for number in range(100))
            shop.run(compress, "BEGIN", f"INSERT INTO t VALUES {values}", "SAVEPOINT s", "COMMIT")
    else:
        shop.server.execute("SET GLOBAL log_bin_compress = 1, GLOBAL log_bin_compress_min_len = 10")
        for first in (0, 100):
            values = ", ".join(f"({first + number}, REPEAT('x', 999))" for number in range(100))
            shop.run(f"INSERT INTO t VALUES {values}")
        shop.server.execute("SET GLOBAL log_bin_compress = 0")
    assert ids(shop.drained(limits=Limits(1, 1))) == list(range(200))
    assert ids(shop.drained()) == list(range(200))


def test_rotations_dropped_and_truncated_tables(shop: Shop) -> None:
    shop.run("INSERT INTO t VALUES (1, 'a')", "FLUSH LOGS", "TRUNCATE t", "INSERT INTO t VALUES (2, 'a')", "FLUSH LOGS")
    shop.run("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (3)")
    batches = shop.drained()
    assert ids(batches) == [1, 2, 3]
    changes = [change for batch in batches for change in batch.changes if change.table == shop.t]
    assert [type(change).__name__ for change in changes] == ["CreateTable", "TruncateTable", "DropTable", "CreateTable"]
    for batch in batches:
        undone = {change.table for change in batch.changes if isinstance(change, TruncateTable | DropTable)}
        assert not undone or len({block.schema for block in batch.blocks}) <= 1


def test_a_big_batch_is_read_in_parts_by_several_tasks(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "LEAST_SPLIT_BYTES", 1 << 10)
    for first in range(0, 400, 20):
        values = ", ".join(f"({number}, REPEAT('x', 1000))" for number in range(first, first + 20))
        shop.run(f"INSERT INTO t VALUES {values}")
    source = shop.source()
    source.stop_at_current()
    at = source.latest_offset(shop.start, None, 0.0)  # the sink's tables
    tail = source._parts.tail
    tail.follow_until(source._planner.end_of_log(MySqlOffset.from_json(at)))
    tail._follower = tail._follow(MySqlOffset.from_json(at), None)
    tail._follower.join(LONG_S)  # so that everything is in one batch
    end = source.latest_offset(at, None, 0.0)
    splits = source.splits(at, end, 2)
    again = shop.source().splits(at, end, 2)  # after a crash nothing is known of the inside: one part
    assert (len(splits), len(again)) == (2, 1)
    reader: MySqlSource = pickle.loads(pickle.dumps(source))
    parts = [[row["id"] for block in read_split(reader, split) for row in block.rows.to_pylist()] for split in splits]
    assert all(parts)
    assert parts[0] + parts[1] == list(range(400))
    assert ids([read(shop.source(), at, end)]) == list(range(400))
    source.stop()


def test_a_batch_without_rows_of_ours_is_read_by_nobody(shop: Shop) -> None:
    other = shop.server.new_database("other")
    shop.run("INSERT INTO t VALUES (1, 'a')")
    at = shop.drained()[-1].end
    shop.run(f"CREATE TABLE {other}.x (id INT)", f"INSERT INTO {other}.x VALUES (1)")
    source = shop.source()
    source.stop_at_current()
    end = source.latest_offset(at, None, 0.0)
    assert end["position"] > at["position"]
    assert source.splits(at, end, 4) == []
    source.stop()


def test_waiting_ends_with_the_next_transaction(shop: Shop) -> None:
    source = shop.source()
    at = source.latest_offset(shop.start, None, 0.0)
    assert source.latest_offset(at, None, 0.01) == at
    shop.run("INSERT INTO t VALUES (1, 'a')")
    end = source.latest_offset(at, None, LONG_S)
    assert ids([read(source, at, end)]) == [1]
    lag = source.lag()
    assert lag is not None
    assert (lag.bytes, lag.note) == (0, "")
    source.stop()


def test_changes_of_other_tables_are_nothing_to_be_late_with(shop: Shop) -> None:
    other = shop.server.new_database("elsewhere")
    shop.run(f"CREATE TABLE {other}.x (id INT)")
    source = shop.source()
    at = source.latest_offset(shop.start, None, LONG_S)
    shop.run("INSERT INTO t VALUES (1, 'a')")
    at = source.latest_offset(at, None, LONG_S)
    follower = source._parts.tail._follower
    assert follower is not None
    shop.run(f"INSERT INTO {other}.x VALUES (1)")
    wait_for("the other table's row", lambda: follower.waiting[0] > 0 and follower.at_end)
    lag = source.lag()
    assert lag is not None
    assert (lag.bytes, lag.transactions) == (0, 0)
    shop.run("INSERT INTO t VALUES (2, 'a')")
    wait_for("a row of the table", lambda: follower.relevant)
    behind = source.lag()
    assert behind is not None
    assert behind.bytes > 0
    source.stop()


def test_a_restart_of_the_server_is_survived(server: StartedServer, shop: Shop) -> None:
    source = shop.source()
    at = source.latest_offset(shop.start, None, 0.0)
    shop.run("INSERT INTO t VALUES (1, 'a')")
    at = source.latest_offset(at, None, LONG_S)
    server.restart()
    shop.run("INSERT INTO t VALUES (2, 'a')", "ALTER TABLE t ADD more INT", "INSERT INTO t VALUES (3, 'a', 4)")
    found: list[ReadBatch] = []
    while ids(found) != [2, 3]:
        end = source.latest_offset(at, None, LONG_S)
        assert end != at, "nothing came after the restart"
        found.append(read(source, at, end))
        at = end
    source.stop()


def test_the_heartbeat_interval_is_the_options(shop: Shop) -> None:
    file, position = shop.start["file"], shop.start["position"]
    options = shop.options(heartbeat__interval="200 ms")
    stream = Streams(options).at(LogPosition(file, position))
    while stream.read(0.1) is not None:
        pass
    before = stream.last_seen
    assert any(stream.read(1.0) is None and stream.last_seen > before for _ in range(int(LONG_S)))
    assert stream.last_seen - before < Streams(shop.options())._options.heartbeat_interval_s
    stream.close()


def test_many_statements_about_other_tables_survive_restarts_at_every_point(shop: Shop) -> None:
    # Each restart plans from its offset on; a statement must never be applied to a history that has it already.
    shop.run("INSERT INTO t VALUES (1, 'a')")
    other = shop.server.new_database("other")
    for number in range(5):
        shop.run(f"CREATE TABLE {other}.x{number} (id INT)", f"ALTER TABLE {other}.x{number} ADD y INT")
        shop.run(f"INSERT INTO t VALUES ({10 + number}, 'a')", f"RENAME TABLE {other}.x{number} TO {other}.z{number}")
    at, found, restarts = shop.start, [], 0
    while True:
        source = shop.source()  # a new process each time
        source.stop_at_current()
        end = source.latest_offset(at, Limits(1, 1), 0.0)
        if end == at:
            break
        found.append(read(source, at, end))
        source.stop()
        at, restarts = end, restarts + 1
    source.stop()
    assert ids(found) == [1, 10, 11, 12, 13, 14]
    assert restarts > 6


def test_system_versioning_beside_the_captured_tables(shop: Shop) -> None:
    if shop.server.flavor != "mariadb":
        pytest.skip("MariaDB's own")
    other = shop.server.new_database("beside")
    shop.run(f"CREATE TABLE {other}.v (id INT PRIMARY KEY)", f"ALTER TABLE {other}.v ADD SYSTEM VERSIONING")
    shop.run(f"INSERT INTO {other}.v VALUES (9)", "INSERT INTO t VALUES (1, 'a')")
    shop.run(f"ALTER TABLE {other}.v DROP SYSTEM VERSIONING", "INSERT INTO t VALUES (2, 'a')")
    assert ids(shop.drained()) == [1, 2]
