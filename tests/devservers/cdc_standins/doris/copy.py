"""Copies: INSERT INTO .. SELECT, and ALTER TABLE .. REPLACE WITH TABLE, which puts a copy in its source's place."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_standins.doris.catalog import Table
from cdc_standins.doris.engine import Engine, view_sql
from cdc_standins.doris.errors import sql_error
from cdc_standins.doris.query import check_rights
from cdc_standins.sql_text import Parser, quoted, to_duckdb

if TYPE_CHECKING:
    from cdc_standins.doris.sql import DorisSession

_DUCKDB = {"LARGEINT": "HUGEINT", "DATETIME": "TIMESTAMP"}
_CASTS = re.compile(r"(?i)\bAS\s+(LARGEINT|DATETIME)\b(?:\(\d\))?")
"""Types of CAST that DuckDB has under another name."""


def insert_select(engine: Engine, parser: Parser, session: DorisSession, user: str) -> int:
    """INSERT INTO t (a, b) SELECT ..: visible when it is answered. Raises SqlError, `duckdb.Error`."""
    parser.need("INSERT", "INTO")
    db, name = session.name_of(parser.dotted())
    session.need("LOAD_PRIV", db, name)
    with engine.catalog.lock:
        table = engine.catalog.need(db, name)
        names = parser.names() if parser.sees("(") else [column.name for column in table.columns]
        if not parser.sees("SELECT"):
            raise sql_error("the stand-in inserts only what a SELECT gives; rows come by stream load")
        columns = [table.column(item) for item in names]
        if None in columns:
            raise sql_error(f"Unknown column '{names[columns.index(None)]}' in '{name}'", 1054, "42S22")
        if table.busy:
            raise sql_error("the stand-in inserts into no table under a schema change")
        query = _CASTS.sub(lambda found: f"AS {_DUCKDB[found[1].upper()]}", to_duckdb(parser.rest()))
        check_rights(engine, query, db, user)
        stored = [column.stored for column in columns if column is not None]
        engine.data.execute(*_statements(table, stored, query))
    return 0


def _statements(table: Table, stored: list[str], query: str) -> list[str]:
    target, listed = f"main.{quoted(table.stored)}", ", ".join(quoted(name) for name in stored)
    rows = f"(SELECT * FROM ({query}) q({listed})) s"
    if not table.unique:
        return [f"INSERT INTO {target} ({listed}) SELECT * FROM {rows}"]
    keys = [column.stored for column in table.keys]
    same = " AND ".join(f"t.{quoted(key)} IS NOT DISTINCT FROM s.{quoted(key)}" for key in keys)
    one_each = ", ".join(quoted(key) for key in keys)
    return [
        f"DELETE FROM {target} t USING {rows} WHERE {same}",
        f"INSERT INTO {target} ({listed}) SELECT DISTINCT ON ({one_each}) * FROM {rows}",
    ]


def replace_table(engine: Engine, old: Table, name: str, properties: dict[str, str]) -> None:
    """Put the table `name` in the place of `old`, which is gone then. Raises SqlError."""
    catalog = engine.catalog
    if properties.get("swap", "true").lower() != "false":
        raise sql_error("the stand-in knows REPLACE WITH TABLE only with 'swap' = 'false'")
    new = catalog.need(old.db, name)
    if new.id == old.id or new.busy:
        raise sql_error(f"Table[{name}] cannot replace {old.name}")
    named = replace(new, name=old.name)
    with engine.journal.together():
        catalog.remove(old)
        catalog.put(named)
    engine.data.execute(
        f"DROP VIEW IF EXISTS {quoted(old.db)}.{quoted(old.name)}",
        f"DROP VIEW IF EXISTS {quoted(new.db)}.{quoted(new.name)}",
        f"DROP TABLE IF EXISTS main.{quoted(old.stored)}",
        view_sql(named),
    )
