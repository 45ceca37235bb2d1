"""The retry policy: what is retried, for how long, and how the pauses grow. Any process.

The error determines whether it is retryable (`CdcError.retryable`), an option for how long (`retry-timeout`).
Connectors and the engine do all their waiting here, so every wait ends when a stop of the run is requested, and the
status line shows what it waits for.

Pauses double from `first_pause_s` to `longest_pause_s` (exponential back-off). An outer wait, as the engine's around a
sink's, counts the time of the inner one: the longer of the two timeouts is the limit, not their sum.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cdc.errors import CdcError

T = TypeVar("T")
E = TypeVar("E", bound=CdcError)

log = logging.getLogger(__name__)

_LOOK_S = 0.2
"""How often a pause checks whether a stop of the run is requested."""

_TELL_S = 10.0
"""How often a continuing wait is logged."""


def _never() -> bool:
    return False


def _ignore(text: str) -> None:
    """Do nothing: there is no status line."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Timeout and pauses of retries. Frozen; picklable if `stopping` is.

    Attributes:
        timeout_s: time from the first failure; a later failure is raised.
        first_pause_s, longest_pause_s: the pause doubles from the one to the other.
        stopping: whether a stop of the run is requested, which ends all retries.
        waiting: called before each pause with what is waited for and why, for a status line.
        clock, sleep: monotonic seconds; replaced in tests.
    """

    timeout_s: float = 600.0
    first_pause_s: float = 0.1
    longest_pause_s: float = 10.0
    stopping: Callable[[], bool] = _never
    waiting: Callable[[str], None] = _ignore
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def call(self, attempt: Callable[[], T], what: str) -> T:
        """Return the result of `attempt`, repeated after each retryable error. `what` begins the log messages.

        Raises the last error on timeout or when a stop is requested, and errors that are not retryable at once.
        """
        backoff = Backoff(self, what)
        while True:
            try:
                return attempt()
            except CdcError as error:
                if not error.retryable or not backoff.pause(error):
                    backoff.given_up(error)
                    raise

    def wait(self, seconds: float) -> bool:
        """Wait for that long, regardless of the timeout; return False as soon as a stop of the run is requested."""
        while seconds > 0 and not self.stopping():
            self.sleep(min(seconds, _LOOK_S))
            seconds -= _LOOK_S
        return not self.stopping()


class Backoff:
    """The growing pauses of one wait, for retries or for polling a server."""

    def __init__(self, policy: RetryPolicy, what: str) -> None:
        self._policy, self._what = policy, what
        self._began_s: float | None = None
        self._reported_s = 0.0
        self._next_s = policy.first_pause_s

    def pause(self, state: str | CdcError = "") -> bool:
        """Wait before the next attempt; return False at once on timeout or when a stop of the run is requested.

        `state` is for messages: the error of the last attempt, the state of a job. The time counts from the first call,
        or from the beginning of the wait that ended with this error.
        """
        pause_s = self.next_pause_s(state)
        return pause_s is not None and self._policy.wait(pause_s)

    def given_up(self, error: E) -> E:
        """Note in an error for how long this wait has lasted, and return the error."""
        if self._began_s is not None:
            error.waited_s = self._policy.clock() - self._began_s
        return error

    def next_pause_s(self, state: str | CdcError = "") -> float | None:
        """Return the seconds to wait, for callers that do not wait with `pause`; None where that returns False."""
        policy, now = self._policy, self._policy.clock()
        if self._began_s is None:
            self._began_s, self._reported_s = now - (state.waited_s if isinstance(state, CdcError) else 0.0), now
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
