"""Waits of a process of the run, such as an executor's for its sink, on their way to the driver's status line.

    waiting.json    {"text": "Kafka k:9092: sending records: no answer", "at_s": 1795230361.5}

It counts for a moment only, as who waits says so again and again and nobody says that the wait is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cdc.state.store import Store

_NAME = "waiting.json"
_COUNTS_S = 15.0
"""A little more than the longest pause between two tries (`cdc.retry`)."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The notes of one store; the last one counts. Picklable. `now` is seconds since the epoch."""

    store: Store
    now: Callable[[], float] = time.time

    def note(self, text: str) -> None:
        """Say what is waited for, before each pause. Any process. Raises StateError."""
        self.store.write_json_later(_NAME, {"text": text, "at_s": self.now()})

    def current(self) -> str:
        """The present wait, empty for none. Driver, several times a second. Raises StateError."""
        fields = self.store.read_json(_NAME)
        if fields is None or self.now() - fields["at_s"] > _COUNTS_S:
            return ""
        return str(fields["text"])
