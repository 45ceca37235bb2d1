"""A session for occasional queries, kept open between them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pymysql

from cdc.errors import SourceUnavailable
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import ServerInfo, query, server_info


class LazySession:
    """Opens the session on first use. One thread."""

    def __init__(self, connect: Callable[[], MySqlConnection]) -> None:
        self._connect = connect
        self._connection: MySqlConnection | None = None

    def only_row(self, statement: str) -> tuple[Any, ...]:
        """Run a statement and return its only row; reopens a session that was closed while idle. Raises SourceError."""
        if self._connection is not None:
            try:
                return self._only_row(statement)
            except SourceUnavailable:
                self.close()
        return self._only_row(statement)

    def info(self) -> ServerInfo:
        """Return the server info with the end of its log; reopens a broken session. Raises SourceUnavailable."""
        if self._connection is not None:
            try:
                return server_info(self._connection)
            except SourceUnavailable:
                self.close()
        return server_info(self._open())

    def connection(self) -> MySqlConnection:
        """Return the session after a successful query. Raises SourceUnavailable."""
        self.info()
        return self._open()

    def close(self) -> None:
        """Close the session; the next query opens a new one."""
        if self._connection is not None:
            with suppress(pymysql.err.MySQLError, OSError):
                self._connection.close()
            self._connection = None

    def _only_row(self, statement: str) -> tuple[Any, ...]:
        (row,) = query(self._open(), statement)
        return row

    def _open(self) -> MySqlConnection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection
