"""Every statement of tests/fixtures/ddl on a real server and through the catalog: both must end at the same tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ddl_statements import FILES, Case, mode_bits, read_cases
from pymysql.err import MySQLError

from cdc.services.server import MySqlServer
from connectors.mysql.ddl.catalog import Catalog, DdlResult
from connectors.mysql.ddl.dialect import Dialect
from connectors.mysql.information_schema import read_tables
from connectors.mysql.table import MySqlColumn, MySqlTable

pytestmark = pytest.mark.mysql
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")


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
        self.catalog = Catalog(wanted=lambda table: True, dialect=Dialect.of(self._version()))
        self.catalog.define((), databases={self.database: "utf8mb4"})
        self.settings = ("", "on")

    def check(self, case: Case) -> list[str]:
        self._set(case)
        try:
            self._execute(case.sql)
        except MySQLError as error:
            return [] if case.refused else [f"the server refuses it: {error}"]
        if case.refused:
            return ["the server does not refuse it"]
        bits = mode_bits(str(self._execute("SELECT @@sql_mode")[0][0]))
        explicit = case.timestamps == "on"
        result = self.catalog.apply(case.sql, self.database, sql_mode=bits, explicit_timestamps=explicit)
        return [*_complaints(result), *self._differences()]

    def close(self) -> None:
        self._execute(f"DROP DATABASE `{self.database}`")
        self.connection.close()
        self.reader.close()

    def _set(self, case: Case) -> None:
        if (case.mode, case.timestamps) == self.settings:
            return
        mode = f"'{case.mode}'" if case.mode else "DEFAULT"
        self._execute(f"SET sql_mode = {mode}")
        self._execute(f"SET explicit_defaults_for_timestamp = {case.timestamps}")
        self.settings = (case.mode, case.timestamps)

    def _differences(self) -> list[str]:
        actual = read_tables(self.reader, lambda table: table.database == self.database)
        ours = dict(self.catalog.tables)
        problems = [f"the server has no {table}" for table in ours.keys() - actual.keys()]
        problems += [f"the catalog has no {table}" for table in actual.keys() - ours.keys()]
        for table in sorted(actual.keys() & ours.keys()):
            problems += _table_differences(actual[table], ours[table])
        self.catalog.define(actual.values())
        return problems

    def _execute(self, sql: str) -> tuple[tuple[Any, ...], ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return tuple(cursor.fetchall())

    def _version(self) -> str:
        return str(self._execute("SELECT VERSION()")[0][0])


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
        for theirs, mine in ((_comparable(theirs), _comparable(mine)) for theirs, mine in pairs)
        if theirs != mine
    ]


def _comparable(column: MySqlColumn) -> MySqlColumn:
    """Without display widths, which some servers show and others do not; ENUM and SET of bytes have a charset."""
    if column.type in _INTEGERS and (column.length != 1 or column.unsigned or column.type != "tinyint"):
        column = replace(column, length=None)
    if column.type == "year":
        column = replace(column, length=None)
    if column.type in ("enum", "set") and column.charset is None:
        column = replace(column, charset="binary")
    return column


def test_the_files_hold_at_least_300_statements() -> None:
    assert sum(1 for path in FILES for _ in read_cases(path)) >= 300
