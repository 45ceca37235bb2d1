"""The rule for when a pipeline has caught up with a log: for bounded runs, the lag and `cdc verify`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.server.positions import LogPosition


@dataclass(frozen=True, slots=True)
class LogProgress:
    """A stretch of log that was examined, starting at a pipeline's position.

    Attributes:
        upto: end of the examined log.
        waiting: something in it is not delivered yet. Log without captured tables does not count, whatever its size and
            number of files.
    """

    upto: LogPosition
    waiting: bool

    def caught_up(self, end: LogPosition) -> bool:
        """Return whether the pipeline has everything that the log holds up to `end`."""
        return not self.waiting and self.upto >= end
