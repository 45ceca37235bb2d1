"""The chunk plan and the watermarks of a pipeline: two files in the connector's state folder.

`chunks.jsonl` holds the entries of `chunk`, written by the stream reader process before an offset counts them: an
offset's `chunks` says how many. What comes behind was written by a run that crashed and is cut off. `watermarks.jsonl`
holds what reading the chunks came to, written by the driver when a batch is decided; nothing in it is ever taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.state.store import Store
from connectors.mysql.schema.schemas import RUNS
from connectors.mysql.snapshot.chunk import Begin, Chunk, Entry, Watermark, entry_from_json, entry_to_json
from connectors.mysql.snapshot.plan.copies import Copies, TableCopy

PLAN_FILE, WATERMARKS_FILE = "chunks.jsonl", "watermarks.jsonl"


class ChunkPlan:
    """The plan's entries, and what they come to after the first so many. Keep the object: it reads on.

    `append` and `truncate` are for the one writer. Not for two threads at once.
    """

    def __init__(self, store: Store) -> None:
        self._lines = store.log(PLAN_FILE, "chunk plan")
        self._generation = 0
        self._entries: list[Entry] = []
        self._copies = Copies()

    def count(self) -> int:
        """How many entries there are."""
        self._refresh()
        return len(self._entries)

    def append(self, entries: Iterable[Entry]) -> int:
        """Write entries to disk; returns the new count."""
        self._lines.append(*map(entry_to_json, entries))
        return self.count()

    def truncate(self, count: int) -> None:
        """Cut off what comes behind the first `count` entries. Repeatable."""
        self._lines.truncate(count)
        self._refresh()

    def entries(self, first: int, last: int) -> Sequence[Entry]:
        """Entries `first` up to and without `last`. Raises StateError when there are fewer."""
        self._lines.items(first, last)
        self._refresh()
        return self._entries[first:last]

    def first_entries(self) -> int:
        """Entries that a pipeline begins with: the tables there were at its start."""
        self._refresh()
        return sum(
            1 for _ in takewhile(lambda entry: isinstance(entry, Begin) and entry.why == "initial", self._entries)
        )

    def chunk(self, number: int) -> Chunk:
        """The chunk of that number. Raises StateError when the entry is something else."""
        (entry,) = self.entries(number, number + 1)
        if not isinstance(entry, Chunk):
            raise StateError(f"entry {number} of the chunk plan is no chunk", where=str(self._lines.path))
        return entry

    def tries(self, chunk: Chunk) -> int:
        """How many times a chunk was planned, with those that it takes the place of. Raises StateError."""
        return 1 if chunk.replaces is None else 1 + self.tries(self.chunk(chunk.replaces))

    def copies(self, count: int) -> Mapping[TableId, TableCopy]:
        """The tables whose copy has begun and not ended within the first `count` entries. Quick when `count` grows."""
        self.entries(count, count)  # there are so many
        if count < self._copies.count:
            self._copies = Copies()
        for entry in self._entries[self._copies.count : count]:
            self._copies.apply(entry)
        return self._copies.tables

    def requests(self) -> frozenset[str]:
        """The names of all requests that entries came from."""
        self._refresh()
        return frozenset(entry.request for entry in self._entries if isinstance(entry, Begin) and entry.request)

    def _refresh(self) -> None:
        number = len(self._lines)
        if self._lines.generation != self._generation:
            self._generation, self._entries, self._copies = self._lines.generation, [], Copies()
        if number == len(self._entries):
            return
        for index, fields in enumerate(self._lines.items(len(self._entries), number), start=len(self._entries)):
            try:
                self._entries.append(entry_from_json(fields))
            except (ValueError, KeyError, TypeError) as error:
                raise StateError(
                    f"entry {index} of the chunk plan cannot be read: {error!r}",
                    where=str(self._lines.path),
                    hint="restore the state directory from a copy, or start over with an empty one",
                ) from error


class Watermarks(Mapping[int, Watermark]):
    """The watermarks of decided chunks by number. Keep the object: it reads on when it is asked to `refresh`."""

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
        """Take in what was written since the last time; returns itself."""
        for fields in self._lines.items(self._taken):
            found = Watermark(**fields)
            self._known[found.number] = found
            self._taken += 1
        return self

    def add(self, found: Iterable[Watermark]) -> None:
        """Write those that are not there yet. Driver only."""
        self.refresh()
        fresh = {mark.number: mark for mark in found if mark.number not in self._known}
        self._lines.append(*(mark.to_json() for mark in fresh.values()))
        self.refresh()


@lru_cache(maxsize=RUNS)
def shared_plan(store: Store) -> ChunkPlan:
    """The plan for the tasks of a process: each reads only what was added since the last one."""
    return ChunkPlan(store)


@lru_cache(maxsize=RUNS)
def shared_watermarks(store: Store) -> Watermarks:
    """The watermarks for the tasks of a process."""
    return Watermarks(store)
