"""The chunks of a batch: those that are to be read again, and the next ones that the finder has cut."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from cdc.errors import SchemaUnknown, SourceUnavailable, StateError
from cdc.schema import TableId
from cdc.source import Limits
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.history import SchemaHistory
from connectors.mysql.snapshot.chunk import Chunk
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.copies import TableCopy
from connectors.mysql.snapshot.plan.finder import Finder, to_cut
from connectors.mysql.snapshot.plan.info_session import InfoSession
from connectors.mysql.snapshot.plan.split_points import ChunkSize

MOST_CHUNKS = 512
"""In one batch: small tables come by the thousand."""

GATHER_S = 0.1
"""A batch that has a chunk waits so long for more that are being found: a batch for each small table takes longer."""

BYTES_FACTOR = 4
"""A batch may hold this many times `max-batch-bytes` of chunks: they are not read ahead and have no before images."""

PACED_S = 10
"""With `rows-per-second` a chunk and a batch hold no more rows than may be copied in so many seconds: what was read is
kept, no view stays open for long, and a run that is to stop does not wait for longer. A table that cannot be cut is one
chunk all the same."""

TRIES = 20
"""A chunk whose table has another definition than the log gave it is planned again so often."""


class NextChunks:
    """Finds chunks ahead of the batches, in a thread, and gives each batch as many as it may hold.

    Attributes:
        session: what the server is asked over.
        blocked: tables that the server has altered, with the sequence up to which the log is to be read first.
    """

    def __init__(
        self,
        options: MySqlSourceOptions,
        streams: Streams,
        history: SchemaHistory,
        plan: ChunkPlan,
        marks: Watermarks,
    ) -> None:
        self._options, self._streams, self._history = options, streams, history
        self._plan, self._marks, self.session = plan, marks, InfoSession(streams)
        self.blocked: dict[TableId, int] = {}
        self._finder: Finder | None = None
        self._away_since = 0.0

    @property
    def started(self) -> bool:
        """Whether chunks are being found."""
        return self._finder is not None

    @property
    def ready(self) -> bool:
        """Whether one is found."""
        return self._finder is not None and self._finder.peek(0.0) is not None

    def stop(self) -> None:
        """End the thread. Also while `take` waits in another thread."""
        if self._finder is not None:
            self._finder.stop()

    def forget(self) -> None:
        """All tables begin again."""
        self.blocked.clear()
        self.stop()
        self._finder = None

    def unblock(self, end: MySqlOffset) -> bool:
        """Tables that wait for no more than the log up to there are looked at again; whether there is one."""
        here = end.sequence
        free = [table for table, sequence in self.blocked.items() if sequence <= here]
        for table in free:
            del self.blocked[table]
        return bool(free)

    def start(self, end: MySqlOffset, count: int) -> None:
        """Start finding chunks, from where the plan is after `count` entries."""
        self.stop()
        known = self._history.tables(end.schemas)
        tasks = [
            to_cut(copy, known[table])
            for table, copy in self._plan.copies(count).items()
            if not copy.complete and table in known and table not in self.blocked
        ]
        options = self._options
        size = ChunkSize(self._rows_at_pace(options.chunk_rows), options.chunk_factor_low, options.chunk_factor_high)
        self._finder = Finder(self._streams, tasks, size, options.max_batch_bytes, options.chunk_key_column)
        self._finder.start()

    def chunks(self, end: MySqlOffset, before: int, count: int, limits: Limits | None, wait_s: float) -> list[Chunk]:
        """The batch's chunks; none while the server is away, for as long as it may be. Raises SourceUnavailable."""
        try:
            chunks = self._chunks_to_reread(end, before, count)
            chunks += self._next_chunks(end, limits, wait_s, count + len(chunks))
            note = self._note() if chunks else {}
        except SourceUnavailable:
            self._away_since = self._away_since or time.monotonic()
            if time.monotonic() - self._away_since > self._options.retry_timeout_s:
                raise
            self.stop()
            self._finder = None  # what was taken from it is found again
            return []
        self._away_since = 0.0
        return [replace(chunk, note=note) for chunk in chunks]

    def _chunks_to_reread(self, end: MySqlOffset, before: int, number: int) -> list[Chunk]:
        """Chunks that could not be read, once the log has come to where the table was altered."""
        here, marks = end.sequence, self._marks.refresh()
        found: list[Chunk] = []
        for copy in self._plan.copies(number).values():
            self._check_marked(copy, before)
            for chunk in copy.waiting(before, marks):
                if marks[chunk.number].sequence <= here:
                    self._check_tries(chunk)
                    found.append(chunk.replacement(number + len(found), copy.table))
        return found

    def _check_marked(self, copy: TableCopy, before: int) -> None:
        for chunk in copy.unknown(before, self._marks):
            raise StateError(
                f"nothing is known of chunk {chunk.number} of {copy.table}, which a batch has read",
                where="watermarks.jsonl",
                hint="a part of the state directory was removed: restore it, or start over with an empty one",
            )

    def _check_tries(self, chunk: Chunk) -> None:
        if self._plan.tries(chunk) >= TRIES:
            raise SchemaUnknown(
                f"{chunk.table} is another table on the server than its definitions in the log make it",
                where=f"chunk {chunk.number}",
                hint="start over with an empty state directory, or exclude the table with tables.exclude",
            )

    def _next_chunks(self, end: MySqlOffset, limits: Limits | None, wait_s: float, number: int) -> list[Chunk]:
        """The next chunks that were found, as many as a batch may hold."""
        assert self._finder is not None
        chunks: list[Chunk] = []
        rows = size = 0
        most_rows = self._rows_at_pace(limits.max_rows) if limits is not None else 0
        gathered_at = 0.0
        while len(chunks) < MOST_CHUNKS:
            found = self._finder.peek(max(0.0, gathered_at - time.monotonic()) if chunks else wait_s)
            if found is None:
                break
            if found.part is None:
                self._finder.pop()
                self._block(found.table, end)
                continue
            rows += found.part.rows
            size += found.part.rows * found.row_bytes
            full = limits is not None and (rows > most_rows or size > BYTES_FACTOR * limits.max_bytes)
            if chunks and full:
                break
            chunks.append(self._finder.pop().chunk(number + len(chunks)))
            gathered_at = gathered_at or time.monotonic() + GATHER_S
        return chunks

    def _rows_at_pace(self, rows: int) -> int:
        """The number of rows of a chunk: `rows`, or as many as are read in `PACED_S`."""
        rate = self._options.rows_per_second
        return rows if rate is None else min(rows, PACED_S * rate)

    def _block(self, table: TableId, end: MySqlOffset) -> None:
        """The server's table is another one than the log has made it so far: wait for the log."""
        info = self.session.info()
        here = end.sequence
        if info.identity == end.server:
            here = max(here, sequence_of(info.file, info.position, end.files_ahead))
        self.blocked[table] = here

    def _note(self) -> dict[str, Any]:
        """Where the server's log stands now."""
        info = self.session.info()
        at_ms = time.time_ns() // 1_000_000
        return {"file": info.file, "position": info.position, "gtids": info.executed, "at_ms": at_ms}
