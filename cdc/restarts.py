"""Decides whether and when a failed run is restarted (`pipeline.restart`). Pure, any process."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from cdc.errors import (
    CdcError,
    ChangeRefused,
    EditRefused,
    LoadsLost,
    PatternTimeout,
    PositionLost,
    SpecError,
    StateError,
    TransformError,
    UnsupportedChange,
)

Strategy = Literal["none", "fixed-delay", "exponential-delay", "failure-rate"]

FINAL: Final = (
    SpecError, PatternTimeout, EditRefused, PositionLost, UnsupportedChange, LoadsLost, ChangeRefused, TransformError,
)  # fmt: skip
"""Errors that would recur in the next run, as the file or the log is the cause."""

_CHANCE = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """A restart strategy with its settings, named as in Flink; delays in seconds."""

    strategy: Strategy = "exponential-delay"
    fixed_attempts: int = 1
    fixed_delay_s: float = 1.0
    first_backoff_s: float = 1.0
    longest_backoff_s: float = 60.0
    backoff_factor: float = 1.5
    backoff_reset_s: float = 3600.0
    backoff_jitter: float = 0.1
    backoff_attempts: int | None = None
    most_failures: int = 1
    failure_interval_s: float = 60.0
    failure_delay_s: float = 1.0
    same_batch_attempts: int = 5


class Restarts:
    """Counts the failures of one pipeline and computes the pause before each restart.

    `given_up` is the reason for no further restart, and `hopeless` whether a later run would fail too. `count` is the
    number of restarts since the pipeline last made progress.
    """

    def __init__(self, policy: RestartPolicy, chance: Callable[[], float] = _CHANCE.random) -> None:
        self._policy, self._chance = policy, chance
        self.forget()

    def forget(self) -> None:
        """Reset the counters, after a person has intervened."""
        self.count, self.given_up, self.hopeless = 0, "", False
        self._times: deque[float] = deque()
        self._backoff_s, self._last_s = 0.0, float("-inf")
        self._batch: int | None = None
        self._same = 0

    def plan(self, error: CdcError, *, batch: int | None, committed: bool, now_s: float) -> float | None:
        """Return the seconds to wait before restarting a failed run; None for no restart.

        `batch` is the batch that it failed in, if known; `committed` is whether it committed any batch before that.
        `now_s` is from a monotonic clock.
        """
        self.given_up = self._reason_to_give_up(error, batch, committed)
        if self.given_up:
            return None
        delay_s = self._delay_s(committed, now_s)
        if delay_s is None:
            self.given_up = f"restarted as often as {self._policy.strategy} allows"
            return None
        self.count += 1
        return delay_s

    def _reason_to_give_up(self, error: CdcError, batch: int | None, committed: bool) -> str:
        self.hopeless = isinstance(error, FINAL)
        if self.hopeless:
            return "the next run would meet the same"
        if self._policy.strategy == "none":
            return "pipeline.restart is none"
        self._same = 1 if committed or batch != self._batch else self._same + 1
        self._batch = batch
        if error.retryable or batch is None or isinstance(error, StateError):  # the batch is not the cause
            self._same = 0
        if self._same >= self._policy.same_batch_attempts:
            self.hopeless = True
            return f"{self._same} runs failed in batch {batch}"
        return ""

    def _delay_s(self, committed: bool, now_s: float) -> float | None:
        policy = self._policy
        if policy.strategy == "fixed-delay":
            self.count = 0 if committed else self.count
            return policy.fixed_delay_s if self.count < policy.fixed_attempts else None
        if policy.strategy == "failure-rate":
            self._times.append(now_s)
            while self._times[0] <= now_s - policy.failure_interval_s:
                self._times.popleft()
            return policy.failure_delay_s if len(self._times) <= policy.most_failures else None
        if now_s - self._last_s >= policy.backoff_reset_s + self._backoff_s:
            self._backoff_s, self.count = policy.first_backoff_s, 0
        else:
            self._backoff_s = min(self._backoff_s * policy.backoff_factor, policy.longest_backoff_s)
        self._last_s = now_s
        if policy.backoff_attempts is not None and self.count >= policy.backoff_attempts:
            return None
        return self._backoff_s * (1 + policy.backoff_jitter * (2 * self._chance() - 1))
