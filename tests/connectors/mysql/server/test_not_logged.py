"""What a server carries out and does not log is refused or told before a pipeline misses it, on real servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from servers import FLAVORS, ServerFactory, source_of

from cdc.errors import SourceError
from cdc.finding import Finding, Level
from cdc.schema import TableId
from cdc_services.server import StartedServer
from connectors.mysql.examine import examine
from connectors.mysql.follow.streams import Streams
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.connection import ConnectionOptions, MySqlConnection, connect
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.server.not_logged import badly_logged, describe_filter
from connectors.mysql.server.server_check import check_server
from connectors.mysql.table import MySqlColumn, MySqlTable

pytestmark = pytest.mark.mysql
OFF = {"mysql": "--log-replica-updates=OFF", "mariadb": "--log-slave-updates=OFF"}
REPLICA = {
    "mysql": ("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'r'",
              "START REPLICA", "STOP REPLICA", "RESET REPLICA ALL"),
    "mariadb": ("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'r'",
                "START SLAVE", "STOP SLAVE", "RESET SLAVE ALL"),
}  # fmt: skip


@contextmanager
def session(server: StartedServer, user: str = "", password: str = "pw") -> Iterator[MySqlConnection]:
    login = {"username": user, "password": password} if user else {
        "username": server.user, "password": server.password}  # fmt: skip
    made = connect(
        ConnectionOptions(hostname=server.host, port=server.port, tls_mode="disabled", key_retrieval=True, **login)
    )
    try:
        yield made
    finally:
        made.close()


def findings(server: StartedServer, tables: str) -> list[Finding]:
    """What `cdc doctor` and `cdc init` say."""
    options = MySqlSourceOptions.model_validate(source_of(server, tables))
    return list(examine(Streams(options).session, lambda: options, None))


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_replica_that_does_not_log_what_it_applies_is_refused(flavor: str, server_factory: ServerFactory) -> None:
    server = server_factory(flavor, extra_args=[OFF[flavor], "--server-id=2"])
    database = server.new_database()
    documented = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'cdc'@'%'"
    server.execute("CREATE USER 'cdc'@'%' IDENTIFIED BY 'pw'", documented)
    server.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    change, start, stop, reset = REPLICA[flavor]
    with session(server) as root:
        check_server(root)
    server.execute(change, start)
    name = OFF[flavor].strip("-").partition("=")[0].replace("-", "_")
    for user in ("", "cdc"):
        with session(server, user) as made, pytest.raises(SourceError, match=f"is a replica and {name} is OFF") as told:
            check_server(made)
        assert f"add {name}=ON" in told.value.hint
    assert [found.message for found in findings(server, rf"{database}.\.*") if found.level is Level.ERROR] == [
        f"the server is a replica and {name} is OFF: what it takes from others is not in its log"
    ]
    server.execute(stop, reset)
    for user in ("", "cdc"):
        with session(server, user) as made:
            check_server(made)


@pytest.mark.parametrize("option", ["--binlog-do-db=kept", "--binlog-ignore-db=left_out"])
def test_databases_that_the_log_leaves_out_are_refused_and_others_told(
    option: str, server_factory: ServerFactory
) -> None:
    server = server_factory("mariadb", extra_args=[option])
    for database in ("kept", "left_out"):
        server.execute(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    with session(server) as made:
        assert check_server(made).filters_log
        info = check_server(made, lambda table: table.database == "kept")
        assert option.strip("-").replace("-", "_") in describe_filter(info)
        with pytest.raises(SourceError, match=r"keeps rows out of the log: those of left_out\.t") as told:
            check_server(made, lambda table: table in (TableId("kept", "t"), TableId("left_out", "t")))
    assert "tables.exclude" in told.value.hint
    levels = {found.level for found in findings(server, "kept.t") if found.subject == "server settings"}
    assert levels == {Level.WARNING}


def test_tables_with_generated_columns_are_named_where_rows_lack_them(server_factory: ServerFactory) -> None:
    server = server_factory("mariadb")
    server.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (a INT PRIMARY KEY, b INT AS (a + 1))",
        "CREATE TABLE d.u (a INT)",
        "CREATE TABLE d.v (a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS "
        "ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
    )
    with session(server) as made:
        info, found = check_server(made), read_tables(made, lambda table: table.database == "d")
    ids = MySqlColumn("s", "bigint", unsigned=True, nullable=False, generated=True)
    found[TableId("d", "w")] = MySqlTable(TableId("d", "w"), (ids,))
    by_ids = badly_logged(replace(info, version_number=(11, 4, 5)), found)
    assert [problem.partition(",")[0] for problem, _ in by_ids] == ["d.w are versioned by transaction ids"]
    (newer, _), _ = badly_logged(replace(info, version_number=(11, 8, 9)), found)
    assert newer.startswith("d.t have generated columns")
