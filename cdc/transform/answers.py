"""Stores the answers of AI models in one task, so that a replay of the batch does not query the model again.

    <state>/answers/batch-7-part-0-3.json    {"<SHA-256 of model and input>": "the answer", ...}

A document is written before rows with its answers are prepared, and every few seconds while answers arrive. A replay
reads all documents of its partition and queries the model only for missing answers. The driver removes the documents of
a batch once it is committed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from cdc.state.store import Store

Answer = str | list[float]

SAVED_S = 2.0
"""How often answers are written to disk while waiting for others."""

_FULL = 1_000
"""Maximum number of answers per document."""

_NAME = re.compile(r"batch-(\d+)-part-\d+-(\d+)\.json")
_OF_BATCH = re.compile(r"(?:functions-)?batch-(\d+)-part-\d+-\d+\.json")


class Answers:
    """The answers of one task. Without a store they live as long as the object. One thread."""

    def __init__(
        self, store: Store | None = None, task: str = "", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`task` is a name such as `batch-7-part-0`. Raises StateError when stored answers cannot be read."""
        self._clock, self._saved_s = clock, clock()
        self._unsaved = False
        self._store, self._task, self._next = store, task, 0
        self._known: dict[str, Answer] = {}
        self._new: dict[str, Answer] = {}
        for name in () if store is None else store.names():
            match = _NAME.fullmatch(name)
            if store is not None and match is not None and name.startswith(f"{task}-"):
                self._known.update(store.read_json(name) or {})
                self._next = max(self._next, int(match[2]) + 1)

    def get(self, key: str) -> Answer | None:
        """Return the stored answer, None when the model has to be queried."""
        return self._known.get(key)

    def put(self, key: str, answer: Answer) -> None:
        """Remember an answer; `save` writes it to disk."""
        self._known[key] = self._new[key] = answer
        self._unsaved = True

    def save(self) -> None:
        """Write all answers to disk. Raises StateError."""
        self._saved_s = self._clock()
        if self._store is not None and self._unsaved:
            self._store.write_json(f"{self._task}-{self._next}.json", self._new)
            self._unsaved = False
        if len(self._new) >= _FULL:
            self._next += 1
            self._new = {}

    def save_periodically(self) -> None:
        """Write all answers to disk if the last time was a while ago. Raises StateError."""
        if self._clock() - self._saved_s >= SAVED_S:
            self.save()


def prune(store: Store, done: int) -> None:
    """Remove the answers of the batches up to `done`, which are committed, and their records of open functions.

    Driver. Raises StateError.
    """
    for name in store.names():
        match = _OF_BATCH.fullmatch(name)
        if match is not None and int(match[1]) <= done:
            store.remove(name)
