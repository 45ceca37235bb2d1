"""Queries over Arrow tables with DuckDB."""

from __future__ import annotations

import os
from functools import lru_cache

import duckdb


def connection() -> duckdb.DuckDBPyConnection:
    """Return a separate connection to the process's in-memory database; close it after use.

    Opening a database starts threads, which takes longer than finding the few keys of a small batch.
    """
    return _database(os.getpid()).cursor()


@lru_cache(maxsize=1)
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """Return the database of this process: after a fork, that of the parent has no threads."""
    return duckdb.connect()
