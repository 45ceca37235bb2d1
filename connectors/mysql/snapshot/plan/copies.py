"""The state of a chunk plan's entries: which tables are snapshotted, and how far each is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from cdc.schema import TableId
from connectors.mysql.snapshot.chunk import Begin, Chunk, Entry, LogLost, Rename, TableEnd, Watermark

_NEVER = (1 << 63) - 1


@dataclass(slots=True)
class TableCopy:
    """One table's copy. `chunks` are in key order, each beginning where the one before ends; `table` is today's name.

    Many chunks are asked about several times in every batch. What was once seen read is not looked at again while the
    questions are about the same watermarks, which are never taken back, and a growing `before`.

    Attributes:
        begun: number of the entry it began with.
        complete: the last chunk is planned.
        beginning: the entry that it began with.
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
        """The next chunk of the plan: behind the others, or in the place of the one that it replaces."""
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
        """Numbers of the chunks from `number` on, the latest first."""
        return takewhile(lambda planned: planned >= number, reversed(self._planned))

    def begun_again(self, table: TableId) -> Begin:
        """The entry that begins it once more under today's name."""
        return Begin(table, "restart", reason="" if self.beginning is None else self.beginning.reason)

    def waiting(self, before: int, marks: Mapping[int, Watermark]) -> Iterator[Chunk]:
        """Chunks with a number under `before` that were decided and could not be read."""
        for chunk in self._unread(before, marks):
            if chunk.number < before and not marks[chunk.number].done:
                yield chunk

    def unknown(self, before: int, marks: Mapping[int, Watermark]) -> Iterator[Chunk]:
        """Chunks with a number under `before` of which no watermark tells."""
        for chunk in self._unread(before, marks):
            if chunk.number < before and chunk.number not in marks:
                yield chunk

    def is_done(self, before: int, marks: Mapping[int, Watermark]) -> bool:
        """Every chunk is planned, and decided and read within the entries under `before`."""
        return self.complete and not self._unread(before, marks)

    def highest(self, before: int, marks: Mapping[int, Watermark]) -> Watermark | None:
        """The chunk under `before` that was read at the highest position; None when none was read."""
        self._unread(before, marks)
        return self._highest

    def is_finished(self, before: int, marks: Mapping[int, Watermark], sequence: int) -> bool:
        """The copy is done and the log from `sequence` on has nothing that it holds already."""
        highest = self.highest(before, marks)
        return self.is_done(before, marks) and (highest is None or highest.sequence <= sequence)

    def highs(self, before: int, marks: Mapping[int, Watermark]) -> list[int]:
        """For each chunk, then for the rest of the table: rows of the log up to this sequence are not needed.

        For parts not read yet that is all of the log: they will be read later, at a higher position.
        """
        highs = []
        for chunk in self.chunks:
            mark = marks.get(chunk.number) if chunk.number < before else None
            highs.append(mark.sequence if mark is not None and mark.done else _NEVER)
        return highs if self.complete else [*highs, _NEVER]

    def _unread(self, before: int, marks: Mapping[int, Watermark]) -> Collection[Chunk]:
        """Chunks that are not both under `before` and read, in the order in which they were planned."""
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


def carried_on(copies: Mapping[TableId, TableCopy], entries: Iterable[Entry]) -> dict[TableId, TableCopy]:
    """The copies that go on behind more entries, by their names of then: none that has ended, or has started over."""
    found = dict(copies)
    for entry in entries:
        match entry:
            case Begin(table=table) | TableEnd(table=table):
                found.pop(table, None)
            case Rename(table=table, new_table=new) if table in found:
                found[new] = found.pop(table)
            case _:
                pass
    return found


class Copies:
    """Takes entries in order."""

    def __init__(self) -> None:
        self.tables: dict[TableId, TableCopy] = {}
        self.count = 0
        """Entries taken."""

    def apply(self, entry: Entry) -> None:
        """The next entry."""
        match entry:
            case Begin(table=table):
                self.tables[table] = TableCopy(table, self.count, beginning=entry)
            case Chunk(table=table):
                self.tables[table].add(entry)
            case TableEnd(table=table):
                self.tables.pop(table, None)
            case Rename(table=table, new_table=new):
                copy = self.tables.pop(table)
                copy.table = new
                self.tables[new] = copy
            case LogLost():
                pass
        self.count += 1
