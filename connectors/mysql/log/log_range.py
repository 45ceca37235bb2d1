"""Reads closed ranges of a log for tasks, repeatably, from a live server or from files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cdc.errors import CorruptLog, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from connectors.mysql import events
from connectors.mysql.log.query_event import is_alone
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.stream import BinlogStream
from connectors.mysql.server.connection import RETRY
from connectors.mysql.server.positions import LogPosition, file_number

READ_S = 30.0


def read_range(
    wanted: LogRange,
    open_stream: Callable[[LogPosition], BinlogStream],
    retry: RetryPolicy = RETRY,
) -> Iterator[ReceiveBuffer]:
    """Yield the range's buffers from a live server, in log order. Executor.

    A broken connection is reopened after the last event returned, so the caller sees each event once. Raises
    SourceUnavailable when the server stays down, PositionLost when it has purged the range.
    """
    at, backoff = wanted.start, Backoff(retry, f"reading the log from {wanted.start}")
    while at != wanted.end:
        try:
            for buffer in _read_once(wanted, open_stream(at)):
                yield buffer
                at = LogPosition(buffer.file, int(buffer.end_position[-1]))
                backoff = Backoff(retry, f"reading the log from {at}")
            return
        except SourceUnavailable as error:
            if not backoff.pause(error.message):
                backoff.given_up(error)
                raise


def _read_once(wanted: LogRange, stream: BinlogStream) -> Iterator[ReceiveBuffer]:
    begun = False
    try:
        while True:
            buffer = stream.read(READ_S, wanted.end)
            if buffer is None:
                raise SourceUnavailable(
                    f"the server sent nothing for {READ_S:.0f} s inside a part of its log that it has",
                    where=f"{stream.file}:{stream.position}",
                )
            kept, done = within(wanted, buffer, begun=begun)
            if len(kept):
                yield kept
                begun = int(kept.type[-1]) in events.GTID_TYPES
            if done:
                return
    finally:
        stream.close()


def within(wanted: LogRange, buffer: ReceiveBuffer, *, begun: bool = False) -> tuple[ReceiveBuffer, bool]:
    """Return the part of a buffer in the range, and whether the range ends there. Raises CorruptLog past the end.

    begun: the event before the buffer is a GTID.
    """
    if buffer.file != wanted.end.file:
        if file_number(buffer.file) > file_number(wanted.end.file):
            raise CorruptLog(f"the log continues in {buffer.file} before {wanted.end} came", where=buffer.where(0))
        return buffer, False
    kept = buffer.until(wanted.end.position)
    if int(buffer.end_position[-1]) < wanted.end.position:
        return kept, False
    if not len(kept) or int(kept.end_position[-1]) != wanted.end.position:
        raise CorruptLog(f"no event ends at {wanted.end}", where=buffer.where(0), hint="the server's log was reset")
    return kept, len(kept) < len(buffer) or _ends_transaction(kept, begun=begun)


def _ends_transaction(buffer: ReceiveBuffer, *, begun: bool) -> bool:
    """Return whether the buffer ends a transaction.

    Events of one compressed payload share its end position, so the position alone does not tell.
    """
    last = int(buffer.type[-1])
    if last == events.QUERY:
        kind = int(buffer.query_kind[-1])
        return is_alone(buffer, begun=begun) if kind == events.HARMLESS else kind != events.BEGIN
    return last in (events.XID, events.XA_PREPARE) or last in events.FILE_HEADS
