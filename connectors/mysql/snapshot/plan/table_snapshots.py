"""The state that a chunk plan's entries amount to: which tables are snapshotted, and how far each is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from cdc.schema import TableId
from connectors.mysql.snapshot.chunk import Begin, Chunk, Entry, LogLost, Rename, TableEnd, Watermark

_NEVER = (1 << 63) - 1


@dataclass(slots=True)
class TableSnapshot:
    """One table's snapshot.

    `chunks` are in key order, each beginning where the previous one ends; `table` is the current name. Many chunks are
    examined several times per batch. A chunk once seen as read is not examined again as long as the calls pass the same
    watermarks, which are never revoked, and a growing `before`.

    Attributes:
        begun: number of the entry it began with.
        complete: the last chunk is planned.
        beginning: the entry it began with.
    """

    table: TableId
    begun: int
    chunks: list[Chunk] = field(default_factory=list)
    complete: bool = False
    beginning: Begin | None = None
    _planned: list[int] = field(default_factory=list, repr=False, compare=False)
    _ahead: dict[int, Chunk] = field(default_factory=dict, repr=False, compare=False)
    _highest: Watermark | None = field(default=None, repr=False, compare=False)
    _cached_for: tuple[int, Mapping[int, Watermark] | None] = field(default=(0, None), repr=False, compare=False)

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk of the plan: after the others, or in place of the one it replaces."""
        if chunk.replaces is None:
            self.chunks.append(chunk)
        else:
            place = next(i for i, other in enumerate(self.chunks) if other.number == chunk.replaces)
            self.chunks[place] = chunk
            self._ahead.pop(chunk.replaces, None)
        self._planned.append(chunk.number)
        self._ahead[chunk.number] = chunk
        self.complete = self.complete or chunk.last

    def planned_since(self, number: int) -> Iterator[int]:
        """Yield the numbers of chunks from `number` on, latest first."""
        return takewhile(lambda planned: planned >= number, reversed(self._planned))

    def restarted(self, table: TableId) -> Begin:
        """Return the entry that restarts this snapshot under the current name."""
        return Begin(table, "restart", reason="" if self.beginning is None else self.beginning.reason)

    def waiting(self, before: int, marks: Mapping[int, Watermark]) -> Iterator[Chunk]:
        """Yield chunks below `before` that were decided but could not be read."""
        for chunk in self._unread(before, marks):
            if chunk.number < before and not marks[chunk.number].done:
                yield chunk

    def unknown(self, before: int, marks: Mapping[int, Watermark]) -> Iterator[Chunk]:
        """Yield chunks below `before` without a watermark."""
        for chunk in self._unread(before, marks):
            if chunk.number < before and chunk.number not in marks:
                yield chunk

    def is_done(self, before: int, marks: Mapping[int, Watermark]) -> bool:
        """Return True when every chunk is planned, below `before`, and read."""
        return self.complete and not self._unread(before, marks)

    def highest(self, before: int, marks: Mapping[int, Watermark]) -> Watermark | None:
        """Return the watermark with the highest position of the chunks below `before`; None when none was read."""
        self._unread(before, marks)
        return self._highest

    def is_finished(self, before: int, marks: Mapping[int, Watermark], sequence: int) -> bool:
        """Return True when the snapshot is done and the log from `sequence` on has nothing that it already holds."""
        highest = self.highest(before, marks)
        return self.is_done(before, marks) and (highest is None or highest.sequence <= sequence)

    def highs(self, before: int, marks: Mapping[int, Watermark]) -> list[int]:
        """Return, for each chunk and then for the rest of the table, the sequence up to which log rows are not needed.

        For unread parts no log row is needed: they will be read later, at a higher position.
        """
        highs = []
        for chunk in self.chunks:
            mark = marks.get(chunk.number) if chunk.number < before else None
            highs.append(mark.sequence if mark is not None and mark.done else _NEVER)
        return highs if self.complete else [*highs, _NEVER]

    def _unread(self, before: int, marks: Mapping[int, Watermark]) -> Collection[Chunk]:
        """Return chunks that are not both below `before` and read, in planning order."""
        if self._cached_for[1] is not marks or before < self._cached_for[0]:
            planned = sorted(self.chunks, key=lambda chunk: chunk.number)
            self._ahead, self._highest = {chunk.number: chunk for chunk in planned}, None
        self._cached_for = before, marks
        for number in list(self._ahead):
            mark = marks.get(number) if number < before else None
            if mark is None or not mark.done:
                continue
            del self._ahead[number]
            if self._highest is None or mark.sequence > self._highest.sequence:
                self._highest = mark
        return self._ahead.values()


def continuing_snapshots(
    snapshots: Mapping[TableId, TableSnapshot], entries: Iterable[Entry]
) -> dict[TableId, TableSnapshot]:
    """Return the snapshots that continue through further entries, by their later names; not ended or restarted ones."""
    found = dict(snapshots)
    for entry in entries:
        match entry:
            case Begin(table=table) | TableEnd(table=table):
                found.pop(table, None)
            case Rename(table=table, new_table=new) if table in found:
                found[new] = found.pop(table)
            case _:
                pass
    return found


class TableSnapshots:
    """Applies entries in order."""

    def __init__(self) -> None:
        self.tables: dict[TableId, TableSnapshot] = {}
        self.count = 0
        """Number of entries applied."""

    def apply(self, entry: Entry) -> None:
        """Apply the next entry."""
        match entry:
            case Begin(table=table):
                self.tables[table] = TableSnapshot(table, self.count, beginning=entry)
            case Chunk(table=table):
                self.tables[table].add(entry)
            case TableEnd(table=table):
                self.tables.pop(table, None)
            case Rename(table=table, new_table=new):
                snapshot = self.tables.pop(table)
                snapshot.table = new
                self.tables[new] = snapshot
            case LogLost():
                pass
        self.count += 1
