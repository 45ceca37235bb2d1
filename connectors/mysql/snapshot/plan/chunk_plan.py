"""The chunk plan and the watermarks of a pipeline: two files in the connector's state folder.

`chunks.jsonl` holds the entries of `chunk`, written by the stream reader process before an offset counts them: an
offset's `chunks` is the number of valid entries. Later entries were written by a run that crashed, and are cut off.
`watermarks.jsonl` holds the results of reading the chunks, written by the driver when a batch is decided; nothing in it
is ever revoked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.state.store import RESTORE, Store
from connectors.mysql.schema.schemas import RUNS
from connectors.mysql.snapshot.chunk import Begin, Chunk, Entry, Watermark, entry_from_json, entry_to_json
from connectors.mysql.snapshot.plan.table_snapshots import TableSnapshot, TableSnapshots

PLAN_FILE, WATERMARKS_FILE = "chunks.jsonl", "watermarks.jsonl"


class ChunkPlan:
    """The plan's entries, and the state they amount to. Keep the object: it reads on incrementally.

    `append` and `truncate` are for the single writer. Not thread-safe.
    """

    def __init__(self, store: Store) -> None:
        self._lines = store.log(PLAN_FILE, "chunk plan")
        self._generation = 0
        self._entries: list[Entry] = []
        self._snapshots = TableSnapshots()

    def count(self) -> int:
        """Number of entries."""
        self._refresh()
        return len(self._entries)

    def append(self, entries: Iterable[Entry]) -> int:
        """Append entries durably; returns the new count."""
        self._lines.append(*map(entry_to_json, entries))
        return self.count()

    def truncate(self, count: int) -> None:
        """Remove all entries after the first `count`. Repeatable."""
        self._lines.truncate(count)
        self._refresh()

    def entries(self, first: int, last: int) -> Sequence[Entry]:
        """Return the entries from `first` (inclusive) to `last` (exclusive). Raises StateError when there are fewer."""
        self._lines.items(first, last)
        self._refresh()
        return self._entries[first:last]

    def first_entries(self) -> int:
        """Number of entries that the pipeline began with: the tables that existed at its start."""
        self._refresh()
        return sum(
            1 for _ in takewhile(lambda entry: isinstance(entry, Begin) and entry.why == "initial", self._entries)
        )

    def chunk(self, number: int) -> Chunk:
        """Return the chunk of that number. Raises StateError when the entry is not a chunk."""
        (entry,) = self.entries(number, number + 1)
        if not isinstance(entry, Chunk):
            raise StateError(f"entry {number} of the chunk plan is not a chunk", where=str(self._lines.path))
        return entry

    def tries(self, chunk: Chunk) -> int:
        """Number of times a chunk was planned, including the chunks that it replaces. Raises StateError."""
        return 1 if chunk.replaces is None else 1 + self.tries(self.chunk(chunk.replaces))

    def snapshots(self, count: int) -> Mapping[TableId, TableSnapshot]:
        """Return the tables whose snapshot has begun and not ended within the first `count` entries.

        Fast for a growing `count`.
        """
        self.entries(count, count)  # raises StateError if there are fewer
        if count < self._snapshots.count:
            self._snapshots = TableSnapshots()
        for entry in self._entries[self._snapshots.count : count]:
            self._snapshots.apply(entry)
        return self._snapshots.tables

    def requests(self) -> frozenset[str]:
        """Return the names of all requests that caused entries."""
        self._refresh()
        return frozenset(entry.request for entry in self._entries if isinstance(entry, Begin) and entry.request)

    def _refresh(self) -> None:
        number = len(self._lines)
        if self._lines.generation != self._generation:
            self._generation, self._entries, self._snapshots = self._lines.generation, [], TableSnapshots()
        if number == len(self._entries):
            return
        for index, fields in enumerate(self._lines.items(len(self._entries), number), start=len(self._entries)):
            try:
                self._entries.append(entry_from_json(fields))
            except (ValueError, KeyError, TypeError) as error:
                reason = f"entry {index} of the chunk plan cannot be read: {error!r}"
                raise StateError(reason, where=str(self._lines.path), hint=RESTORE) from error


class Watermarks(Mapping[int, Watermark]):
    """The watermarks of decided chunks by number. Keep the object: `refresh` reads on incrementally."""

    def __init__(self, store: Store) -> None:
        self._lines = store.log(WATERMARKS_FILE, "watermarks")
        self._taken = 0
        self._known: dict[int, Watermark] = {}

    def __getitem__(self, number: int) -> Watermark:
        return self._known[number]

    def __iter__(self) -> Any:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def refresh(self) -> Watermarks:
        """Read what was written since the last call; returns itself. Raises StateError."""
        for fields in self._lines.items(self._taken):
            try:
                found = Watermark(**fields)
            except TypeError as error:
                reason = f"entry {self._taken} of the watermarks cannot be read: {error!r}"
                raise StateError(reason, where=str(self._lines.path), hint=RESTORE) from error
            self._known[found.number] = found
            self._taken += 1
        return self

    def add(self, found: Iterable[Watermark]) -> None:
        """Write the watermarks that are not stored yet. Driver only."""
        self.refresh()
        fresh = {mark.number: mark for mark in found if mark.number not in self._known}
        self._lines.append(*(mark.to_json() for mark in fresh.values()))
        self.refresh()


@lru_cache(maxsize=RUNS)
def shared_plan(store: Store) -> ChunkPlan:
    """Return the plan shared by the tasks of a process: each task reads only newly added entries."""
    return ChunkPlan(store)


@lru_cache(maxsize=RUNS)
def shared_watermarks(store: Store) -> Watermarks:
    """Return the watermarks shared by the tasks of a process."""
    return Watermarks(store)
