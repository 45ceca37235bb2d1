"""Metadata columns of rows: their position in the log, and the server and transaction that wrote them."""

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
"""Names for `metadata.list` besides those of every source."""

FILE, BEGIN = "log_file", "binlog_begin"
"""Metadata for sinks only: the log file, and where a row's event begins in it. `binlog_pos` is where it ends.

Rows of the snapshot have no other metadata of the log; these two then name the position at which the row was read.
"""
_CHECKSUM_BYTES = 4

_POSITION = (1 << 40) - 1
_SERVER_ID = 5  # of an event's header


def shown_by_log(wanted: Collection[str]) -> tuple[str, ...]:
    """Return the wanted names that are columns of the log, sorted."""
    return tuple(sorted({*wanted} & {*NAMES, FILE, BEGIN}))


def at_position(place: LogPosition) -> Callable[[str, pa.Array], pa.Array]:
    """Return a function for the metadata columns of rows that were read at this position."""

    def column(name: str, sequence: pa.Array) -> pa.Array:
        kind = pa.int64() if name in ("binlog_pos", "server_id", BEGIN) else pa.string()
        value = {FILE: place.file, BEGIN: place.position}.get(name)
        return pa.repeat(pa.scalar(value, kind), len(sequence))

    return column


class LogMetadata:
    """Adds metadata to the blocks of one range of the log. One object per range, its buffers in order.

    `wanted` are the names of `metadata.list`; nothing else is computed.
    """

    def __init__(self, wanted: Collection[str]) -> None:
        self._wanted = bool(shown_by_log(wanted))
        self._gtids = "gtid" in wanted
        self._gtid = ""

    def blocks(
        self, buffer: ReceiveBuffer, decode: Callable[[ReceiveBuffer], Iterator[ChangeBlock]]
    ) -> Iterator[ChangeBlock]:
        """Yield the buffer's blocks with metadata. A transaction may have begun in an earlier buffer."""
        if not self._wanted:
            yield from decode(buffer)
            return
        found = _Places(buffer, self._gtid)
        for block in decode(buffer):
            yield replace(block, metadata=found.column)
        if self._gtids and len(found.transactions):
            self._gtid = str(parse_gtid(buffer, int(found.transactions[-1])))


class _Places:
    """Metadata of one buffer, computed on demand; a block may have lost rows by that time."""

    def __init__(self, buffer: ReceiveBuffer, gtid: str) -> None:
        self._buffer, self._before = buffer, gtid

    @cached_property
    def transactions(self) -> npt.NDArray[np.int64]:
        """The indexes of the GTID events."""
        return np.flatnonzero(np.isin(self._buffer.type, sorted(events.GTID_TYPES)))

    @cached_property
    def _texts(self) -> pa.Array:
        texts = [self._before, *(str(parse_gtid(self._buffer, index)) for index in self.transactions.tolist())]
        return pa.array([text or None for text in texts], pa.string())

    @cached_property
    def _begins(self) -> npt.NDArray[np.int64]:
        """Begin of each event; an event of a compressed transaction has the begin of the event that contains it."""
        buffer = self._buffer
        ends = buffer.end_position
        sizes = buffer.end - buffer.start + (_CHECKSUM_BYTES if buffer.checksum else 0)
        first = np.searchsorted(ends, ends)
        alone = np.bincount(first, minlength=len(ends))[first] == 1
        before = np.where(first > 0, ends[first - 1], ends)
        return np.asarray(np.where(alone, ends - sizes, before), np.int64)

    def column(self, name: str, sequence: pa.Array) -> pa.Array:
        """Return the values of a metadata column for rows with these sequences."""
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
