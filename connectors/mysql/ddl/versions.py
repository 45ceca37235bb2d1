"""MariaDB's system-versioned tables: two columns of their own, also where none is declared, and a longer key.

The log carries every version of a row, with these columns; `information_schema` hides them when they are not declared.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.mysql.table import MySqlColumn, MySqlTable

ROW_VERSIONS = tuple(
    MySqlColumn(name, "timestamp", 6, nullable=False, generated=True) for name in ("row_start", "row_end")
)
"""The columns of a system-versioned table that declares none."""
NEVER = "2038-01-19 03:14:07.999999"
"""The end of a version that holds still; rows that are there when the server begins to keep versions get it."""


def with_versions(table: MySqlTable, row_end: str | None) -> MySqlTable:
    """The table as its rows are in the log; `row_end` is the declared column, None when the server adds its own."""
    columns = table.columns if row_end is not None else (*table.columns, *ROW_VERSIONS)
    end = row_end or ROW_VERSIONS[1].name
    key = table.primary_key if end in table.primary_key else (*table.primary_key, end)
    return replace(table, columns=columns, primary_key=key if table.primary_key else ())


def without_versions(table: MySqlTable) -> MySqlTable:
    """The table as it was declared, without the server's own columns."""
    end = ROW_VERSIONS[1].name
    key = tuple(name for name in table.primary_key if name != end)
    return replace(table, columns=table.columns[:-2], primary_key=key)
