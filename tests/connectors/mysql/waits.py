"""A retry policy on a clock that stands still but while it waits."""

from __future__ import annotations

from collections.abc import Callable

from cdc.retry import RetryPolicy
from connectors.mysql.server.connection import RETRY


class Waits:
    """Counts what is waited for.

    Args:
        then: called with the number of waits so far, at the end of each part of a wait (a fifth of a second at most).

    Attributes:
        total_s: seconds waited.
        policy: as the connector's own.
    """

    def __init__(self, then: Callable[[int], None] = lambda number: None) -> None:
        self.total_s, self.parts, self._then = 0.0, 0, then
        self.policy = RetryPolicy(
            RETRY.timeout_s, RETRY.first_pause_s, RETRY.longest_pause_s, clock=lambda: self.total_s, sleep=self._sleep
        )

    def _sleep(self, seconds: float) -> None:
        self.total_s += seconds
        self.parts += 1
        self._then(self.parts)


def none() -> RetryPolicy:
    """For what has nothing to wait for."""
    return RetryPolicy(timeout_s=0.0)
