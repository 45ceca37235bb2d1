"""Queries: names checked as the server does, then run by DuckDB over views of the tables."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb

from cdc_standins.sql_server import Result, SqlError
from cdc_standins.sql_text import Token, Unparsable, literal, quoted, to_duckdb, tokens
from cdc_standins.starrocks.catalog import INFORMATION
from cdc_standins.starrocks.errors import analyzing, denied, syntax, unknown_database, unknown_table
from cdc_standins.starrocks.information import INFORMATION_TABLES, OWN_SCHEMA, Information
from cdc_standins.starrocks.results import duckdb_result
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.statements import Who

VERSION = "3.5.4"
_BEFORE_NAMES = ("FROM", "JOIN")
_AFTER_NAMES = ("WHERE", "GROUP", "ORDER", "LIMIT", "HAVING", "UNION", "ON", "USING", "SELECT", "WINDOW", "QUALIFY")
_FUNCTIONS = {"length": "strlen", "char_length": "length", "character_length": "length", "ifnull": "coalesce"}


class Select:
    """Runs queries for one stand-in."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._information_tables = Information(services)

    def run(self, sql: str, who: Who) -> Result:
        """The rows of a query. Raises SqlError."""
        try:
            query, largeints, information = self._translated(sql, who)
        except Unparsable as error:
            raise syntax(sql[:30], str(error)) from error
        for name in information:
            self._information_tables.refresh(name)
        schema = who.database if who.database in self._services.catalog.databases else "main"
        try:
            columns, rows = self._services.data.query(query, schema)
        except duckdb.Error as error:
            raise analyzing(str(error).partition("\n")[0]) from error
        return duckdb_result(columns, rows, largeints)

    def to_duckdb(self, sql: str, who: Who) -> str:
        """A query on tables as DuckDB runs it. Raises SqlError or Unparsable."""
        return self._translated(sql, who)[0]

    def _translated(self, sql: str, who: Who) -> tuple[str, set[str], set[str]]:
        found = tokens(sql)
        common = _common_tables(found)
        replaced: dict[int, tuple[int, str]] = {}
        largeints: set[str] = set()
        information: set[str] = set()
        for first, names in _table_names(found):
            if len(names) == 1 and names[0].text.lower() in common:
                continue
            parts = [name.text for name in names]
            database, table = (parts[-2], parts[-1]) if len(parts) > 1 else (who.database, parts[0])
            if database.lower() == INFORMATION:
                text = self._information(table)
                information.add(table.lower())
            else:
                text = self._checked(database, table, who, largeints)
            replaced[first.start] = (names[-1].end, text)
        return _spliced(sql, found, replaced, who), largeints, information

    def _information(self, table: str) -> str:
        if table.lower() not in INFORMATION_TABLES:
            raise unknown_table(INFORMATION, table)
        return f"{quoted(OWN_SCHEMA)}.{quoted(table.lower())}"

    def _checked(self, database: str, name: str, who: Who, largeints: set[str]) -> str:
        if not database:
            raise SqlError("No database selected", 1046, "3D000")
        catalog = self._services.catalog
        if database not in catalog.databases:
            raise unknown_database(database)
        table = catalog.find(database, name)
        if table is None:
            raise unknown_table(database, name)
        if not self._services.users.allowed(who.user, "SELECT", database, name):
            raise denied(f"you need (at least one of) the SELECT privilege(s) on TABLE {name} for this operation.")
        largeints.update(column.name.lower() for column in table.columns if column.type.name == "LARGEINT")
        return f"{quoted(database)}.{quoted(name)}"


def _common_tables(found: list[Token]) -> set[str]:
    """Names that the query defines itself: `WITH name AS (`."""
    threes = zip(found, found[1:], found[2:], strict=False)
    return {name.text.lower() for name, word, sign in threes if word.text.upper() == "AS" and sign.text == "("}


def _table_names(found: list[Token]) -> Iterator[tuple[Token, list[Token]]]:
    """The names after FROM and JOIN, and after the commas of a FROM: the first token, and the parts."""
    depth = 0
    expecting: set[int] = set()
    position = 0
    while position < len(found):
        token = found[position]
        word = token.text.upper() if token.kind == "word" else ""
        if token.text == "(" and token.kind == "sign":
            depth += 1
        elif token.text == ")" and token.kind == "sign":
            expecting.discard(depth)
            depth -= 1
        elif word in _AFTER_NAMES:
            expecting.discard(depth)
        elif word in _BEFORE_NAMES or (token.text == "," and token.kind == "sign" and depth in expecting):
            expecting.add(depth)
            names = _dotted(found, position + 1)
            if names and not _is_call(found, position + 2 * len(names)):
                yield names[0], names
        position += 1


def _dotted(found: list[Token], position: int) -> list[Token]:
    names: list[Token] = []
    while position < len(found) and found[position].kind in ("word", "name"):
        names.append(found[position])
        if position + 1 >= len(found) or found[position + 1].text != ".":
            break
        position += 2
    return names


def _is_call(found: list[Token], position: int) -> bool:
    return position < len(found) and found[position].text == "("


def _spliced(sql: str, found: list[Token], replaced: dict[int, tuple[int, str]], who: Who) -> str:
    """The query with its table names replaced, and functions that DuckDB has not or calls otherwise."""
    constants = {"version": "8.0.33", "current_version": f"{VERSION} stand-in", "database": who.database}
    parts: list[str] = []
    end = 0
    for position, token in enumerate(found):
        if token.start < end:
            continue
        parts.append(" " if token.start > end else "")
        end = token.end
        calls = token.kind == "word" and _is_call(found, position + 1)
        lower = token.text.lower()
        if token.start in replaced:
            end, text = replaced[token.start]
        elif calls and lower in constants and found[position + 2].text == ")":
            end, text = found[position + 2].end, literal(constants[lower])
        elif token.kind == "word" and lower == "largeint":
            text = "HUGEINT"
        elif calls:
            text = _FUNCTIONS.get(lower, token.text)
        else:
            text = to_duckdb(sql[token.start : token.end])
        parts.append(text)
    return "".join(parts)
