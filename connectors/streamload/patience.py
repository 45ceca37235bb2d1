"""Waiting for what a server does in its own time: schema-change jobs, loads that are to become visible. Driver."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _PROGRESS_S = 0.02, 1.0, 10.0


@dataclass(frozen=True, slots=True)
class Waits:
    """Time as a step sees it: `limit_s` is how long one statement with its job may take."""

    limit_s: float
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


class Patience:
    """Pauses that grow, a line of log now and then, and an end. `what` begins the lines: what is waited for."""

    def __init__(self, waits: Waits, what: str) -> None:
        self._waits, self._what = waits, what
        self._begun = self._said = waits.clock()
        self._pause_s = _FIRST_PAUSE_S

    def pause(self, state: str = "") -> bool:
        """Wait a moment; False when the time is up."""
        now = self._waits.clock()
        if now - self._begun >= self._waits.limit_s:
            return False
        if now - self._said >= _PROGRESS_S:
            self._said = now
            log.info("%s %s, for %.0f s", self._what, state, now - self._begun)
        self._waits.sleep(min(self._pause_s, self._waits.limit_s))
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return True
