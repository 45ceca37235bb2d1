"""The one retry policy: what may be tried again, how long, and how the pauses grow. Any process.

What is retryable is said by the error (`CdcError.retryable`); how long is one option (`retry-timeout`). Connectors and
the engine wait here and nowhere else, so every wait ends when the run is asked to stop, and says what it waits for.

Pauses double from `first_pause_s` to `longest_pause_s` (exponential back-off).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cdc.errors import CdcError

T = TypeVar("T")

log = logging.getLogger(__name__)

_LOOK_S = 0.2
"""A pause looks this often whether the run is asked to stop."""

_TELL_S = 10.0
"""A wait that goes on says so this often."""


def _never() -> bool:
    return False


def _ignore(text: str) -> None:
    """Nobody has a status line."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The time and the pauses with which something is tried. Frozen and picklable, as long as `stopping` is.

    Attributes:
        timeout_s: from the first failure on; what fails after that is raised.
        first_pause_s, longest_pause_s: the pause doubles from the one to the other.
        stopping: whether the run is asked to stop; then nothing is tried again.
        waiting: is told before each pause what is waited for and why, for a status line.
        clock, sleep: monotonic seconds; handed in by tests.
    """

    timeout_s: float = 600.0
    first_pause_s: float = 0.1
    longest_pause_s: float = 10.0
    stopping: Callable[[], bool] = _never
    waiting: Callable[[str], None] = _ignore
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def call(self, attempt: Callable[[], T], what: str) -> T:
        """The result of `attempt`, tried again after each retryable error. `what` begins the lines of log.

        Raises the last error when the time is up or the run is to stop, and at once what is not retryable.
        """
        backoff = Backoff(self, what)
        while True:
            try:
                return attempt()
            except CdcError as error:
                if not error.retryable or not backoff.pause(str(error)):
                    raise

    def wait(self, seconds: float) -> bool:
        """Wait for so long, whatever the timeout; False as soon as the run is asked to stop."""
        while seconds > 0 and not self.stopping():
            self.sleep(min(seconds, _LOOK_S))
            seconds -= _LOOK_S
        return not self.stopping()


class Backoff:
    """The pauses of one wait, for a retry or for a poll of what a server does in its own time."""

    def __init__(self, policy: RetryPolicy, what: str) -> None:
        self._policy, self._what = policy, what
        self._began_s: float | None = None
        self._reported_s = 0.0
        self._next_s = policy.first_pause_s

    def pause(self, state: str = "") -> bool:
        """Wait for the next try; False at once when the time is up or the run is asked to stop.

        `state` is what is known: the error of the last try, the state of a job. The time counts from the first call.
        """
        pause_s = self.next_pause_s(state)
        return pause_s is not None and self._policy.wait(pause_s)

    def next_pause_s(self, state: str = "") -> float | None:
        """Seconds until the next try, for waits by other means than `pause`; None where that one is False."""
        policy, now = self._policy, self._policy.clock()
        if self._began_s is None:
            self._began_s = self._reported_s = now
            log.debug("%s: %s", self._what, state)
        left_s = self._began_s + policy.timeout_s - now
        if left_s <= 0 or policy.stopping():
            return None
        policy.waiting(f"{self._what}: {state}")
        if now - self._reported_s >= _TELL_S:
            self._reported_s = now
            log.warning("%s: waiting for %.0f s: %s", self._what, now - self._began_s, state)
        pause_s = min(self._next_s, left_s)
        self._next_s = min(self._next_s * 2, policy.longest_pause_s)
        return pause_s
