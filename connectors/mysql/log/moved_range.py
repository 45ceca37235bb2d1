"""Reads a range of the log for a task, even if the server it was planned on is no longer there. Executor.

On the original server it is read by position. On another one the positions mean nothing: there the range is the
transactions between its two GTID sets, in that server's order, and the server sends its log from the first set on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from cdc.errors import SourceError, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from connectors.mysql.log.log_range import READ_S, read_range
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.stream import BinlogStream, EndOfLog
from connectors.mysql.log.transaction_filter import TransactionFilter
from connectors.mysql.server.connection import RETRY
from connectors.mysql.server.gtid_range import GtidRange
from connectors.mysql.server.positions import LogPosition, file_number
from connectors.mysql.server.same_server import AnotherServer

OpenRange = Callable[[LogRange], tuple[BinlogStream, bool]]
"""Opens the current server's log after the range's first GTID set, having checked that the server has the range.

Also returns whether the server is MariaDB.
"""


def read_anywhere(
    wanted: LogRange,
    open_stream: Callable[[LogPosition], BinlogStream],
    open_range: OpenRange,
    retry: RetryPolicy = RETRY,
) -> Iterator[ReceiveBuffer]:
    """Read as `read_range`; on AnotherServer from `open_stream`, read the same transactions from the other server.

    Both yield the same rows in the same order for each key. Raises SourceUnavailable (and the task is retried from its
    beginning) when the server changes in the middle of the range.
    """
    given = False
    try:
        for buffer in read_range(wanted, open_stream, retry):
            yield _numbered(buffer, wanted)
            given = True
        return
    except AnotherServer as another:
        if given:
            raise SourceUnavailable("the server changed while a part of its log was read") from another
        if wanted.after is None or wanted.upto is None:
            raise SourceError(
                another.message, where=another.where, hint="point the pipeline at the old server"
            ) from another
    yield from _read_moved(wanted, open_range, retry)


def _numbered(buffer: ReceiveBuffer, wanted: LogRange) -> ReceiveBuffer:
    """Offset file numbers so that they continue those of the old server, as they order the changes."""
    return buffer if not wanted.files_ahead else replace(buffer, file_number=buffer.file_number + wanted.files_ahead)


def _read_moved(wanted: LogRange, open_range: OpenRange, retry: RetryPolicy) -> Iterator[ReceiveBuffer]:
    """Read from another server; retries while it is down, until the first buffer is returned."""
    backoff, given = Backoff(retry, f"reading the log from {wanted.start} on another server"), 0
    while True:
        try:
            for buffer in _read_once(wanted, open_range):
                yield _in_place(buffer, wanted, given)
                given += len(buffer)
            return
        except SourceUnavailable as error:
            if given or not backoff.pause(error.message):
                backoff.given_up(error)
                raise


def _read_once(wanted: LogRange, open_range: OpenRange) -> Iterator[ReceiveBuffer]:
    stream, mariadb = open_range(wanted)
    left = GtidRange(wanted.after or "", wanted.upto or "", mariadb=mariadb)
    accepted = TransactionFilter(lambda gtid: left.tick_off(gtid.source, gtid.number))
    try:
        while True:
            buffer = stream.read(READ_S)
            if buffer is None:
                raise SourceUnavailable("the server stopped sending its log", where=f"{stream.file}:{stream.position}")
            yield from accepted.parts(buffer)
            if left.complete and not accepted.inside:
                return
    except EndOfLog:
        if not left.complete:
            raise SourceUnavailable("the log ended before the last transaction of a batch") from None
    finally:
        stream.close()


def _in_place(buffer: ReceiveBuffer, wanted: LogRange, before: int) -> ReceiveBuffer:
    """Renumber events in order of arrival, within the range's own numbers.

    Other parts of the batch may have been read on the old server. An event counts as one byte, so they end before the
    range does.
    """
    places = wanted.start.position + 1 + before + np.arange(len(buffer), dtype=np.int64)
    number = file_number(wanted.start.file) + wanted.files_ahead
    return replace(buffer, file_number=number, end_position=places)
