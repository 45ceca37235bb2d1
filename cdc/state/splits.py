"""The splits of batches in progress, on disk before the first task reads one.

A replay uses exactly these splits, regardless of the number of cores and `parallelism` then: a sink that identifies
committed rows by batch and partition would otherwise lose or double rows that moved to another partition. The batch's
moment, the value of `NOW()` in transform rules, is stored with them for the same reason.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cdc.errors import StateError
from cdc.offsets import BATCH_KEY, source_offset
from cdc.source import Offset, Source, Split
from cdc.state.store import RESTORE, Store

_SUFFIX = ".json"


class SplitLog:
    """One small file per batch. Written where batches are planned, pruned by the driver; one object per process."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    def splits(self, source: Source, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """The splits of the batch between two offsets of the engine: the stored ones, marked `again`, else those of the
        source, which are stored.

        Stream reader process, before any task of the batch. Raises StateError if they cannot be written or read.
        """
        batch = end[BATCH_KEY] - 1
        stored = self._stored(batch, start, end)
        if stored is not None:
            return stored
        planned = source.splits(source_offset(start), source_offset(end), parallelism)
        if not planned:  # no tasks, so a replay cannot differ
            return ()
        parts = [[split.index, split.payload] for split in planned]
        moment_ms = int(self._clock() * 1000)
        text = json.dumps({"start": start, "end": end, "splits": parts, "moment_ms": moment_ms})
        self._store.write(_name(batch), text.encode("utf-8"))
        return _splits(json.loads(text))

    def load(self, batch: int, start: Offset, end: Offset) -> Sequence[Split]:
        """The stored splits of a batch; empty if there are none. Driver. Raises StateError."""
        return self._stored(batch, start, end) or ()

    def prune(self, done: int) -> None:
        """Remove the splits of batches up to `done`, which are committed and never read again. Driver."""
        for name in self._store.names():
            number = name.removesuffix(_SUFFIX)
            if number.isdigit() and int(number) <= done:
                self._store.remove(name)

    def _stored(self, batch: int, start: Offset, end: Offset) -> Sequence[Split] | None:
        """The stored splits of a batch; None if there are none, or those of an abandoned plan of this number."""
        name = _name(batch)
        fields = self._store.read_json(name)
        if fields is None:
            return None
        try:
            same = (fields["start"], fields["end"]) == (start, end)
            return _splits(fields, again=True) if same else None
        except (ValueError, LookupError, TypeError) as error:
            raise StateError(f"cannot be read: {error!r}", where=self._store.where(name), hint=RESTORE) from error


def _name(batch: int) -> str:
    return f"{batch}{_SUFFIX}"


def _splits(fields: Mapping[str, Any], *, again: bool = False) -> Sequence[Split]:
    moment_ms = fields["moment_ms"]
    return tuple(Split(index, payload, moment_ms, again) for index, payload in fields["splits"])
