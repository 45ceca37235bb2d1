"""A session kept open for the planner's queries to the server. Stream reader process."""

from __future__ import annotations

from contextlib import suppress

import pymysql

from cdc.errors import SourceUnavailable
from connectors.mysql.follow.streams import Streams
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import ServerInfo, server_info


class InfoSession:
    """Opens the session on first use, and again when it is broken."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._connection: MySqlConnection | None = None

    def info(self) -> ServerInfo:
        """Return the server info with the end of its log. Raises SourceUnavailable."""
        if self._connection is not None:
            try:
                return server_info(self._connection)
            except SourceUnavailable:
                self.close()
        self._connection = self._streams.session()
        return server_info(self._connection)

    def connection(self) -> MySqlConnection:
        """Return the session after a successful query. Raises SourceUnavailable."""
        self.info()
        assert self._connection is not None, "it has answered"
        return self._connection

    def close(self) -> None:
        """Close the session; the next query opens a new one."""
        if self._connection is not None:
            with suppress(pymysql.err.MySQLError, OSError):
                self._connection.close()
            self._connection = None
