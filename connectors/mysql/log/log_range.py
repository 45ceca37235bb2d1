"""Closed ranges of a log: what a task reads, from a live server or from files, and always the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cdc.errors import CorruptLog, SourceUnavailable
from cdc.flow.retry import Backoff, RetryPolicy
from connectors.mysql.follow.segment import LogRange
from connectors.mysql.log import events
from connectors.mysql.log.receive_buffer import EventChunk, file_number
from connectors.mysql.log.stream import BinlogStream
from connectors.mysql.server.connection import RETRY
from connectors.mysql.server.positions import LogPosition

READ_S = 30.0


def read_range(
    wanted: LogRange,
    open_stream: Callable[[LogPosition], BinlogStream],
    retry: RetryPolicy = RETRY,
) -> Iterator[EventChunk]:
    """The range's chunks from a live server, in log order. Executor.

    A connection that breaks is opened again behind the last event given out, so the caller sees each event once.
    Raises SourceUnavailable when the server stays away, PositionLost when it has purged the range.
    """
    at, backoff = wanted.start, Backoff(retry, f"reading the log from {wanted.start}")
    while at != wanted.end:
        try:
            for chunk in _read_once(wanted, open_stream(at)):
                yield chunk
                at = LogPosition(chunk.file, int(chunk.end_position[-1]))
                backoff = Backoff(retry, f"reading the log from {at}")
            return
        except SourceUnavailable as error:
            if not backoff.pause(error.message):
                raise


def _read_once(wanted: LogRange, stream: BinlogStream) -> Iterator[EventChunk]:
    try:
        while True:
            chunk = stream.read(READ_S, wanted.end)
            if chunk is None:
                raise SourceUnavailable(
                    f"the server sent nothing for {READ_S:.0f} s inside a part of its log that it has",
                    where=f"{stream.file}:{stream.position}",
                )
            kept, done = within(wanted, chunk)
            if len(kept):
                yield kept
            if done:
                return
    finally:
        stream.close()


def within(wanted: LogRange, chunk: EventChunk) -> tuple[EventChunk, bool]:
    """The part of a chunk in the range, and whether the range ends there. Raises CorruptLog past the end."""
    if chunk.file != wanted.end.file:
        if file_number(chunk.file) > file_number(wanted.end.file):
            raise CorruptLog(f"the log goes on in {chunk.file} before {wanted.end} came", where=chunk.where(0))
        return chunk, False
    kept = chunk.until(wanted.end.position)
    if int(chunk.end_position[-1]) < wanted.end.position:
        return kept, False
    if not len(kept) or int(kept.end_position[-1]) != wanted.end.position:
        raise CorruptLog(f"no event ends at {wanted.end}", where=chunk.where(0), hint="the server's log was reset")
    return kept, len(kept) < len(chunk) or _ends_transaction(kept)


def _ends_transaction(chunk: EventChunk) -> bool:
    """Events out of one compressed payload share its end position, so the position alone does not tell."""
    last = int(chunk.type[-1])
    if last == events.QUERY:
        return int(chunk.query_kind[-1]) not in (events.BEGIN, events.HARMLESS)
    return last in (events.XID, events.XA_PREPARE)
