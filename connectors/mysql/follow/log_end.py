"""The distance of a reader from the end of the server's log; queries the server now and then, only while behind."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from cdc.errors import SourceError
from connectors.mysql.gtid import GtidSet
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.positions import FIRST_POSITION, BinlogFile, LogPosition, file_number, list_logs
from connectors.mysql.server.server_info import end_of_log

log = logging.getLogger(__name__)

ASK_S = 10.0
"""Minimum interval between queries."""


@dataclass(frozen=True, slots=True)
class ServerLogEnd:
    """The end of a server's log at one moment.

    Attributes:
        executed: MySQL's GTID set there; empty if the log has none, and on MariaDB.
        files: the log's files with their sizes; empty when not needed.
    """

    at: LogPosition
    executed: str = ""
    files: tuple[BinlogFile, ...] = ()

    def bytes_behind(self, here: LogPosition) -> int:
        """Return the bytes of the log from `here` to the end."""
        if here >= self.at:  # the log has grown since, perhaps into a new file
            return 0
        first, last = file_number(here.file), file_number(self.at.file)
        if first == last:
            return self.at.position - here.position
        between = [file for file in self.files if first <= file_number(file.name) < last]
        skipped = here.position if any(file_number(file.name) == first for file in between) else FIRST_POSITION
        return max(0, sum(file.size for file in between) - skipped + self.at.position)

    def transactions_behind(self, done: str | None) -> int | None:
        """Number of transactions in the log but not in `done`; None without GTIDs."""
        if done is None or not self.executed:
            return None
        return GtidSet.parse(self.executed).minus(GtidSet.parse(done)).count()


class LogEndPoller:
    """Queries the end of the log. `poll` is called by one thread; its last result `latest` is read by any."""

    def __init__(self, session: Callable[[], MySqlConnection], clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._next_s = clock() + ASK_S
        self.latest: ServerLogEnd | None = None

    def poll(self, here: LogPosition) -> None:
        """Query the server if the interval has passed. `here` is the position read so far.

        A server that does not answer is left to the log reader to handle; the previous result is dropped.
        """
        if self._clock() < self._next_s:
            return
        try:
            self.latest = self._read_log_end(here)
        except SourceError as error:
            self.latest = None
            log.debug("the end of the log is not known: %s", error)
        self._next_s = self._clock() + ASK_S

    def is_elsewhere(self, here: LogPosition) -> bool:
        """Return whether the log ends elsewhere than at `here`; False when the server does not answer."""
        try:
            with self._session() as connection:
                file, position, _ = end_of_log(connection)
        except SourceError:
            return False
        return LogPosition(file, position) != here

    def _read_log_end(self, here: LogPosition) -> ServerLogEnd:
        with self._session() as connection:
            file, position, executed = end_of_log(connection)
            files = list_logs(connection) if file_number(file) != file_number(here.file) else ()
        return ServerLogEnd(LogPosition(file, position), executed, files)
