"""Metadata columns of rows: where in the log they are, which server and which transaction wrote them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.block import ChangeBlock
from connectors.mysql import events
from connectors.mysql.log.event_bodies import parse_gtid
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.server.positions import LogPosition

NAMES = ("binlog_file", "binlog_pos", "server_id", "gtid")
"""What `metadata.list` can name besides what every source has."""

FILE, BEGIN = "log_file", "binlog_begin"
"""What sinks can ask for besides: the log file, and where a row's event begins in it (`binlog_pos` is where it ends).
Of rows of the copy, which have none of the others, they are the place at which they were read."""
_CHECKSUM_BYTES = 4

_POSITION = (1 << 40) - 1
_SERVER_ID = 5  # of an event's header


def shown_by_log(wanted: Collection[str]) -> tuple[str, ...]:
    """Wanted names that are columns of the log, in order."""
    return tuple(sorted({*wanted} & {*NAMES, FILE, BEGIN}))


def copied_at(place: LogPosition) -> Callable[[str, pa.Array], pa.Array]:
    """The metadata of rows that were read at this place."""

    def column(name: str, sequence: pa.Array) -> pa.Array:
        kind = pa.int64() if name in ("binlog_pos", "server_id", BEGIN) else pa.string()
        value = {FILE: place.file, BEGIN: place.position}.get(name)
        return pa.repeat(pa.scalar(value, kind), len(sequence))

    return column


class LogMetadata:
    """Gives the blocks of one range of the log their metadata. One object per range, its buffers in order.

    `wanted` are the names of `metadata.list`: what nobody asks for is not looked at.
    """

    def __init__(self, wanted: Collection[str]) -> None:
        self._wanted = bool(shown_by_log(wanted))
        self._gtids = "gtid" in wanted
        self._gtid = ""

    def blocks(
        self, buffer: ReceiveBuffer, decode: Callable[[ReceiveBuffer], Iterator[ChangeBlock]]
    ) -> Iterator[ChangeBlock]:
        """The buffer's blocks. A transaction may have begun in a buffer before."""
        if not self._wanted:
            yield from decode(buffer)
            return
        found = _Places(buffer, self._gtid)
        for block in decode(buffer):
            yield replace(block, metadata=found.column)
        if self._gtids and len(found.transactions):
            self._gtid = str(parse_gtid(buffer, int(found.transactions[-1])))


class _Places:
    """One buffer. What is asked for is computed then; a block may have lost rows by that time."""

    def __init__(self, buffer: ReceiveBuffer, gtid: str) -> None:
        self._buffer, self._before = buffer, gtid

    @cached_property
    def transactions(self) -> npt.NDArray[np.int64]:
        """The GTID events, by number."""
        return np.flatnonzero(np.isin(self._buffer.type, sorted(events.GTID_TYPES)))

    @cached_property
    def _texts(self) -> pa.Array:
        texts = [self._before, *(str(parse_gtid(self._buffer, index)) for index in self.transactions.tolist())]
        return pa.array([text or None for text in texts], pa.string())

    @cached_property
    def _begins(self) -> npt.NDArray[np.int64]:
        """Where each event begins: those of a compressed transaction where the event begins that holds them."""
        buffer = self._buffer
        ends = buffer.end_position
        sizes = buffer.end - buffer.start + (_CHECKSUM_BYTES if buffer.checksum else 0)
        first = np.searchsorted(ends, ends)
        alone = np.bincount(first, minlength=len(ends))[first] == 1
        before = np.where(first > 0, ends[first - 1], ends)
        return np.asarray(np.where(alone, ends - sizes, before), np.int64)

    def column(self, name: str, sequence: pa.Array) -> pa.Array:
        """The values of a metadata column for rows of these sequences."""
        positions = sequence.to_numpy() & _POSITION
        if name in ("binlog_file", FILE):
            return pa.repeat(pa.scalar(self._buffer.file, pa.string()), len(positions))
        if name == "binlog_pos":
            return pa.array(positions, pa.int64())
        if name == BEGIN:
            return pa.array(self._begins[np.searchsorted(self._buffer.end_position, positions)], pa.int64())
        if name == "server_id":
            starts = self._buffer.start[np.searchsorted(self._buffer.end_position, positions)] + _SERVER_ID
            digits = self._buffer.data[starts[:, None] + np.arange(4)].astype(np.int64)
            return pa.array(digits @ (1 << (8 * np.arange(4))), pa.int64())
        ends = self._buffer.end_position[self.transactions]
        return self._texts.take(pa.array(np.searchsorted(ends, positions)))
