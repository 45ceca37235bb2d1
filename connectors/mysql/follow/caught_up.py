"""When a pipeline has caught up with a log: the one rule for bounded runs, the lag and `cdc verify`. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.server.positions import LogPosition


@dataclass(frozen=True, slots=True)
class Looked:
    """A stretch of log that was looked through, from where a pipeline is on.

    Attributes:
        upto: behind all that was looked at.
        waiting: something in it still has to be delivered. What names none of the captured tables does not, whatever
            its size, and however many files it takes.
    """

    upto: LogPosition
    waiting: bool

    def caught_up(self, end: LogPosition) -> bool:
        """Whether the pipeline has all that the log holds up to `end`."""
        return not self.waiting and self.upto >= end
