"""What the entries of a chunk plan come to: which tables are copied, and how far each is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cdc.schema import TableId
from connectors.mysql.snapshot.chunk import Begin, Chunk, End, Entry, Lost, Rename, Watermark

_NEVER = (1 << 63) - 1


@dataclass(slots=True)
class TableCopy:
    """One table's copy. `chunks` are in key order, each beginning where the one before ends; `table` is today's name.

    Attributes:
        begun: number of the entry it began with.
        complete: the last chunk is planned.
        refresh: the chunks are written over the rows that the sink has (see `Begin`).
    """

    table: TableId
    begun: int
    chunks: list[Chunk] = field(default_factory=list)
    complete: bool = False
    refresh: bool = False

    def begun_anew(self, table: TableId) -> Begin:
        """The entry that begins it once more under today's name, over the sink's rows if that was how it began."""
        return Begin(table, "restart", truncate=not self.refresh, refresh=self.refresh)

    def waiting(self, before: int, marks: Mapping[int, Watermark]) -> Iterator[Chunk]:
        """Chunks with a number under `before` that were decided and could not be read."""
        for chunk in self.chunks:
            if chunk.number < before and not marks[chunk.number].done:
                yield chunk

    def done(self, before: int, marks: Mapping[int, Watermark]) -> bool:
        """Every chunk is planned, and decided and read within the entries under `before`."""
        return self.complete and all(
            chunk.number < before and chunk.number in marks and marks[chunk.number].done for chunk in self.chunks
        )

    def highest(self, before: int, marks: Mapping[int, Watermark]) -> Watermark | None:
        """The chunk under `before` that was read at the highest position; None when none was read."""
        read = (marks[chunk.number] for chunk in self.chunks if chunk.number < before and chunk.number in marks)
        return max((mark for mark in read if mark.done), key=lambda mark: mark.sequence, default=None)

    def finished(self, before: int, marks: Mapping[int, Watermark], sequence: int) -> bool:
        """The copy is done and the log from `sequence` on has nothing that it holds already."""
        highest = self.highest(before, marks)
        return self.done(before, marks) and (highest is None or highest.sequence <= sequence)

    def highs(self, before: int, marks: Mapping[int, Watermark]) -> list[int]:
        """For each chunk, then for the rest of the table: rows of the log up to this sequence are not needed.

        For parts not read yet that is all of the log: they will be read later, at a higher position.
        """
        highs = []
        for chunk in self.chunks:
            mark = marks.get(chunk.number) if chunk.number < before else None
            highs.append(mark.sequence if mark is not None and mark.done else _NEVER)
        return highs if self.complete else [*highs, _NEVER]


class Copies:
    """Takes entries in order."""

    def __init__(self) -> None:
        self.tables: dict[TableId, TableCopy] = {}
        self.count = 0
        """Entries taken."""

    def take(self, entry: Entry) -> None:
        """The next entry."""
        match entry:
            case Begin(table=table, refresh=refresh):
                self.tables[table] = TableCopy(table, self.count, refresh=refresh)
            case Chunk(table=table):
                self._chunk(self.tables[table], entry)
            case End(table=table):
                self.tables.pop(table, None)
            case Rename(table=table, new_table=new):
                copy = self.tables.pop(table)
                copy.table = new
                self.tables[new] = copy
            case Lost():
                pass
        self.count += 1

    def _chunk(self, copy: TableCopy, chunk: Chunk) -> None:
        if chunk.replaces is None:
            copy.chunks.append(chunk)
        else:
            place = next(i for i, other in enumerate(copy.chunks) if other.number == chunk.replaces)
            copy.chunks[place] = chunk
        copy.complete = copy.complete or chunk.last
