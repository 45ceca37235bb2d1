"""What is checked before a start, and readers that do not disturb each other."""

from __future__ import annotations

import itertools
import struct
import uuid
from dataclasses import replace
from typing import Any, cast

import pytest
from pymysql.constants import COMMAND
from pymysql.err import MySQLError

from cdc.errors import SourceError
from cdc.pattern import TablePattern
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.server.connection import ConnectionOptions, MySqlConnection, connect
from connectors.mysql.server.server_check import (
    announce_reader,
    check_replication_privilege,
    check_select,
    check_server,
    explain_no_tables,
    free_server_id,
    registers,
    settings_problems,
    used_server_ids,
)
from connectors.mysql.server.server_info import query, server_info, version_number

pytestmark = pytest.mark.mysql
_users = itertools.count(1)


@pytest.fixture
def connection(any_server: MySqlServer):
    made = any_server.connect()
    yield made
    made.close()


@pytest.fixture
def as_user(any_server: MySqlServer):
    """Makes a connection of a new account that has just these privileges."""
    opened: list[MySqlConnection] = []

    def make(*grants: str) -> MySqlConnection:
        name = any_server.new_database("g")
        any_server.execute(
            f"CREATE USER '{name}'@'%' IDENTIFIED BY 'pw'", *(f"GRANT {grant} TO '{name}'@'%'" for grant in grants)
        )
        options = ConnectionOptions(
            hostname=any_server.host,
            port=any_server.port,
            username=name,
            password="pw",
            tls_mode="disabled",
            key_retrieval=True,
        )
        opened.append(connect(options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def test_a_capturable_server_passes(any_server: MySqlServer, connection: MySqlConnection) -> None:
    info = check_server(connection)
    assert info.flavor == any_server.flavor
    assert ".".join(map(str, info.version_number)) == any_server.version
    assert info.log_bin
    assert info.gtid
    assert info.file.startswith("binlog.0")
    assert info.position > 4
    assert bool(info.server_uuid) == (any_server.flavor == "mysql")


def test_executed_gtids_and_position_belong_together(any_server: MySqlServer, connection: MySqlConnection) -> None:
    before = server_info(connection)
    any_server.new_database()
    after = server_info(connection)
    assert (after.file, after.position) > (before.file, before.position)
    assert after.executed != before.executed
    assert "\n" not in after.executed


@pytest.mark.parametrize(
    ("option", "what", "fix"),
    [
        ("--skip-log-bin", "log_bin is OFF", "log-bin=binlog"),
        ("--binlog-format=STATEMENT", "binlog_format is STATEMENT", "SET GLOBAL binlog_format = 'ROW'"),
        ("--binlog-row-image=MINIMAL", "binlog_row_image is MINIMAL", "SET GLOBAL binlog_row_image = 'FULL'"),
        ("--binlog-row-image=NOBLOB", "binlog_row_image is NOBLOB", "SET GLOBAL binlog_row_image = 'FULL'"),
    ],
)
def test_settings_that_lose_data_are_refused_with_the_statement(
    server_factory, option: str, what: str, fix: str
) -> None:
    server = server_factory("mariadb", extra_args=[option])
    made = server.connect()
    with pytest.raises(SourceError) as caught:
        check_server(made)
    made.close()
    assert what in caught.value.message
    assert fix in caught.value.hint


def test_mysql_without_a_binary_log_or_with_partial_rows(server_factory) -> None:
    server = server_factory("mysql", extra_args=["--skip-log-bin"])
    made = server.connect()
    with pytest.raises(SourceError, match="log_bin is OFF"):
        check_server(made)
    made.close()
    server.restart("--log-bin=binlog", "--binlog-row-image=MINIMAL", "--binlog-format=MIXED")
    made = server.connect()
    with pytest.raises(SourceError, match=r"binlog_format is MIXED.*; binlog_row_image is MINIMAL"):
        check_server(made)
    made.close()


def test_each_problem_is_reported_at_once(connection: MySqlConnection) -> None:
    info = replace(server_info(connection), row_format="MIXED", row_image="FULL_NODUP", log_engine="InnoDB")
    assert len(list(settings_problems(info))) == 3


def test_missing_privileges_come_with_the_grant(as_user) -> None:
    with pytest.raises(SourceError, match="GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT") as caught:
        check_server(as_user("SELECT ON *.*"))
    name = caught.value.where.partition("@")[0]
    assert f"TO '{name}'@'%'" in caught.value.hint
    with pytest.raises(SourceError, match="GRANT SELECT, REPLICATION SLAVE"):
        check_server(as_user("SELECT, REPLICATION CLIENT ON *.*"))
    with pytest.raises(SourceError, match="GRANT SELECT, REPLICATION SLAVE"):
        check_server(as_user("REPLICATION SLAVE ON *.*"))


def test_the_documented_privileges_are_enough(any_server: MySqlServer, as_user) -> None:
    user = as_user("SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
    assert check_server(user).log_bin
    assert free_server_id(user) in range(2**31, 2**32)
    database = any_server.new_database()
    any_server.execute("CREATE TABLE a (i INT)", "CREATE TABLE `b``c` (i INT)", database=database)
    check_select(user, [TableId(database, "a"), TableId(database, "b`c")])


def test_a_table_that_may_not_be_read_is_named(any_server: MySqlServer, as_user) -> None:
    database = any_server.new_database()
    for table in ("mine", "theirs", "partly"):
        any_server.execute(f"CREATE TABLE {table} (i INT, j INT)", database=database)
    user = as_user(f"SELECT ON `{database}`.mine", f"SELECT (i) ON `{database}`.partly")
    check_select(user, [TableId(database, "mine")])
    for other in ("theirs", "partly"):
        with pytest.raises(SourceError, match=rf"{other}.*GRANT SELECT"):
            check_select(user, [TableId(database, "mine"), TableId(database, other)])


def test_tables_that_the_server_cannot_open_are_named(any_server: MySqlServer, connection: MySqlConnection) -> None:
    database = any_server.new_database()
    for table in ("a", "b"):
        any_server.execute(
            f"CREATE TABLE part_{table} (i INT) ENGINE=MyISAM", f"CREATE TABLE {table} (i INT) ENGINE=MERGE "
            f"UNION=(part_{table})", f"DROP TABLE part_{table}", "CREATE TABLE IF NOT EXISTS good (i INT)",
            database=database,
        )  # fmt: skip
    with pytest.raises(SourceError, match="error 1168") as caught:
        check_select(connection, [TableId(database, name) for name in ("a", "good", "b")])
    assert caught.value.where.startswith(f"{database}.a, {database}.b on ")
    assert "tables.exclude" in caught.value.hint


def test_the_privilege_check_leaves_no_replica_behind(any_server: MySqlServer, connection: MySqlConnection) -> None:
    info = server_info(connection)
    other = any_server.connect()
    before = used_server_ids(connection)  # readers of other tests may still be on their way out
    check_replication_privilege(other, info)
    assert used_server_ids(connection) <= before | {info.server_id}
    other.close()


def test_an_old_server_is_neither_asked_for_its_replicas_nor_has_a_record_of_a_reader_that_may_never_dump(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SHOW SLAVE HOSTS crashes MySQL before 8.0.20 when a replica has registered and gone without a dump."""

    def query_of_an_old_server(connection: MySqlConnection, statement: str) -> list[tuple[Any, ...]]:
        if statement == "SHOW REPLICAS":
            raise SourceError("error 1064: You have an error in your SQL syntax")
        assert statement == "SELECT @@GLOBAL.server_id, VERSION()"
        return [(7, "5.7.22-log")]

    monkeypatch.setattr("connectors.mysql.server.server_check.query", query_of_an_old_server)
    assert used_server_ids(cast("MySqlConnection", None)) == {7}
    versions = ("5.7.22-log", "8.0.12", "8.0.19", "8.0.20", "9.7.4", "10.1.23-MariaDB", "5.5.5-10.11.19-MariaDB")
    assert [registers(version) for version in versions] == [False, False, False, True, True, True, True]


def register(connection: MySqlConnection, server_id: int) -> None:
    body = struct.pack("<IBBBHII", server_id, 0, 0, 0, 0, 0, 0)
    connection._execute_command(COMMAND.COM_REGISTER_SLAVE, body)  # type: ignore[attr-defined]
    connection._read_packet()


def test_ids_of_registered_replicas_are_avoided(
    any_server: MySqlServer, connection: MySqlConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = any_server.connect()
    register(replica, 5401)
    assert 5401 in used_server_ids(connection)
    replica.close()
    monkeypatch.setattr("connectors.mysql.server.server_check.used_server_ids", lambda connection: frozenset({5401}))
    monkeypatch.setattr("connectors.mysql.server.server_check._PICKED", (5401, 5402))
    assert free_server_id(connection) == 5402


class Dump:
    """A log reader that waits for new events, as the planner and each task have one."""

    def __init__(self, server: MySqlServer, server_id: int, replica_uuid: str | None, file: str, position: int) -> None:
        self.connection = server.connect(read_timeout=120)
        query(self.connection, "SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE'")
        query(self.connection, "SET @mariadb_slave_capability = 4")
        if replica_uuid is not None:
            announce_reader(self.connection, replica_uuid)
        request = struct.pack("<IHI", position, 0, server_id) + file.encode()
        self.connection._execute_command(COMMAND.COM_BINLOG_DUMP, request)  # type: ignore[attr-defined]
        self.connection._read_packet()  # it has begun, and so has ended whom it takes for this one's older self

    def read_until(self, text: bytes) -> bool:
        """False when the server cut the connection."""
        try:
            while True:
                if text in self.connection._read_packet().get_all_data():
                    return True
        except MySQLError:
            return False


@pytest.mark.parametrize("distinct", [True, False])
def test_three_readers_at_once_need_their_own_identity(
    any_server: MySqlServer, connection: MySqlConnection, distinct: bool
) -> None:
    info = server_info(connection)
    ids = [free_server_id(connection) for _ in range(3)] if distinct else [free_server_id(connection)] * 3
    names = [str(uuid.uuid4()) for _ in ids] if distinct else [str(uuid.uuid4())] * 3
    dumps = [Dump(any_server, number, name, info.file, info.position) for number, name in zip(ids, names, strict=True)]
    try:
        database = any_server.new_database("mark")
        reached = [dump.read_until(database.encode()) for dump in dumps]
    finally:
        for dump in dumps:
            dump.connection.close()
    assert reached == ([True] * 3 if distinct else [False, False, True])


def test_no_table_matches(connection: MySqlConnection) -> None:
    error = explain_no_tables([TableId("a", str(i)) for i in range(7)], TablePattern("shop.x"), connection)
    assert "matches `shop.x`" in str(error)
    assert "7 tables: a.0, a.1, a.2, a.3, a.4 ..." in str(error)
    assert "GRANT SELECT" in str(error)


def test_a_name_with_a_letter_that_the_server_does_not_keep_is_told_as_it_is_there(mysql_server: MySqlServer) -> None:
    base = mysql_server.new_database("u")
    mysql_server.execute(f"CREATE TABLE `{base}`.`smile\U0001f642` (id INT)")
    connection = mysql_server.connect(database=base)
    there = [TableId(base, str(name)) for (name,) in query(connection, "SHOW TABLES")]
    error = explain_no_tables(there, TablePattern(f"{base}.smile\U0001f642"), connection)
    connection.close()
    assert f"and has {base}.smile?" in error.message
    assert error.hint == f"write `{base}.smile\\?` in source.tables"
    assert TablePattern(f"{base}.smile\\?").matches(there[0])


def test_no_table_matches_but_one_that_differs_in_case(connection: MySqlConnection) -> None:
    error = explain_no_tables([TableId("shop", "X")], TablePattern("shop.x", ignore_case=False), connection)
    assert "table names are case-sensitive on this server, which has shop.X" in str(error)


@pytest.mark.parametrize(
    ("text", "number"),
    [("9.7.4-2", (9, 7, 4)), ("10.11.19-MariaDB-0+deb12u1-log", (10, 11, 19)), ("5.5.5-10.4.1-MariaDB", (10, 4, 1))],
)
def test_versions(text: str, number: tuple[int, int, int]) -> None:
    assert version_number(text) == number
