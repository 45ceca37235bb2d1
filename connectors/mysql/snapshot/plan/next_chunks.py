"""The chunks of a batch: those to be read again, and the next ones found by the finder."""

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
from connectors.mysql.server.lazy_session import LazySession
from connectors.mysql.server.server_info import clock_s
from connectors.mysql.snapshot.chunk import Chunk
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.finder import Finder, TableToSplit
from connectors.mysql.snapshot.plan.split_points import ChunkSize
from connectors.mysql.snapshot.plan.table_snapshots import TableSnapshot

MOST_CHUNKS = 512
"""Maximum chunks in one batch; there may be thousands of small tables."""

GATHER_S = 0.1
"""How long a batch with one chunk waits for more to be found; a batch per small table would take longer."""

BYTES_FACTOR = 4
"""A batch may hold this many times `max-batch-bytes` of chunks: they are not read ahead and have no before images."""

PACED_S = 10
"""With `rows-per-second`, a chunk and a batch hold at most the rows copied in this many seconds.

Finished work is kept, no view stays open for long, and a stopping run waits no longer. A table that cannot be split is
still one chunk.
"""

TRIES = 20
"""Maximum number of times a chunk is planned whose table has another definition than in the log."""


class NextChunks:
    """Finds chunks ahead of the batches, in a thread, and gives each batch as many as it may hold.

    Attributes:
        session: the session for queries to the server.
        blocked: tables that the server has altered, with the sequence up to which the log must be read first.
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
        self._plan, self._marks, self.session = plan, marks, LazySession(streams.session)
        self.blocked: dict[TableId, int] = {}
        self._finder: Finder | None = None
        self._away_since = 0.0

    @property
    def started(self) -> bool:
        """Whether chunks are being found."""
        return self._finder is not None

    @property
    def ready(self) -> bool:
        """Whether a chunk is available."""
        return self._finder is not None and self._finder.peek(0.0) is not None

    def stop(self) -> None:
        """Stop the thread; callable while `chunks` waits in another thread."""
        if self._finder is not None:
            self._finder.stop()

    def forget(self) -> None:
        """Drop all found chunks, because all tables restart."""
        self.blocked.clear()
        self.stop()
        self._finder = None

    def unblock(self, end: MySqlOffset) -> bool:
        """Unblock tables that only waited for the log up to `end`; returns whether there were any."""
        here = end.sequence
        free = [table for table, sequence in self.blocked.items() if sequence <= here]
        for table in free:
            del self.blocked[table]
        return bool(free)

    def start(self, end: MySqlOffset, count: int) -> None:
        """Start finding chunks from the state of the plan after `count` entries."""
        self.stop()
        known = self._history.tables(end.schemas)
        tasks = [
            TableToSplit.after(snapshot.chunks[-1], known[table]) if snapshot.chunks else TableToSplit(known[table])
            for table, snapshot in self._plan.snapshots(count).items()
            if not snapshot.complete and table in known and table not in self.blocked
        ]
        options = self._options
        size = ChunkSize(self._rows_at_pace(options.chunk_rows), options.chunk_factor_low, options.chunk_factor_high)
        self._finder = Finder(self._streams, tasks, size, options.max_batch_bytes, options.chunk_key_column)
        self._finder.start()

    def chunks(self, end: MySqlOffset, before: int, count: int, limits: Limits | None, wait_s: float) -> list[Chunk]:
        """Return the batch's chunks; none while the server is down, until the retry timeout.

        Raises SourceUnavailable.
        """
        try:
            chunks = self._chunks_to_reread(end, before, count)
            chunks += self._next_chunks(end, limits, wait_s, count + len(chunks))
            note = self._note() if chunks else {}
        except SourceUnavailable:
            self._away_since = self._away_since or time.monotonic()
            if time.monotonic() - self._away_since > self._options.retry_timeout_s:
                raise
            self.stop()
            self._finder = None  # chunks taken from it are found again
            return []
        self._away_since = 0.0
        return [replace(chunk, note=note) for chunk in chunks]

    def _chunks_to_reread(self, end: MySqlOffset, before: int, number: int) -> list[Chunk]:
        """Return replacements of unreadable chunks, once the log has reached the position of the alteration."""
        here, marks = end.sequence, self._marks.refresh()
        found: list[Chunk] = []
        for snapshot in self._plan.snapshots(number).values():
            self._check_marked(snapshot, before)
            for chunk in snapshot.waiting(before, marks):
                if marks[chunk.number].sequence <= here:
                    self._check_tries(chunk)
                    found.append(chunk.replacement(number + len(found), snapshot.table))
        return found

    def _check_marked(self, snapshot: TableSnapshot, before: int) -> None:
        for chunk in snapshot.unknown(before, self._marks):
            raise StateError(
                f"there is no record of chunk {chunk.number} of {snapshot.table}, which a batch has read",
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
        """Return the next found chunks, as many as a batch may hold."""
        assert self._finder is not None
        chunks: list[Chunk] = []
        rows = size = 0
        most_rows = self._rows_at_pace(limits.max_rows) if limits is not None else 0
        gathered_at = 0.0
        while len(chunks) < MOST_CHUNKS:
            found = self._finder.peek(max(0.0, gathered_at - time.monotonic()) if chunks else wait_s)
            if found is None:
                break
            if found.chunk is None:
                self._finder.pop()
                self._block(found.table, end)
                continue
            rows += found.chunk.rows
            size += found.chunk.rows * found.row_bytes
            full = limits is not None and (rows > most_rows or size > BYTES_FACTOR * limits.max_bytes)
            if chunks and full:
                break
            self._finder.pop()
            chunks.append(replace(found.chunk, number=number + len(chunks)))
            gathered_at = gathered_at or time.monotonic() + GATHER_S
        return chunks

    def _rows_at_pace(self, rows: int) -> int:
        """Limit a number of rows to those read in `PACED_S`."""
        rate = self._options.rows_per_second
        return rows if rate is None else min(rows, PACED_S * rate)

    def _block(self, table: TableId, end: MySqlOffset) -> None:
        """Wait for the log, as the server's table differs from its definition in the log so far."""
        info = self.session.info()
        here = end.sequence
        if info.identity == end.server:
            here = max(here, sequence_of(info.file, info.position, end.files_ahead))
        self.blocked[table] = here

    def _note(self) -> dict[str, Any]:
        """Return the current position of the server's log."""
        info = self.session.info()
        at_s = clock_s(self.session.connection())
        return {"file": info.file, "position": info.position, "gtids": info.executed, "at_s": at_s}
