"""A session that is kept for what the planner asks the server. Stream reader process."""

from __future__ import annotations

from contextlib import suppress

import pymysql

from cdc.errors import SourceUnavailable
from connectors.mysql.follow.streams import Streams
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import ServerInfo, server_info


class InfoSession:
    """Opened when it is first needed, and once more when it is gone."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._connection: MySqlConnection | None = None

    def info(self) -> ServerInfo:
        """The server and where its log ends. Raises SourceUnavailable."""
        if self._connection is not None:
            try:
                return server_info(self._connection)
            except SourceUnavailable:
                self.close()
        self._connection = self._streams.session()
        return server_info(self._connection)

    def connection(self) -> MySqlConnection:
        """The session, which has just answered. Raises SourceUnavailable."""
        self.info()
        assert self._connection is not None, "it has answered"
        return self._connection

    def close(self) -> None:
        """Close it; the next question opens another one."""
        if self._connection is not None:
            with suppress(pymysql.err.MySQLError, OSError):
                self._connection.close()
            self._connection = None
