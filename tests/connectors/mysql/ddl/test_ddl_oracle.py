"""Every statement of tests/fixtures/ddl on a real server and through the catalog: both must end at the same tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ddl_statements import FILES, Case, mode_bits, read_cases
from pymysql.err import MySQLError

from cdc_services.server import MySqlServer
from connectors.mysql.ddl.catalog import DdlResult, TableDefinitions
from connectors.mysql.ddl.resolve import without_display_width
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.server.server_info import server_info
from connectors.mysql.table import MySqlTable
from connectors.shared.ddl.dialect import DdlDialect

pytestmark = pytest.mark.mysql


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_catalog_ends_where_the_server_ends(any_server: MySqlServer, path: Path) -> None:
    oracle = Oracle(any_server)
    try:
        cases = [case for case in read_cases(path) if any_server.flavor in case.flavors]
        problems = [f"{path.name}:{case.line}: {problem}" for case in cases for problem in oracle.check(case)]
    finally:
        oracle.close()
    assert not problems, "\n".join(problems)


class Oracle:
    """One database on a server, and a catalog that follows it."""

    def __init__(self, server: MySqlServer) -> None:
        self.server = server
        self.database = server.new_database("ddl")
        self.connection = server.connect(database=self.database)
        self.reader = server.connect()
        self.catalog = TableDefinitions(captures=lambda table: True, dialect=DdlDialect.of(self._version()))
        self.catalog.define((), databases={self.database: "utf8mb4"})
        self.settings = ("", "on")

    def check(self, case: Case) -> list[str]:
        self._set(case)
        try:
            self.execute(case.sql)
        except MySQLError as error:
            return [] if case.refused else [f"the server refuses it: {error}"]
        if case.refused:
            return ["the server does not refuse it"]
        bits = mode_bits(str(self.execute("SELECT @@sql_mode")[0][0]))
        explicit = case.timestamps == "on"
        result = self.catalog.apply(case.sql, self.database, sql_mode=bits, explicit_timestamps=explicit)
        return [*_complaints(result), *self.differences()]

    def close(self) -> None:
        self.execute(f"DROP DATABASE `{self.database}`")
        self.connection.close()
        self.reader.close()

    def _set(self, case: Case) -> None:
        if (case.mode, case.timestamps) == self.settings:
            return
        mode = f"'{case.mode}'" if case.mode else "DEFAULT"
        self.execute(f"SET sql_mode = {mode}")
        self.execute(f"SET explicit_defaults_for_timestamp = {case.timestamps}")
        self.settings = (case.mode, case.timestamps)

    def differences(self) -> list[str]:
        actual = read_tables(self.reader, lambda table: table.database == self.database)
        ours = dict(self.catalog.tables)
        problems = [f"the server has no {table}" for table in ours.keys() - actual.keys()]
        problems += [f"the catalog has no {table}" for table in actual.keys() - ours.keys()]
        for table in sorted(actual.keys() & ours.keys()):
            problems += _table_differences(actual[table], ours[table])
        self.catalog.define(actual.values())
        return problems

    def execute(self, sql: str) -> tuple[tuple[Any, ...], ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return tuple(cursor.fetchall())

    def _version(self) -> str:
        return str(self.execute("SELECT VERSION()")[0][0])


def _complaints(result: DdlResult) -> list[str]:
    return [f"not parsed: {unparsed.reason}" for unparsed in result.unparsed]


def _table_differences(actual: MySqlTable, ours: MySqlTable) -> list[str]:
    problems = []
    for name in ("primary_key", "charset", "comment"):
        if getattr(actual, name) != getattr(ours, name):
            problems.append(f"{ours.id} {name}: server {getattr(actual, name)!r}, ours {getattr(ours, name)!r}")
    names = [column.name for column in actual.columns], [column.name for column in ours.columns]
    if names[0] != names[1]:
        return [*problems, f"{ours.id} columns: server {names[0]}, ours {names[1]}"]
    pairs = zip(actual.columns, ours.columns, strict=True)
    return problems + [
        f"{ours.id}\n    server {theirs}\n    ours   {mine}"
        for theirs, mine in (map(without_display_width, pair) for pair in pairs)
        if theirs != mine
    ]


def test_the_files_hold_at_least_300_statements() -> None:
    assert sum(1 for path in FILES for _ in read_cases(path)) >= 300


LOGGED = (
    "CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(10) CHARACTER SET latin1 DEFAULT 'x') COMMENT='hi'",
    "INSERT INTO a VALUES (1, 'a')",
    "CREATE TABLE b AS SELECT * FROM a",
    "CREATE TABLE c (z INT) SELECT id, t FROM a",
    "CREATE TEMPORARY TABLE passing (a ENUM('x', 'y'), b TEXT)",
    "ALTER TABLE passing ADD c INT",
    "CREATE TABLE d LIKE passing",
    "DROP TEMPORARY TABLE passing",
    "CREATE TABLE IF NOT EXISTS a (zz INT)",
    "CREATE /*!99999 TEMPORARY */ TABLE e (a INT /*!50000 , b INT */ /*!80013 , d INT */ /*M! , e INT */)",
    "DROP TABLE b, c",
    "DROP TABLE IF EXISTS nope, d",
    "CREATE VIEW v AS SELECT 1",
    "RENAME TABLE v TO v2",
    "DROP VIEW v2",
)
LOGGED_BY_MYSQL = (
    "SET SESSION sql_generate_invisible_primary_key = ON",
    "CREATE TABLE hidden_key (a INT)",
    "SET SESSION sql_generate_invisible_primary_key = OFF",
    "CREATE TABLE functional (a INT, INDEX ((a + 1)))",
)
LOGGED_BY_MARIADB = (
    "CREATE SEQUENCE numbers",
    "DO NEXTVAL(numbers)",
    "CREATE OR REPLACE TABLE a AS SELECT 1 AS one",
    "SET STATEMENT max_statement_time = 10 FOR ALTER TABLE a ADD k INT",
    "CREATE OR REPLACE TABLE e (only_this INT)",
)


def test_what_the_server_itself_writes_into_its_log_is_understood(any_server: MySqlServer) -> None:
    oracle = Oracle(any_server)
    own = LOGGED_BY_MYSQL if any_server.flavor == "mysql" else LOGGED_BY_MARIADB
    try:
        start = server_info(oracle.reader)
        for sql in (*LOGGED, *own):
            oracle.execute(sql)
        for sql in _logged(oracle, start.file, start.position):
            result = oracle.catalog.apply(sql, oracle.database)
            assert not result.unparsed, sql
            assert not result.dml, sql
        assert oracle.differences() == []
        assert {table.table for table in oracle.catalog.unread} == ({"numbers"} if own is LOGGED_BY_MARIADB else set())
    finally:
        oracle.close()


def _logged(oracle: Oracle, file: str, position: int) -> list[str]:
    """The texts of the QUERY events of this database since a position."""
    use = f"use `{oracle.database}`; "
    rows = oracle.execute(f"SHOW BINLOG EVENTS IN '{file}' FROM {position}")
    texts = [str(row[5]) for row in rows if row[2] in ("Query", "Query_compressed")]
    return [text.removeprefix(use) for text in texts if text.startswith(use)]
