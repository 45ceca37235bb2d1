"""Opens the server's log for its readers. Picklable: used by the follower and by tasks."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from connectors.mysql.log.segment import LogRange
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.connection import RETRY, ConnectionOptions, MySqlConnection, connect
from connectors.mysql.server.positions import LogPosition, check_gtid_position
from connectors.mysql.server.same_server import check_has_transactions, check_same, needed_gtids
from connectors.mysql.server.server_check import announce_reader
from connectors.mysql.server.server_info import server_info

if TYPE_CHECKING:
    from connectors.mysql.log.stream import BinlogStream

_FIRST_RANDOM_ID = 1 << 31


class Streams:
    """Connections and replication streams of one pipeline.

    Each reader (0: the follower, 1 and up: the tasks of a batch) needs its own replica id.

    Attributes:
        retry: how long a server may be down; does not wait in a stopping run.
    """

    def __init__(self, options: MySqlSourceOptions, stopping: Callable[[], bool] = RETRY.stopping) -> None:
        self._options, self._connection = options, ConnectionOptions.of(options)
        self.retry = replace(RETRY, timeout_s=options.retry_timeout_s, stopping=stopping)

    def session(self, *, patient: bool = True) -> MySqlConnection:
        """Open a session. Raises SourceError, and SourceUnavailable after the retries that the options allow.

        With `patient=False` there is only one attempt.
        """
        return connect(self._connection, self.retry if patient else replace(self.retry, timeout_s=0.0))

    def at(self, at: LogPosition, until_end: bool = False, *, reader: int = 0, server: str = "") -> BinlogStream:
        """Open the log at a position. Raises AnotherServer when `server` is given and a different server answers."""
        from connectors.mysql.log.stream import BinlogStream

        return BinlogStream(
            self._announced(server), server_id=self._server_id(reader), file=at.file, position=at.position,
            until_end=until_end, heartbeat_s=self._options.heartbeat_interval_s,
        )  # fmt: skip

    def after(self, done: str, *, reader: int = 0, server: str = "") -> BinlogStream:
        """Open the log after a GTID set or position, up to its current end. Raises as `at`."""
        from connectors.mysql.log.stream import BinlogStream

        return BinlogStream(
            self._announced(server), server_id=self._server_id(reader), gtid_set=done, until_end=True,
            heartbeat_s=self._options.heartbeat_interval_s,
        )  # fmt: skip

    def holding(self, part: LogRange, *, reader: int) -> tuple[BinlogStream, bool]:
        """Open the log after the start of a range planned on another server; also returns whether this one is MariaDB.

        Raises SourceUnavailable when the server lacks transactions of the range, PositionLost when it purged them.
        """
        with self.session() as connection:
            info, where = server_info(connection), self._connection.where
            names = {"old": part.server, "new": info.identity}
            after, upto = needed_gtids(part.after, where, **names), needed_gtids(part.upto, where, **names)
            check_has_transactions(info, upto, where, old=part.server)
            check_gtid_position(connection, info, after)
        return self.after(after, reader=reader), info.mariadb

    def _announced(self, server: str) -> MySqlConnection:
        connection = self.session()
        try:
            check_same(connection, server)
            announce_reader(connection, str(uuid.uuid4()))
        except BaseException:
            connection.close()
            raise
        return connection

    def _server_id(self, reader: int) -> int:
        """Return the id from the option if it has enough, else a random one in the upper half, where few collide."""
        ids = self._options.server_ids
        if ids is None or reader >= len(ids):
            return random.SystemRandom().randrange(_FIRST_RANDOM_ID, 2 * _FIRST_RANDOM_ID - 1)
        return ids[reader]
