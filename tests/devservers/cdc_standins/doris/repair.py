"""At the start: the physical tables and views as the catalog has them, whenever an earlier process was killed.

Every change of a table puts the catalog's new state on disk right before DuckDB's transaction ends. A process that is
killed between the two leaves the catalog ahead by one change, which is repeated here.
"""

from __future__ import annotations

from cdc_standins.doris.catalog import Column, Table
from cdc_standins.doris.engine import Engine, physical_sql, view_sql
from cdc_standins.sql_text import quoted


def repair(engine: Engine) -> None:
    """Make DuckDB agree with the catalog; does nothing after an orderly end."""
    tables, views = engine.data.everything()
    known = {table.stored: table for table in engine.catalog.tables()}
    statements = [f"CREATE SCHEMA IF NOT EXISTS {quoted(db)}" for db in engine.catalog.own_databases()]
    wanted_views = {(table.db, table.name) for table in known.values()}
    statements += [f"DROP VIEW {quoted(schema)}.{quoted(name)}" for schema, name in views - wanted_views]
    statements += [f"DROP TABLE main.{quoted(name)}" for name in tables.keys() - known.keys()]
    for table in known.values():
        statements += _changes(table, tables.get(table.stored))
        statements.append(view_sql(table))
    engine.data.execute(*statements)


def _changes(table: Table, actual: dict[str, str] | None) -> list[str]:
    if actual is None:
        return [physical_sql(table)]
    physical = f"ALTER TABLE main.{quoted(table.stored)}"
    wanted = {column.stored: column for column in table.columns}
    changes = [f"{physical} ADD COLUMN {quoted(name)} {added_column(column)}" for name, column in wanted.items()
               if name not in actual]  # fmt: skip
    changes += [f"{physical} DROP COLUMN {quoted(name)}" for name in actual if name not in wanted]
    changes += [
        f"{physical} ALTER COLUMN {quoted(name)} TYPE {column.type.duck}"
        for name, column in wanted.items()
        if name in actual and actual[name] != column.type.duck
    ]
    return changes


def added_column(column: Column) -> str:
    """Type and default of a column that DuckDB adds to rows that are there."""
    return f"{column.type.duck} DEFAULT {column.default_sql}"
