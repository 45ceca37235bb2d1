"""Positions in the log of real servers: first, last, by time, and gone."""

from __future__ import annotations

import time

import pytest

from cdc.errors import PositionLost, SourceError
from cdc_services.server import MySqlServer
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.positions import (
    BinlogFile,
    LogPosition,
    check_file_position,
    check_gtid_position,
    earliest_position,
    last_before,
    list_logs,
    opened_s,
    position_at,
)
from connectors.mysql.server.server_info import ServerInfo, query, server_info

FLAVORS = pytest.mark.parametrize("flavor", ["mysql", "mariadb"])


class Session:
    """A connection with the server's state asked again each time."""

    def __init__(self, server: MySqlServer) -> None:
        self.server, self.connection = server, server.connect()

    @property
    def info(self) -> ServerInfo:
        return server_info(self.connection)

    @property
    def here(self) -> LogPosition:
        return LogPosition(self.info.file, self.info.position)

    def purge_to(self, file: str) -> None:
        """MariaDB keeps a file until InnoDB has reported that its transactions are on disk, which takes a moment."""
        deadline = time.monotonic() + 60
        while list_logs(self.connection)[0].name != file:
            assert time.monotonic() < deadline, list_logs(self.connection)
            query(self.connection, "PURGE BINARY LOGS TO %s", (file,))

    def check(self, position: LogPosition) -> None:
        check_file_position(self.connection, self.info, position)

    def check_gtid(self, done: str) -> None:
        check_gtid_position(self.connection, self.info, done)


@pytest.fixture
def own(server_factory):
    opened: list[MySqlConnection] = []

    def make(flavor: str, *extra_args: str) -> Session:
        session = Session(server_factory(flavor, extra_args=list(extra_args)))
        opened.append(session.connection)
        return session

    yield make
    for connection in opened:
        connection.close()


@pytest.mark.mysql
@FLAVORS
def test_a_fresh_server_has_nothing_to_be_behind_of(own, flavor: str) -> None:
    session = own(flavor)
    query(session.connection, "RESET BINARY LOGS AND GTIDS" if flavor == "mysql" else "RESET MASTER")
    info = session.info
    assert info.executed == ""
    assert [log.name for log in list_logs(session.connection)] == [info.file]
    session.check_gtid("")
    session.check(earliest_position(session.connection))
    session.check(LogPosition(info.file, info.position))


@pytest.mark.mysql
@FLAVORS
def test_purged_logs_are_named_with_what_to_do(own, flavor: str) -> None:
    session = own(flavor)
    session.server.new_database()
    first, seen_early = session.here, session.info.executed
    session.check(first)
    session.check_gtid(seen_early)
    session.server.new_database()
    seen_all = session.info.executed
    query(session.connection, "FLUSH BINARY LOGS")
    session.server.new_database()
    session.purge_to(session.here.file)

    with pytest.raises(PositionLost, match=rf"{first.file} is gone; the server has binlog.0*2 to binlog.0*2") as caught:
        session.check(first)
    assert "expire_logs" in caught.value.hint
    assert "empty state directory" in caught.value.hint
    session.check(session.here)

    session.check_gtid(seen_all)
    parse = GtidSet.parse if flavor == "mysql" else MariaDbGtid.parse
    with pytest.raises(PositionLost) as caught:
        session.check_gtid(seen_early)
    if flavor == "mysql":
        assert str(parse(seen_all).minus(parse(seen_early))) in caught.value.message
    else:
        assert f"begins in binlog.000002 after {seen_all}" in caught.value.message
    with pytest.raises(PositionLost):
        session.check_gtid("")


@pytest.mark.mysql
@FLAVORS
def test_a_server_that_was_reset_is_noticed(own, flavor: str) -> None:
    session = own(flavor)
    session.server.new_database()
    position, seen = session.here, session.info.executed
    query(session.connection, "RESET BINARY LOGS AND GTIDS" if flavor == "mysql" else "RESET MASTER")
    with pytest.raises(PositionLost, match="beyond the end of the file"):
        session.check(position)
    with pytest.raises(PositionLost, match="does not know"):
        session.check_gtid(seen)


@pytest.mark.mysql
def test_gtids_of_other_servers_do_not_matter(mysql_server: MySqlServer) -> None:
    connection = mysql_server.connect()
    info = server_info(connection)
    foreign = GtidSet.parse(info.executed).add("3e11fa47-71ca-11e1-9e33-c80aa9429562", 1, 99)
    check_gtid_position(connection, info, str(foreign))
    with pytest.raises(SourceError, match=r"not a server uuid.*correct the GTID set"):
        check_gtid_position(connection, info, "0-1-100")
    connection.close()


@pytest.mark.mysql
def test_a_server_without_gtids_is_read_by_file(own) -> None:
    session = own("mysql", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    session.server.new_database()
    assert session.info.executed == ""
    assert not session.info.gtid
    session.check(session.here)
    with pytest.raises(SourceError, match=r"gtid_mode.*file and position"):
        session.check_gtid("")


@pytest.mark.mysql
@FLAVORS
def test_the_position_of_a_time(own, flavor: str) -> None:
    session = own(flavor)
    for second in (1_700_000_100, 1_700_000_200, 1_700_000_300):
        # A file's first event carries the session's time.
        query(session.connection, f"SET timestamp = {second}")
        query(session.connection, "FLUSH BINARY LOGS")
    names = [log.name for log in list_logs(session.connection)]
    times = [opened_s(session.server.connect(), name) for name in names]
    assert times[-3:] == [1_700_000_100, 1_700_000_200, 1_700_000_300]
    session.purge_to(names[-3])

    def found(time_ms: int) -> str:
        return position_at(session.server.connect, time_ms).file

    assert found(1_700_000_250_000) == names[-2]
    assert found(1_700_000_200_999) == names[-3]  # a transaction of that second may be in the file before
    assert found(1_700_000_201_000) == names[-2]
    assert found(5_000) == names[-3]
    assert found(2_000_000_000_000) == names[-1]


@pytest.mark.mysql
@FLAVORS
def test_the_time_of_a_file_that_is_gone(own, flavor: str) -> None:
    session = own(flavor)
    with pytest.raises(PositionLost, match="first log"):
        opened_s(session.server.connect(), "binlog.000099")


def test_last_before_asks_few_files() -> None:
    logs = [BinlogFile(f"binlog.{n:06}", 1) for n in range(1, 1001)]
    asked: list[str] = []

    def opened(log: BinlogFile) -> int:
        asked.append(log.name)
        return int(log.name[-6:]) * 10

    assert last_before(logs, 5000, opened).name == "binlog.000499"
    assert len(asked) <= 10
    assert last_before(logs, 1, opened) == logs[0]
    assert last_before(logs, 99_999, opened) == logs[-1]
