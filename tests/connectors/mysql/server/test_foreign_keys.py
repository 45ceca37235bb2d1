"""Rows that a foreign key changes: told beforehand where the server's log will not have them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.finding import Level
from cdc.schema import TableId
from cdc_services.installation import find
from cdc_services.server import MySqlServer, StartedServer
from connectors.mysql.server import foreign_keys
from connectors.mysql.server.connection import ConnectionOptions, connect
from connectors.mysql.server.foreign_keys import examine_cascades, unlogged_cascades
from connectors.mysql.server.server_info import server_info, version_number

pytestmark = pytest.mark.mysql
_TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TABLE kept (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id)) ENGINE=InnoDB",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, q INT, "
    "CONSTRAINT `be``long` FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE, "
    "CONSTRAINT other FOREIGN KEY (q) REFERENCES parent (id) ON DELETE SET NULL ON UPDATE CASCADE) "
    "ENGINE=InnoDB COMMENT 'FOREIGN KEY ON DELETE CASCADE'",
)


def _found(server: MySqlServer) -> list[tuple[str, str, str]]:
    """What an account that may only read is told of the tables above."""
    database = server.new_database("fk")
    server.execute(*_TABLES, database=database)
    server.execute(
        f"CREATE USER '{database}'@'%' IDENTIFIED BY 'pw'", f"GRANT SELECT ON {database}.* TO '{database}'@'%'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{database}'@'%'",
    )  # fmt: skip
    connection = connect(
        ConnectionOptions(
            hostname=server.host,
            port=server.port,
            username=database,
            password="pw",
            tls_mode="disabled",
            key_retrieval=True,
        )
    )
    tables = {TableId(database, name) for name in ("parent", "kept", "child", "dropped")}
    try:
        cascades = unlogged_cascades(connection, server_info(connection), tables)
    finally:
        connection.close()
    return sorted((cascade.table.table, cascade.constraint, cascade.actions) for cascade in cascades)


_ALL = [("child", "be`long", "ON DELETE CASCADE"), ("child", "other", "ON DELETE SET NULL, ON UPDATE CASCADE")]


def test_a_server_that_logs_them_gives_no_reason_to_warn(any_server: MySqlServer) -> None:
    assert _found(any_server) == (_ALL if any_server.flavor == "mariadb" else [])


@pytest.mark.parametrize("written", ["`be``long`", "`be`long`"], ids=["twice", "as 10.11.18 does"])
def test_a_backtick_in_a_name_however_mariadb_writes_it(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    key = f"  CONSTRAINT {written} FOREIGN KEY (`p`) REFERENCES `parent` (`id`) ON DELETE CASCADE"
    monkeypatch.setattr(foreign_keys, "rows_of_databases", lambda *_, **__: [])
    monkeypatch.setattr(foreign_keys, "query", lambda *_: [("child", f"CREATE TABLE `child` (\n{key}\n)")])
    info: Any = SimpleNamespace(mariadb=True, logs_cascades=False)
    (cascade,) = unlogged_cascades(cast(Any, None), info, {TableId("shop", "child")})
    assert (cascade.constraint, cascade.actions) == ("be`long", "ON DELETE CASCADE")


@pytest.mark.parametrize(
    ("cascades", "captured", "level", "told", "fix"),
    [
        ("warn", ("child",), Level.WARNING, "is not in this server's log, and not done", "foreign-key-cascades: copy"),
        ("ignore", ("child",), Level.OK, "a run does not say so (foreign-key-cascades: ignore)", ""),
        ("copy", ("child", "parent"), Level.OK, "shop.child is re-snapshotted when rows of shop.parent change", ""),
        ("copy", ("child",), Level.WARNING, "nothing is copied for it", "take it into tables"),
    ],
)
def test_what_the_option_does_is_said(
    monkeypatch: pytest.MonkeyPatch, cascades: str, captured: tuple[str, ...], level: Level, told: str, fix: str
) -> None:
    key = "  CONSTRAINT `k` FOREIGN KEY (`p`) REFERENCES `parent` (`id`) ON DELETE CASCADE"
    plain = "CREATE TABLE `parent` (\n  `id` int)"
    monkeypatch.setattr(foreign_keys, "rows_of_databases", lambda *_, **__: [])
    monkeypatch.setattr(
        foreign_keys, "query",
        lambda _, sql: [("", plain if "parent" in sql else f"CREATE TABLE `child` (\n{key}\n)")],
    )  # fmt: skip
    info: Any = SimpleNamespace(mariadb=True, logs_cascades=False)
    tables = {TableId("shop", name) for name in captured}
    (finding,) = examine_cascades(cast(Any, None), info, tables, cascades)
    assert finding.level == level
    assert told in finding.message
    assert fix in finding.fix
    assert bool(fix) == bool(finding.fix)


@pytest.mark.slow
def test_innodb_does_it_by_itself_when_it_is_told_to(mysql_server: MySqlServer) -> None:
    installation = find("mysql")
    if installation is None or version_number(mysql_server.version) < (9, 6, 0):
        pytest.skip("needs an installed MySQL of version 9.6 or newer, which has the setting")
    own = StartedServer(installation, ("--innodb-native-foreign-keys=ON",))
    try:
        assert _found(own) == _ALL
    finally:
        own.close()
