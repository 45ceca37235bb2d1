"""Where a new pipeline starts, on both servers: every startup mode, and definitions as they were there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import FLAVORS, ServerFactory, own_servers, source_of

from cdc.errors import PositionLost, SchemaUnknown, SourceError, UnsupportedChange
from cdc.schema import AddColumn, CreateTable, TableId
from cdc.source import Context, Offset
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import ReadBatch, all_images, drain
from cdc_services.server import StartedServer
from connectors.mysql import captured_tables
from connectors.mysql.follow import startup
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module", params=FLAVORS)
def server(request: pytest.FixtureRequest) -> Iterator[StartedServer]:
    with own_servers() as make:
        yield make(request.param)


class Shop:
    """One table in a database of its own, and sources that start on it."""

    def __init__(self, server: StartedServer, folder: Path) -> None:
        self.server, self._folder, self._runs = server, folder, 0
        self.database = server.new_database("startup")
        self.table = TableId(self.database, "t")

    def run(self, *statements: str) -> None:
        self.server.execute(*statements, database=self.database)

    def source(self, mode: str, **options: Any) -> MySqlSource:
        """A new pipeline; `options` are those below `scan.startup`, with `_` for `-` and `__` for `.`."""
        self._runs += 1
        folder = self._folder / f"{self.database}-{self._runs}"
        folder.mkdir()
        given = {f"scan.startup.{name.replace('__', '.').replace('_', '-')}": value for name, value in options.items()}
        fields = source_of(self.server, rf"{self.database}.\.*", **{"scan.startup.mode": mode, **given})
        return MySqlSource(MySqlSourceOptions.model_validate(fields), Context("p", LocalStore(folder)))

    def ids(self, mode: str, **options: Any) -> list[int]:
        return ids(drain(self.source(mode, **options)))

    def end(self) -> tuple[str, int]:
        file, position, *_ = self.server.execute(
            "SHOW BINARY LOG STATUS" if self.server.flavor == "mysql" else "SHOW MASTER STATUS"
        )[0]
        return str(file), int(position)

    def executed(self) -> str:
        variable = "gtid_executed" if self.server.flavor == "mysql" else "gtid_binlog_pos"
        return str(self.server.execute(f"SELECT @@GLOBAL.{variable}")[0][0]).replace("\n", "")


def ids(batches: list[ReadBatch]) -> list[int]:
    return [row["id"] for _, row in all_images(batches)]


@pytest.fixture
def shop(server: StartedServer, tmp_path: Path) -> Shop:
    shop = Shop(server, tmp_path)
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    return shop


def test_earliest_reads_all_that_the_log_has(shop: Shop) -> None:
    source = shop.source("earliest-offset")
    start = source.initial_offset()
    assert (start["file"], start["position"], start["schemas"]) == ("binlog.000001", 4, 0)
    assert shop.ids("earliest-offset") == [1, 2]


def test_latest_reads_what_comes_and_creates_what_is_there(shop: Shop) -> None:
    source = shop.source("latest-offset")
    before = shop.end()
    start = source.initial_offset()
    assert before <= (start["file"], start["position"]) <= shop.end(), "MariaDB notes checkpoints when it likes"
    shop.run("INSERT INTO t VALUES (3)")
    batches = drain(source, start)
    assert batches[0].blocks == ()
    assert [type(change) for change in batches[0].changes] == [CreateTable]
    assert ids(batches) == [3]
    same = GtidSet.parse if shop.server.flavor == "mysql" else MariaDbGtid.parse
    assert same(batches[-1].end["gtids"]) == same(shop.executed())


def test_a_position_starts_there_and_creates_what_holds_there(shop: Shop) -> None:
    file, position = shop.end()
    shop.run("INSERT INTO t VALUES (3)", "FLUSH LOGS", "INSERT INTO t VALUES (4)")
    batches = drain(shop.source("specific-offset", specific_offset__file=file, specific_offset__pos=position))
    assert ids(batches) == [3, 4]
    assert [change.table for change in batches[0].changes] == [shop.table]


def test_a_gtid_position_starts_behind_it(shop: Shop) -> None:
    done = shop.executed()
    shop.run("INSERT INTO t VALUES (3)", "FLUSH LOGS", "INSERT INTO t VALUES (4)")
    source = shop.source("specific-offset", specific_offset__gtid_set=done)
    start = source.initial_offset()
    same = GtidSet.parse if shop.server.flavor == "mysql" else MariaDbGtid.parse
    assert same(start["gtids"]) == same(done)
    assert ids(drain(source, start)) == [3, 4]
    assert shop.ids("specific-offset", specific_offset__gtid_set=shop.executed()) == []


def test_a_gtid_position_of_another_world_is_refused(shop: Shop) -> None:
    foreign = "0-1-99999999" if shop.server.flavor == "mariadb" else f"{uuid_of(shop)}:1-99999999"
    with pytest.raises(PositionLost, match="does not know"):
        shop.source("specific-offset", specific_offset__gtid_set=foreign).initial_offset()


def uuid_of(shop: Shop) -> str:
    return str(shop.server.execute("SELECT @@server_uuid")[0][0])


def test_a_position_that_is_gone_is_refused(shop: Shop) -> None:
    file, _ = shop.end()
    with pytest.raises(PositionLost, match=r"binlog\.999999 is gone; the server has binlog\.000001 to"):
        shop.source("specific-offset", specific_offset__file="binlog.999999", specific_offset__pos=4).initial_offset()
    beyond = shop.source("specific-offset", specific_offset__file=file, specific_offset__pos=10**9)
    with pytest.raises(PositionLost, match="beyond the end of the file"):
        beyond.initial_offset()


def test_a_time_starts_at_the_first_transaction_from_then_on(shop: Shop) -> None:
    started = time.time()
    assert shop.ids("timestamp", timestamp_millis=0) == [1, 2]
    shop.run("SELECT SLEEP(1.1)", "FLUSH LOGS")
    then = int(float(shop.server.execute("SELECT UNIX_TIMESTAMP(NOW(6))")[0][0]) * 1000)
    shop.run("INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)")
    assert shop.ids("timestamp", timestamp_millis=then) == [3, 4]
    later = shop.source("timestamp", timestamp_millis=int(started * 1000) + 10**9)
    before = shop.end()
    start = later.initial_offset()
    assert before <= (start["file"], start["position"]) <= shop.end(), "MariaDB notes checkpoints when it likes"


def test_a_table_altered_since_the_start_is_created_as_it_was(shop: Shop) -> None:
    file, position = shop.end()
    shop.run("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (7)", "ALTER TABLE u ADD note INT")
    shop.run("INSERT INTO u VALUES (8, 1)", "RENAME TABLE u TO v", "INSERT INTO v VALUES (9, 2)")
    batches = drain(shop.source("specific-offset", specific_offset__file=file, specific_offset__pos=position))
    changes = [(change.table.table, type(change).__name__) for batch in batches for change in batch.changes]
    assert changes == [("t", "CreateTable"), ("u", "CreateTable"), ("u", "AddColumn"), ("u", "RenameTable")]
    assert [row for _, row in all_images(batches)] == [{"id": 7}, {"id": 8, "note": 1}, {"id": 9, "note": 2}]


def test_rows_before_an_alter_whose_table_is_older_than_the_start_are_refused(shop: Shop) -> None:
    # What the table looked like at the start cannot be known: the server only tells what it looks like now.
    file, position = shop.end()
    shop.run("INSERT INTO t VALUES (3)", "ALTER TABLE t ADD note INT", "INSERT INTO t VALUES (4, 1)")
    source = shop.source("specific-offset", specific_offset__file=file, specific_offset__pos=position)
    with pytest.raises(SchemaUnknown, match=rf"rows of {shop.table}, but its definition at this point is not known"):
        drain(source)


def test_earliest_takes_definitions_from_the_log_alone(shop: Shop) -> None:
    shop.run("ALTER TABLE t ADD note INT", "INSERT INTO t VALUES (3, 1)")
    batches = drain(shop.source("earliest-offset"))
    changes = [change for batch in batches for change in batch.changes if change.table == shop.table]
    assert [type(change) for change in changes] == [CreateTable, AddColumn]
    assert ids(batches) == [1, 2, 3]


def test_no_table_matches(shop: Shop) -> None:
    shop.run("DROP TABLE t")
    with pytest.raises(SourceError, match=r"no table matches `[^\\]+\.\\\.\*`; "):
        shop.source("latest-offset").initial_offset()
    with pytest.raises(SourceError, match="no table matches"):
        shop.source("earliest-offset").tables()
    start = shop.source("earliest-offset").initial_offset()  # tables may come later
    assert start["schemas"] == 0


@pytest.mark.parametrize("ask", ["initial_offset", "tables"])
def test_a_table_that_is_not_shown_for_a_moment_is_there(shop: Shop, monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    """MariaDB does not list a table while it takes its new definition."""
    for module in (startup, captured_tables):
        hidden, really = [1], module.read_tables

        def read_tables(*given: Any, hidden: list[int] = hidden, really: Any = really) -> Any:
            return {} if hidden and hidden.pop() else really(*given)

        monkeypatch.setattr(module, "read_tables", read_tables)
    assert getattr(shop.source("initial"), ask)()


def test_a_start_ends_while_an_upgrade_alters_one_table_after_the_other(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All definitions take longer to read than an upgrade pauses, those of the altered tables do not."""
    upgrade = [
        ["ALTER TABLE t ADD a INT"],
        ["CREATE TABLE u (id INT)", "RENAME TABLE t TO v", "CREATE TABLE w (b INT)"],
    ]
    upgrade += [["ALTER TABLE v ADD c INT", "DROP TABLE u"]]
    read_tables, read_databases, reads = startup.read_tables, startup.read_databases, list[str]()

    def read_all(*given: Any) -> Any:
        reads.append("all")
        found = read_tables(*given)
        shop.run(*upgrade.pop(0))
        return found

    def read_more(*given: Any) -> Any:
        if upgrade:
            shop.run(*upgrade.pop(0))
        return read_databases(*given)

    monkeypatch.setattr(startup, "read_tables", read_all)
    monkeypatch.setattr(startup, "read_databases", read_more)
    changes = [change for batch in drain(shop.source("latest-offset")) for change in batch.changes]
    assert {change.table.table: change.schema.names for change in changes} == {"v": ("id", "a", "c"), "w": ("b",)}
    assert reads == ["all"]


def test_a_new_start_gives_the_same_history(shop: Shop) -> None:
    source = shop.source("latest-offset")
    first = source.initial_offset()
    assert source.initial_offset() == first  # the crash was before the offset was stored
    batches = drain(source, first)
    assert [change.table for batch in batches for change in batch.changes] == [shop.table]


def test_a_fresh_server_has_an_empty_gtid_set(server_factory: ServerFactory, tmp_path: Path) -> None:
    server = server_factory("mysql")
    server.execute("SET sql_log_bin = 0", "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
    assert server.execute("SELECT @@GLOBAL.gtid_executed") == (("",),)
    shop = Shop.__new__(Shop)
    shop.server, shop._folder, shop._runs, shop.database = server, tmp_path, 0, "shop"
    starts: list[Offset] = []
    sources = [
        shop.source("latest-offset"), shop.source("earliest-offset"),
        shop.source("specific-offset", specific_offset__gtid_set=""), shop.source("timestamp", timestamp_millis=0),
    ]  # fmt: skip
    for source in sources:
        starts.append(source.initial_offset())
        assert starts[-1]["gtids"] == ""
    server.execute("INSERT INTO shop.t VALUES (1)")
    for source, start in zip(sources, starts, strict=True):
        batches = drain(source, start)
        assert ids(batches) == [1]
        assert batches[-1].end["gtids"] == server.execute("SELECT @@GLOBAL.gtid_executed")[0][0]


def test_a_gtid_set_with_a_hole_is_refused(server_factory: ServerFactory, tmp_path: Path) -> None:
    shop = Shop(server_factory("mysql"), tmp_path)
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", *(f"INSERT INTO t VALUES ({number})" for number in range(3, 8)))
    uuid = uuid_of(shop)  # 1 and 2 created the database and the table
    with pytest.raises(SourceError, match=rf"the GTID set has a hole: {uuid}:5-6 lie after"):
        shop.source("specific-offset", specific_offset__gtid_set=f"{uuid}:1-3:5-6").initial_offset()
    foreign = "11111111-2222-3333-4444-555555555555:1-9"  # another server's are no holes
    assert shop.ids("specific-offset", specific_offset__gtid_set=f"{foreign},{uuid}:1-4") != []


def test_a_gtid_position_that_other_domains_have_passed_is_refused(
    server_factory: ServerFactory, tmp_path: Path
) -> None:
    shop = Shop(server_factory("mariadb"), tmp_path)
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)")
    done = MariaDbGtid.parse(shop.executed())
    shop.run("INSERT INTO t VALUES (1)", "SET gtid_domain_id = 7", "INSERT INTO t VALUES (2)")
    behind = done.add(7, 1, 1)  # domain 0 stands before the first insert, domain 7 after the second
    with pytest.raises(SourceError, match="the GTID set has a hole: 7-1-1 lie after"):
        shop.source("specific-offset", specific_offset__gtid_set=str(behind)).initial_offset()
    assert shop.ids("specific-offset", specific_offset__gtid_set=str(done)) == [1, 2]


def test_purged_gtids_are_done_at_the_earliest_position(server_factory: ServerFactory, tmp_path: Path) -> None:
    for flavor in FLAVORS:
        shop = Shop(server_factory(flavor), tmp_path)
        shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        before = shop.executed()
        shop.run("FLUSH LOGS")
        while shop.server.execute("SHOW BINARY LOGS")[0][0] == "binlog.000001":  # MariaDB lets go of it a bit later
            shop.run("PURGE BINARY LOGS TO 'binlog.000002'")
        shop.run("INSERT INTO t VALUES (2)")
        source = shop.source("earliest-offset")
        start = source.initial_offset()
        assert (start["file"], start["position"], start["gtids"]) == ("binlog.000002", 4, before)
        assert ids(drain(source, start)) == [2]
        with pytest.raises(PositionLost):
            shop.source("specific-offset", specific_offset__gtid_set="").initial_offset()


def test_a_server_without_gtids_is_followed_by_position(server_factory: ServerFactory, tmp_path: Path) -> None:
    shop = Shop(server_factory("mysql", extra_args=["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]), tmp_path)
    shop.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    batches = drain(shop.source("earliest-offset"))
    assert ids(batches) == [1]
    assert batches[-1].end["gtids"] is None
    with pytest.raises(SourceError, match="does not use GTIDs"):
        shop.source("specific-offset", specific_offset__gtid_set="").initial_offset()


def test_statements_that_change_rows_are_refused(shop: Shop) -> None:
    source = shop.source("latest-offset")
    start = source.initial_offset()
    shop.run("INSERT INTO t VALUES (3)", "SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO t VALUES (4)")
    source.stop_at_current()
    at = source.latest_offset(start, None, 0.0)
    end = source.latest_offset(at, None, 0.0)
    assert (at["schemas"], end != at) == (1, True)  # the row before it is still delivered
    with pytest.raises(UnsupportedChange, match="INSERT was logged as a statement"):
        source.latest_offset(end, None, 0.0)
    source.stop()
