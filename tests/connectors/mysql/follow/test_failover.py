"""The address leads to another server: the place to go on, the same rows of a planned batch, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import waits
from replication import Replication
from servers import FLAVORS, own_servers, source_of

from cdc.errors import PositionLost, SourceError, SourceUnavailable, UnsupportedChange
from cdc.schema import TableId
from cdc.source import Context, Limits, Offset
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import ReadBatch, all_images, drain, read
from cdc_services.server import StartedServer
from connectors.mysql.follow import tail as tail_module
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
LONG_S = 60.0
ONE_BY_ONE = Limits(1, 1)
_START = {"mysql": "START REPLICA", "mariadb": "START SLAVE"}


@pytest.fixture(scope="module", params=FLAVORS)
def pair(request: pytest.FixtureRequest) -> Iterator[Replication]:
    with own_servers() as make:
        yield Replication.started(request.param, make)


class Shop:
    """A table `t` on both servers, and sources of one pipeline that meet the one or the other."""

    def __init__(self, pair: Replication, folder: Path) -> None:
        self.pair, self._folder = pair, folder
        self.database = pair.primary.new_database("shop")
        self.t = TableId(self.database, "t")
        self.run("CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(99))")
        pair.caught_up()
        self.start: Offset = self.source(pair.primary).initial_offset()

    def run(self, *statements: str) -> None:
        self.pair.primary.execute(*statements, database=self.database)

    def run_on_replica(self, *statements: str) -> None:
        """As an administrator would there. MariaDB: in a domain of its own, else the numbers are the primary's too."""
        domain = ("SET gtid_domain_id = 9",) if self.pair.replica.flavor == "mariadb" else ()
        self.pair.replica.execute(*domain, *statements, database=self.database)

    def source(self, server: StartedServer) -> MySqlSource:
        fields = source_of(server, rf"{self.database}.\.*", **{"scan.startup.mode": "latest-offset"})
        return MySqlSource(MySqlSourceOptions.model_validate(fields), Context("p", LocalStore(self._folder)))

    def drained(self, server: StartedServer, start: Offset | None = None) -> list[ReadBatch]:
        return drain(self.source(server), start or self.start, limits=ONE_BY_ONE)


@pytest.fixture
def shop(pair: Replication, tmp_path: Path) -> Shop:
    return Shop(pair, tmp_path)


def ids(batches: list[ReadBatch]) -> list[int]:
    return [row["id"] for _, row in all_images(batches)]


def places(batches: list[ReadBatch]) -> list[tuple[int, int]]:
    return [
        place
        for batch in batches
        for block in batch.blocks
        for place in zip(block.sequence.to_pylist(), block.row.to_pylist(), strict=True)
    ]


def test_it_goes_on_behind_what_is_done_and_comes_back(shop: Shop) -> None:
    shop.run("INSERT INTO t VALUES (1, 'a')", "FLUSH LOGS", "INSERT INTO t VALUES (2, 'b')")
    before = shop.drained(shop.pair.primary)
    shop.run("ALTER TABLE t ADD more INT", "INSERT INTO t VALUES (3, 'c', 1)", "UPDATE t SET note = 'd' WHERE id = 1")
    shop.pair.caught_up()
    moved = shop.drained(shop.pair.replica, before[-1].end)
    assert (moved[0].blocks, moved[0].changes) == ((), ())
    assert moved[0].end["gtids"] == before[-1].end["gtids"]
    assert moved[0].end["server"] != before[-1].end["server"]
    assert ids(moved) == [3, 1, 1]
    shop.run("INSERT INTO t VALUES (4, 'e', 2)")
    shop.pair.caught_up()
    back = shop.drained(shop.pair.primary, moved[-1].end)
    assert ids(back) == [4]
    assert all(left < right for left, right in pairwise(places(before + moved + back))), "the order goes on"


def test_a_planned_batch_gives_the_same_rows_on_the_other_server(shop: Shop) -> None:
    for number in range(0, 40, 2):
        shop.run(f"INSERT INTO t VALUES ({number}, 'x'), ({number + 1}, 'y')", f"DELETE FROM t WHERE id = {number}")
    shop.run("ALTER TABLE t ADD more INT", "INSERT INTO t VALUES (99, 'z', 7)")
    shop.pair.caught_up()
    batches = drain(shop.source(shop.pair.primary), shop.start, limits=Limits(3000, 20))
    assert len(batches) > 3
    for batch in batches:
        again = read(shop.source(shop.pair.replica), batch.start, batch.end, parallelism=3)
        assert (again.images, again.changes) == (batch.images, batch.changes)
        assert all(left < right for left, right in pairwise(places([again])))
        if batch.blocks:
            assert places([again])[-1][0] <= places([batch])[-1][0], (
                "parts of the batch after it may be the old server's"
            )


def test_transactions_that_were_read_and_are_missing_there_stop_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.pair.stop()
    shop.run("INSERT INTO t VALUES (1, 'a')")
    (batch,) = [batch for batch in shop.drained(shop.pair.primary) if batch.blocks]
    with monkeypatch.context() as patched:
        patched.setattr(tail_module, "CATCH_UP_S", -1.0)
        with pytest.raises(SourceUnavailable, match=r"lacks the transactions .*, which the pipeline has read already"):
            shop.drained(shop.pair.replica, batch.end)
    hasty = shop.source(shop.pair.replica)
    hasty._parts.streams.retry = waits.none()
    with pytest.raises(SourceUnavailable, match="lacks the transactions"):
        read(hasty, batch.start, batch.end)

    waiting = shop.source(shop.pair.replica)
    assert waiting.latest_offset(batch.end, None, 0.0) == batch.end
    lag = waiting.lag()
    assert lag is not None
    assert "lacks the transactions" in lag.note
    shop.run_on_replica(_START[shop.pair.replica.flavor])
    shop.pair.caught_up()
    assert waiting.latest_offset(batch.end, None, LONG_S)["server"] != batch.end["server"]
    assert ids([read(shop.source(shop.pair.replica), batch.start, batch.end)]) == [1]


def test_waiting_for_a_server_that_lacks_transactions_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "CATCH_UP_S", -1.0)
    shop.pair.stop()
    shop.run("INSERT INTO t VALUES (1, 'a')")
    end = shop.drained(shop.pair.primary)[-1].end
    with pytest.raises(SourceUnavailable, match="lacks the transactions"):
        shop.source(shop.pair.replica).latest_offset(end, None, 0.0)
    shop.run_on_replica(_START[shop.pair.replica.flavor])
    shop.pair.caught_up()


def test_transactions_of_its_own_count_as_done_when_they_are_nobodys(server_pair: Replication, tmp_path: Path) -> None:
    shop = Shop(server_pair, tmp_path)
    shop.run_on_replica("CREATE DATABASE own", "CREATE TABLE own.x (id INT)", "INSERT INTO own.x VALUES (1)")
    shop.run("INSERT INTO t VALUES (1, 'a')")
    server_pair.caught_up()
    end = shop.drained(server_pair.primary)[-1].end
    shop.run("INSERT INTO t VALUES (2, 'b')")
    server_pair.caught_up()
    batches = shop.drained(server_pair.replica, end)
    assert ids(batches) == [2]


def test_transactions_of_its_own_on_captured_tables_are_refused(server_pair: Replication, tmp_path: Path) -> None:
    shop = Shop(server_pair, tmp_path)
    shop.run_on_replica("INSERT INTO t VALUES (7, 'here only')")
    shop.run("INSERT INTO t VALUES (1, 'a')")
    server_pair.caught_up()
    end = shop.drained(server_pair.primary)[-1].end
    with pytest.raises(UnsupportedChange, match=rf"logged transactions on {shop.t} that the pipeline has not read"):
        shop.drained(server_pair.replica, end)


def test_what_it_has_purged_is_named(server_pair: Replication, tmp_path: Path) -> None:
    shop = Shop(server_pair, tmp_path)
    shop.run("INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')")
    server_pair.caught_up()
    server_pair.replica.execute("FLUSH LOGS")
    shop.run("INSERT INTO t VALUES (3, 'c')")
    server_pair.caught_up()
    last = server_pair.replica.execute("SHOW BINARY LOGS")[-1][0]
    while len(server_pair.replica.execute("SHOW BINARY LOGS")) > 1:  # MariaDB lets go of a file a bit later
        server_pair.replica.execute(f"PURGE BINARY LOGS TO '{last}'")
    with pytest.raises(PositionLost):
        shop.drained(server_pair.replica)


@pytest.fixture(params=FLAVORS)
def server_pair(request: pytest.FixtureRequest) -> Iterator[Replication]:
    """For tests that leave traces in the servers' logs."""
    with own_servers() as make:
        yield Replication.started(request.param, make)


def test_a_log_that_was_reset_is_another_log(server_pair: Replication, tmp_path: Path) -> None:
    shop = Shop(server_pair, tmp_path)
    server_pair.stop()
    shop.run("INSERT INTO t VALUES (1, 'a')")
    end = shop.drained(server_pair.primary)[-1].end
    mysql = server_pair.primary.flavor == "mysql"
    shop.run("RESET BINARY LOGS AND GTIDS" if mysql else "RESET MASTER")
    values = ", ".join(f"({number}, REPEAT('x', 90))" for number in range(100, 140))
    shop.run(f"INSERT INTO t VALUES {values}")  # longer than the old log
    with pytest.raises(PositionLost, match="no longer knows the transactions"):
        shop.drained(server_pair.primary, end)


def test_without_gtids_another_server_is_refused(shop: Shop) -> None:
    offset = {**shop.start, "schemas": 1, "server": "11111111-2222-3333-4444-555555555555", "gtids": None}
    with pytest.raises(SourceError, match="without GTIDs its log has no place to go on at"):
        shop.source(shop.pair.primary).latest_offset(offset, None, 0.0)
    ends = {**offset, "position": offset["position"] + 1}
    with pytest.raises(SourceError, match="this is another server"):
        read(shop.source(shop.pair.primary), offset, ends)


def test_a_connection_that_is_cut_while_the_log_is_taken_up_again_is_tried_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = shop.source(shop.pair.primary)
    at = source.latest_offset(shop.start, None, 0.0)
    source.latest_offset(at, None, 0.0)
    tail = source._parts.tail
    tail.stop()
    resume, cuts = tail._tracked, [SourceUnavailable("cut"), SourceUnavailable("cut")]

    def cut(start: MySqlOffset) -> object:
        if cuts:
            raise cuts.pop()
        return resume(start)

    monkeypatch.setattr(tail, "_tracked", cut)
    shop.run("INSERT INTO t VALUES (1, 'a')")
    assert source.latest_offset(at, None, LONG_S) == at
    assert (lag := source.lag()) is not None
    assert lag.note == "waiting for the server: cut"
    assert source.latest_offset(at, None, LONG_S) == at
    assert ids([read(source, at, source.latest_offset(at, None, LONG_S))]) == [1]
    source.stop()
    fresh = shop.source(shop.pair.primary)
    monkeypatch.setattr(fresh._parts.tail, "_tracked", lambda start: (_ for _ in ()).throw(SourceUnavailable("cut")))
    with pytest.raises(SourceUnavailable):  # at the start of a run the server must be there
        fresh.latest_offset(at, None, 0.0)
