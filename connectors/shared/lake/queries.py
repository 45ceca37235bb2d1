"""Queries over Arrow tables with DuckDB."""

from __future__ import annotations

import os
from functools import lru_cache

import duckdb


def connection() -> duckdb.DuckDBPyConnection:
    """A connection of its own, to close after use, to the process's database in memory.

    Opening a database starts threads, which takes longer than to look for the few keys of a small batch.
    """
    return _database(os.getpid()).cursor()


@lru_cache(maxsize=1)
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """The database of this process: that of a parent has no threads after a fork."""
    return duckdb.connect()
