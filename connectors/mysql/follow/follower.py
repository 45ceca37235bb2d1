"""Follows a live server's log ahead of the batches, in a thread of the stream reader process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from cdc.errors import CdcError, CorruptLog, SourceError, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.source import Limits
from connectors.mysql.follow.log_progress import LogProgress
from connectors.mysql.follow.segmenter import Segmenter
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import Segment, SegmentQueue
from connectors.mysql.log.stream import BinlogStream, EndOfLog, OpenStream
from connectors.mysql.server.connection import RETRY
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.same_server import AnotherServer

READ_S = 0.5

QUIET_S = 10.0
"""Interval at which transactions without captured tables advance the offset, instead of making empty batches."""

SILENCE_S = 30.0
"""How long only heartbeats may arrive before the server is asked where its log ends."""


class Follower(threading.Thread):
    """Reads the log through a segmenter into a queue of segments; reconnects while the server is down.

    Args:
        open_stream: see `OpenStream`; raises SourceUnavailable while the server is down.
        segmenter: receives every buffer; knows the position to continue at.
        until: stop after this position instead of following forever (a bounded run).
        retry: how long the server may be down.
        ahead_bytes: how much log may wait in the queue; beyond that, reading pauses.
        behind: called regularly with the position read while there is more log.
        ends_elsewhere: whether the server's log ends elsewhere than at a position; called after a long silence.
    """

    def __init__(
        self,
        open_stream: OpenStream,
        segmenter: Segmenter,
        *,
        ahead_bytes: int,
        until: LogPosition | None = None,
        retry: RetryPolicy = RETRY,
        clock: Callable[[], float] = time.monotonic,
        behind: Callable[[LogPosition], None] = lambda here: None,
        ends_elsewhere: Callable[[LogPosition], bool] = lambda here: False,
    ) -> None:
        super().__init__(name="binlog-follower", daemon=True)
        self._behind, self._ends_elsewhere = behind, ends_elsewhere
        self._heard_at, self._passed_by = clock(), LogPosition("")
        self.at_end = False
        """Whether the log had no more when it was last read."""
        self._open_stream, self.segmenter, self._clock = open_stream, segmenter, clock
        self._ahead_bytes, self._until = ahead_bytes, until
        self._changed = threading.Condition()
        self._queue = SegmentQueue()
        self._stream: BinlogStream | None = None
        self._error: BaseException | None = None
        self._damaged_at: LogPosition | None = None
        self._finished = self._stopped = False
        self._quiet_since = clock()
        self._retry = replace(retry, stopping=lambda: self._stopped)
        self._backoff = Backoff(self._retry, "following the log")
        self.note = ""

    @property
    def relevant(self) -> bool:
        """Whether the queue has log that concerns captured tables."""
        with self._changed:
            return self._queue.relevant

    @property
    def progress(self) -> LogProgress:
        """How far the log was read beyond the last batch taken."""
        return LogProgress(self.segmenter.position_read, self.relevant or self.segmenter.holds_rows)

    @property
    def waiting(self) -> tuple[int, int | None]:
        """Bytes and transactions read ahead and not yet in a batch; None once the log has some without a GTID."""
        return self._queue.bytes, self._queue.transactions

    def poll(self, limits: Limits | None, wait_s: float) -> list[Segment]:
        """Return the segments of the next batch; empty when none arrived in time (a bounded run waits for its end).

        Raises the error that stopped the thread once everything read before is taken; AnotherServer at once, as the
        queue has positions of a server that is no longer there.
        """
        deadline = self._clock() + wait_s
        with self._changed:
            while not self._ready():
                left = deadline - self._clock()
                if left <= 0 and self._until is None:
                    return []
                self._changed.wait(left if self._until is None else READ_S)
            if isinstance(self._error, AnotherServer):
                raise self._error
            batch = self._queue.poll(limits)
            self._quiet_since = self._clock()
            self._changed.notify_all()
            if not batch and self._error is not None:
                raise self._error
            return batch

    def _ready(self) -> bool:
        if self._queue.relevant or self._finished or self._stopped or self._error is not None:
            return True
        if self._queue.bytes > self._ahead_bytes:  # the thread is waiting for room
            return True
        return len(self._queue) > 0 and self._clock() - self._quiet_since >= QUIET_S

    def stop(self) -> None:
        """Stop the thread at its next step, without waiting for the server."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            if self._stream is not None:
                self._stream.interrupt()

    def run(self) -> None:
        """Run the thread: follow until stopped, finished or failed."""
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001 - handed to the caller of `poll`
            self._fail(error)
        with self._changed:
            self._finished = self._finished or self._error is None
            self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        known = error if isinstance(error, CdcError) else SourceError(f"reading the log failed: {error!r}")
        known.__cause__ = error if known is not error else None
        with self._changed:
            self._error = known

    def _follow(self) -> None:
        while not self._stopped:
            try:
                self._read(self._open_stream(self.segmenter.position_read, self._until is not None))
                return
            except SourceUnavailable as error:
                if self._stopped:
                    return
                self.note = f"waiting for the server: {error.message}"
                if not self._backoff.pause(error.message) and not self._stopped:
                    raise

    def _read(self, stream: BinlogStream) -> None:
        """Read until stopped or past `until`. Raises as BinlogStream.read."""
        self.note = ""
        with self._changed:
            self._stream = stream
        try:
            while not self._stopped and not self._has_reached_end():
                buffer = self._receive(stream)
                self.at_end = buffer is None
                self._backoff = Backoff(self._retry, "following the log")
                if buffer is None:
                    self._check_silence(LogPosition(stream.file, stream.position))
                    continue
                self._heard_at, self._passed_by = self._clock(), LogPosition("")
                self._behind(self.segmenter.position_read)
                for segment in self.segmenter.feed(buffer):
                    self._enqueue(segment)
        except EndOfLog:
            self.at_end = True
            self._check_end(LogPosition(stream.file, stream.position))
        finally:
            with self._changed:
                self._stream = None
            stream.close()

    def _receive(self, stream: BinlogStream) -> ReceiveBuffer | None:
        """Return the next events. Raises the same errors as BinlogStream.read.

        Events that cannot be read are requested once more: they may have been damaged on the way. Opening the log again
        also shows whether it was reset in the meantime.
        """
        try:
            return stream.read(READ_S)
        except CorruptLog as error:
            if self._damaged_at == self.segmenter.position_read:
                raise
            self._damaged_at = self.segmenter.position_read
            raise SourceUnavailable(error.message, where=error.where, hint=error.hint) from error

    def _check_silence(self, here: LogPosition) -> None:
        """Raise SourceUnavailable when the log ends elsewhere but nothing of it arrives, twice in a row.

        After RESET MASTER, MariaDB leaves a reader in the file that is gone and keeps sending heartbeats. Reopening
        the log checks whether it is still the same.
        """
        if self._clock() - self._heard_at < SILENCE_S:
            return
        self._heard_at = self._clock()
        before, self._passed_by = self._passed_by, here if self._ends_elsewhere(here) else LogPosition("")
        if before == self._passed_by == here:
            raise SourceUnavailable(f"the server's log continues, but nothing arrives after {here}")

    def _enqueue(self, segment: Segment) -> None:
        with self._changed:
            self._queue.put(segment)
            self._changed.notify_all()
        while not self._wait_for_room():
            self._behind(self.segmenter.position_read)

    def _wait_for_room(self) -> bool:
        """Wait briefly for room in the queue; returns whether there is any."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopped or self._queue.bytes <= self._ahead_bytes, READ_S)

    def _has_reached_end(self) -> bool:
        return self._until is not None and self.segmenter.has_read(self._until)

    def _check_end(self, sent: LogPosition) -> None:
        """Raise SourceUnavailable if the server ended the log before the end that it had announced.

        `sent`: how far it came. It may skip events for us, so the last one read need not be at the end.
        """
        if self._until is not None and not self._has_reached_end() and sent < self._until:
            raise SourceUnavailable(f"the server ended its log at {sent}, before its end at {self._until}")
