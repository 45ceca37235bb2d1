"""Checks that the next file of a log continues where the previous one ended. Stream reader process.

Each file begins with the transactions that the server logged before it (PREVIOUS_GTIDS, MariaDB's GTID_LIST). A
transaction listed there that was neither committed at the start nor read since was logged in a file that the server no
longer has. Its rows would be silently lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from cdc.errors import PositionLost
from connectors.mysql import events
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log.event_bodies import parse_gtid_list, parse_previous_gtids
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import ANONYMOUS
from connectors.mysql.server.connection_errors import LOST_LOG_HINT
from connectors.mysql.server.positions import file_number

_MOST_RUNS = 10_000
"""Number of GTID runs collected before they are merged."""


class Continuity:
    """Collects the transactions of a log since a position at which `done` was committed; nothing if that is None.

    Attributes:
        opened_files: files that began since, with the second in which the server opened them.
    """

    def __init__(self, done: str | None) -> None:
        self._done, self._runs = done, list[Any]()
        self.opened_files: dict[str, int] = {}

    @property
    def executed_gtids(self) -> str | None:
        """The transactions committed so far; None when unknown."""
        self._gather()
        return self._done

    def add(self, runs: Iterable[Any]) -> None:
        """Add transactions, in the form of segments."""
        if self._done is not None:
            self._runs += runs
            if len(self._runs) > _MOST_RUNS:
                self._gather()

    def next_file(self, before: str, buffer: ReceiveBuffer) -> None:
        """Handle the end of a file; the buffer is the first one of the next. Raises PositionLost."""
        if buffer.file_number <= file_number(before):
            raise PositionLost(
                f"the log continues in {buffer.file} after {before}: the name of the server's log files was changed "
                "(log_bin), and files are put in order by their numbers",
                where=buffer.where(0),
                hint=LOST_LOG_HINT,
            )
        if int(buffer.type[0]) == events.FORMAT_DESCRIPTION:
            self.opened_files[buffer.file] = int(buffer.commit_ms[0]) // 1000

    def check(self, buffer: ReceiveBuffer) -> None:
        """Check the GTID list at the beginning of the buffer's file, before its transactions.

        Raises PositionLost, CorruptLog.
        """
        lists = np.flatnonzero((buffer.type == events.PREVIOUS_GTIDS) | (buffer.type == events.MARIADB_GTID_LIST))
        for index in map(int, lists):
            if self.executed_gtids is None:
                return
            mariadb = int(buffer.type[index]) == events.MARIADB_GTID_LIST
            missing = self._missing_mariadb(buffer, index) if mariadb else self._missing(buffer, index)
            if missing:
                raise PositionLost(
                    f"{buffer.file} continues after the transactions {missing}, which are in no file that the server "
                    "has: a log file was taken from it, or transactions were counted as done (gtid_purged)",
                    where=buffer.where(index),
                    hint=LOST_LOG_HINT,
                )

    def _missing(self, buffer: ReceiveBuffer, index: int) -> GtidSet:
        before = GtidSet().add_all(parse_previous_gtids(buffer, index))
        return before.minus(GtidSet.parse(self._done or ""))

    def _missing_mariadb(self, buffer: ReceiveBuffer, index: int) -> MariaDbGtid:
        """Return missing transactions; the last one listed for a domain is the newest."""
        before = MariaDbGtid().add_all(parse_gtid_list(buffer, index))
        return MariaDbGtid.parse(self._done or "").lacking(before)

    def _gather(self) -> None:
        if ANONYMOUS in self._runs:
            self._done = None
        elif self._runs and self._done is not None:
            mariadb = isinstance(self._runs[0][0], int)
            kind: Any = MariaDbGtid if mariadb else GtidSet
            self._done = str(kind.parse(self._done).add_all(self._runs))
        self._runs = []
