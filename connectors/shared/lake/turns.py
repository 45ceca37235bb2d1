"""Turns of upkeep: behind commits, each table of a lake once in so many."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cdc.errors import SinkError
from cdc.schema import TableId

log = logging.getLogger(__name__)


@dataclass
class UpkeepTurns:
    """Counts commits of each table. Driver.

    Args:
        every: the commits between two turns of a table.
    """

    every: int
    _commits: dict[TableId, int] = field(default_factory=dict)

    def after_commit(self, committed: Sequence[TableId], work: Callable[[TableId], str]) -> None:
        """Do the work for the tables whose turn it is. A SinkError is logged, and the next turn tries again.

        `work` says what was done, or nothing.
        """
        for table in committed:
            # Tables begin at different counts, so that not all have their turn at one commit.
            start = zlib.crc32(str(table).encode()) % self.every
            self._commits[table] = count = self._commits.get(table, start) + 1
            if count % self.every:
                continue
            try:
                done = work(table)
                if done:
                    log.info("%s: %s", table, done)
            except SinkError as error:
                log.warning("%s is not compacted now: %s", table, error)
