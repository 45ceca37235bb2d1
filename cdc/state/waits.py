"""The waits of processes of a run, such as an executor for its sink, for the driver's status line.

    waiting.json    {"text": "Kafka k:9092: sending records: no answer", "at_s": 1795230361.5}

An entry is valid for a few seconds only: a waiting process repeats it, and nothing marks the end of a wait.
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
    """The current wait in a store. Picklable. `now` returns seconds since the epoch."""

    store: Store
    now: Callable[[], float] = time.time

    def note(self, text: str) -> None:
        """Note what this process waits for, before each pause. Any process. Raises StateError."""
        self.store.write_json_later(_NAME, {"text": text, "at_s": self.now()})

    def current(self) -> str:
        """The current wait, empty for none. Driver, several times a second. Raises StateError."""
        fields = self.store.read_json(_NAME)
        if fields is None or self.now() - fields["at_s"] > _COUNTS_S:
            return ""
        return str(fields["text"])
