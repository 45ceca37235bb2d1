"""Queries of a task to the server, about keys that only the server can compare. Executor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pymysql

from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import query


class ServerQuery:
    """Queries the server over its own session, opened on first use."""

    def __init__(self, session: Callable[[], MySqlConnection]) -> None:
        self._session = session
        self._connection: MySqlConnection | None = None

    def __call__(self, statement: str) -> tuple[Any, ...]:
        """Run a statement and return its only row."""
        if self._connection is None:
            self._connection = self._session()
        (row,) = query(self._connection, statement)
        return row

    def close(self) -> None:
        """Close the session."""
        if self._connection is not None:
            with suppress(pymysql.err.MySQLError, OSError):
                self._connection.close()
            self._connection = None
