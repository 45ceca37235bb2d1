"""Prints the tables of a DuckDB file and how many rows each holds: `python scripts/show_tables.py FILE`."""

from __future__ import annotations

import sys

import duckdb


def main(path: str) -> int:
    """List every table but the tool's own (schema `_cdc`); the exit code, 1 when there is none."""
    with duckdb.connect(path, read_only=True) as connection:
        found = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name <> '_cdc' ORDER BY ALL"
        ).fetchall()
        for schema, table in found:
            rows = connection.execute(f'SELECT count(*) FROM "{schema}"."{table}"').fetchall()[0][0]
            print(f"{schema}.{table:<24} {rows:>8,} rows")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
