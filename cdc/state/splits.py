"""The splits of the batches under way, on disk before the first task reads one.

A replay uses exactly them, however many cores there are then and whatever `parallelism` says: a sink that remembers by
task what it has (batch and partition) would else lose the rows that moved into a part it knows, or double them. The
batch's moment, which `NOW()` of transform rules is, is kept with them for the same reason.
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
        """The splits of the batch between two offsets of the engine: the stored ones, `again`, else the source's, now
        stored.

        Stream reader process, before any task of the batch. Raises StateError when they cannot be written or read.
        """
        batch = end[BATCH_KEY] - 1
        stored = self._stored(batch, start, end)
        if stored is not None:
            return stored
        made = source.splits(source_offset(start), source_offset(end), parallelism)
        if not made:  # no task, so nothing that a replay could repeat differently
            return ()
        parts = [[split.index, split.payload] for split in made]
        moment_ms = int(self._clock() * 1000)
        text = json.dumps({"start": start, "end": end, "splits": parts, "moment_ms": moment_ms})
        self._store.write(_name(batch), text.encode("utf-8"))
        return _splits(json.loads(text))

    def load(self, batch: int, start: Offset, end: Offset) -> Sequence[Split]:
        """The splits of a batch that was read before; none when they are not there. Driver. Raises StateError."""
        return self._stored(batch, start, end) or ()

    def prune(self, done: int) -> None:
        """Forget the batches up to `done`, which are committed: they are not read again. Driver."""
        for name in self._store.names():
            number = name.removesuffix(_SUFFIX)
            if number.isdigit() and int(number) <= done:
                self._store.remove(name)

    def _stored(self, batch: int, start: Offset, end: Offset) -> Sequence[Split] | None:
        """The splits of a batch; None also when they are of one that was planned under this number and never began."""
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
