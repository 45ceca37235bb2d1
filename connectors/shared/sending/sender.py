"""Sends blocks to open loads: the core of `prepare` in a stream-load sink. Executor.

Blocks arrive in log order, tables interleaved. They are gathered per table into flushes; each flush is encoded by the
connector and written to the table's open load: one request takes flush after flush, and ends when it reaches the size
limit or the task ends. Flushes of one table are sent one after another, those of different tables in parallel. The
backlog is bounded in bytes: the caller's thread, which decodes the source, waits when it is too large.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.schema import TableId
from cdc.sink import Prepared, TaskAttempt


@dataclass(frozen=True, slots=True)
class SendLimits:
    """The limits of sending: sizes, open loads, time, threads.

    Attributes:
        flush_bytes: Arrow bytes of one table that are encoded and sent together.
        waiting_bytes: approximate Arrow bytes of all tables that are waiting or being sent.
        load_bytes: encoded bytes after which a load is finished and the next part of the table begins.
        open_loads: maximum loads kept open while the source is read; for one more, the least recently written is
            finished.
        idle_s: a load without writes for this long is finished, as servers close silent connections.
        threads: number of flushes encoded and sent in parallel.
    """

    flush_bytes: int = 16 << 20
    waiting_bytes: int = 64 << 20
    load_bytes: int = 2 << 30
    open_loads: int = 64
    idle_s: float = 20.0
    threads: int = 4


@dataclass(frozen=True, slots=True)
class FlushResult:
    """The result of one flush.

    Attributes:
        encoded_bytes: bytes added to the load.
        inserts, updates, deletes: source changes, an update once.
        counts: numbers of intentionally changed or skipped values, by reason.
    """

    encoded_bytes: int
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    counts: dict[str, int] = field(default_factory=dict)


class OpenLoad(Protocol):
    """One load of one table, begun by a connector. Called by one thread at a time, not always the same one."""

    def write(self, blocks: Sequence[ChangeBlock]) -> FlushResult | None:
        """Encode a flush of blocks of this table and send it. Raises SinkError.

        Returns None, with nothing sent, when this load cannot take the flush (its text needs another header): the load
        is then finished, and the next part gets the flush as its first, which it must accept.
        """

    def finish(self) -> Any:
        """Finish the load, check the answer, leave it prepared; returns the handle, a JSON value. Raises SinkError."""

    def cancel(self) -> None:
        """Abort the load: nothing of it may become visible. Never raises.

        Also called while another thread is inside `write` or `finish`, which then ends with an error.
        """


class BlockLoader(Protocol):
    """The connector's part of `send`: begins loads. Thread-safe."""

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> OpenLoad:
        """Begin part number `part` (from 0) of the table of `first` in this task, which is the first block written.

        An earlier attempt of the task may have left the same label behind: finish or remove it here. Raises SinkError.
        """


def send(
    task: TaskAttempt,
    blocks: Iterator[ChangeBlock],
    loader: BlockLoader,
    limits: SendLimits | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Sequence[Prepared]:
    """Send all blocks; return one handle per load, ordered by table and part.

    Raises the first error of any load after all others are cancelled; loads finished by then stay prepared under this
    task's labels, for the retry or `abort` to remove.
    """
    sender = _Sender(task, loader, limits or SendLimits(), clock)
    try:
        for block in blocks:
            sender.add(block)
        return sender.finish()
    finally:
        sender.close()


_FINISH = None
"""Queue entry of a writer: finish the open load."""


class _TableWriter:
    """One table of one task.

    The sender's lock guards the queue, everything else belongs to the thread working on it.
    """

    def __init__(self, table: TableId, columns: Sequence[str]) -> None:
        self.table, self.columns = table, columns
        self.gathered: list[ChangeBlock] = []
        self.gathered_bytes = 0
        self.queue: deque[tuple[list[ChangeBlock], int] | None] = deque()
        self.working = False
        self.has_load, self.written_at = False, 0.0
        self.turn = 0
        self.load: OpenLoad | None = None
        self.parts = 0
        self.load_bytes = 0
        self.totals: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.prepared: list[Prepared] = []


class _Sender:
    """Gathers on the caller's thread, sends on its own threads. Always end it with `close`."""

    def __init__(self, task: TaskAttempt, loader: BlockLoader, limits: SendLimits, clock: Callable[[], float]) -> None:
        self._task, self._loader, self._limits, self._clock = task, loader, limits, clock
        self._writers: dict[TableId, _TableWriter] = {}
        self._gathered_bytes = self._queued_bytes = self._turns = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._stopped = False
        self._pool = ThreadPoolExecutor(limits.threads, thread_name_prefix="cdc-load")
        self._watching: threading.Thread | None = None

    def add(self, block: ChangeBlock) -> None:
        """Add one block; waits while the backlog is too large."""
        if not len(block):
            return
        writer = self._writer_of(block)
        size = int(block.rows.nbytes)
        writer.gathered.append(block)
        writer.gathered_bytes += size
        self._gathered_bytes += size
        if writer.gathered_bytes >= self._limits.flush_bytes:
            self._submit(writer)
        elif self._gathered_bytes >= self._limits.waiting_bytes // 2:
            self._submit_largest()
        with self._changed:
            self._finish_idle()
            self._changed.wait_for(lambda: self._error or self._queued_bytes <= self._limits.waiting_bytes // 2)
            self._raise_error()

    def finish(self) -> list[Prepared]:
        """Send the rest, finish all loads, and return their handles."""
        for writer in self._writers.values():
            self._submit(writer, last=True)
        with self._changed:
            self._changed.wait_for(lambda: self._error or not any(writer.working for writer in self._writers.values()))
            self._raise_error()
        return [prepared for writer in self._writers.values() for prepared in writer.prepared]

    def close(self) -> None:
        """Stop all threads; cancels loads that are still open."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._watching is not None:
            self._watching.join()
        self._cancel_open()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._cancel_open()

    def _cancel_open(self) -> None:
        for writer in self._writers.values():
            load = writer.load
            if load is not None:
                load.cancel()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _writer_of(self, block: ChangeBlock) -> _TableWriter:
        writer = self._writers.get(block.table)
        if writer is None:
            writer = self._writers[block.table] = _TableWriter(block.table, block.schema.names)
        elif writer.columns != block.schema.names:
            hint = "a schema change has to end the batch before it"
            raise SinkError("rows of two schemas in one batch", where=str(block.table), hint=hint)
        return writer

    def _submit_largest(self) -> None:
        """Send the tables with the most gathered bytes, until half of the total is being sent: few large flushes."""
        for writer in sorted(self._writers.values(), key=lambda writer: -writer.gathered_bytes):
            if self._gathered_bytes <= self._limits.waiting_bytes // 4:
                return
            self._submit(writer)

    def _submit(self, writer: _TableWriter, *, last: bool = False) -> None:
        """Queue the writer's gathered blocks; with `last`, also the end of its load."""
        if not last and not writer.has_load:
            self._make_room()
        with self._changed:
            if writer.gathered:
                writer.queue.append((writer.gathered, writer.gathered_bytes))
                self._queued_bytes += writer.gathered_bytes
                self._gathered_bytes -= writer.gathered_bytes
                writer.gathered, writer.gathered_bytes = [], 0
                writer.has_load, writer.written_at = True, self._clock()
                writer.turn = self._turns = self._turns + 1
                self._watch()
            if last:
                self._queue_finish(writer)
            self._start(writer)

    def _make_room(self) -> None:
        """Finish the least recently used load, by the order of queueing, whatever the progress of its thread."""
        with self._changed:
            open_ = [writer for writer in self._writers.values() if writer.has_load]
            if len(open_) >= self._limits.open_loads:
                oldest = min(open_, key=lambda writer: writer.turn)
                self._queue_finish(oldest)
                self._start(oldest)

    def _watch(self) -> None:
        """Start the thread that looks for idle loads, which also runs while the source is silent."""
        if self._watching is None:
            self._watching = threading.Thread(target=self._watch_idle, name="cdc-load-idle", daemon=True)
            self._watching.start()

    def _watch_idle(self) -> None:
        with self._changed:
            while not self._stopped:
                self._changed.wait(self._limits.idle_s / 4)
                if not self._stopped:
                    self._finish_idle()

    def _finish_idle(self) -> None:
        """Finish the loads that were idle for too long. Requires the lock."""
        now = self._clock()
        for writer in list(self._writers.values()):  # the caller's thread adds writers without the lock
            if writer.has_load and not writer.working and now - writer.written_at >= self._limits.idle_s:
                self._queue_finish(writer)
                self._start(writer)

    def _queue_finish(self, writer: _TableWriter) -> None:
        writer.queue.append(_FINISH)
        writer.has_load = False

    def _start(self, writer: _TableWriter) -> None:
        if writer.queue and not writer.working:
            writer.working = True
            self._pool.submit(self._work, writer).add_done_callback(partial(self._note_failure, writer))

    # on the sender's threads

    def _work(self, writer: _TableWriter) -> None:
        """Process everything that a writer has queued, in order.

        A task of many small tables then has few open loads.
        """
        while (step := self._next_step(writer)) is not self._DONE:
            self._carry_out(writer, step)

    def _note_failure(self, writer: _TableWriter, work: Future[None]) -> None:
        error = None if work.cancelled() else work.exception()
        if error is not None:
            with self._changed:
                self._error = self._error or error
                writer.working = False
                self._changed.notify_all()

    _DONE: Any = object()

    def _next_step(self, writer: _TableWriter) -> Any:
        with self._changed:
            if self._stopped or self._error is not None or not writer.queue:
                writer.working = False
                self._changed.notify_all()
                return self._DONE
            return writer.queue.popleft()

    def _carry_out(self, writer: _TableWriter, step: tuple[list[ChangeBlock], int] | None) -> None:
        if step is _FINISH:
            self._finish_load(writer)
            return
        blocks, size = step
        written = None if writer.load is None else writer.load.write(blocks)
        if written is None:
            self._finish_load(writer)
            writer.load = self._loader.begin(self._task, blocks[0], writer.parts)
            written = writer.load.write(blocks)
        if written is None:
            raise SinkError("a new load refuses its first flush", where=str(writer.table))
        writer.load_bytes += written.encoded_bytes
        writer.totals.update(inserts=written.inserts, updates=written.updates, deletes=written.deletes)
        writer.counts.update(written.counts)
        if writer.load_bytes >= self._limits.load_bytes:
            self._finish_load(writer)
        with self._changed:
            writer.written_at = self._clock()
            self._queued_bytes -= size
            self._changed.notify_all()

    def _finish_load(self, writer: _TableWriter) -> None:
        """Finish the load and add its handle; does nothing if it was finished before, at the size limit."""
        if writer.load is None:
            return
        handle = writer.load.finish()
        inserts, updates, deletes = (writer.totals[name] for name in ("inserts", "updates", "deletes"))
        writer.prepared.append(
            Prepared(writer.table, self._task.partition, handle, inserts, updates, deletes, dict(writer.counts))
        )
        writer.load, writer.load_bytes = None, 0
        writer.parts += 1
        writer.totals, writer.counts = Counter(), Counter()
