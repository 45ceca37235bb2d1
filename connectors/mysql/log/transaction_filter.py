"""Selects complete transactions from another server's log by their GTIDs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from connectors.mysql import events
from connectors.mysql.log.event_bodies import Gtid, parse_gtid
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.server.positions import LogPosition

_GTIDS = np.array(sorted(events.GTID_TYPES), np.uint8)


class TransactionFilter:
    """Passes on the transactions for which `accept` returns True; it is called once for each, in log order.

    A transaction ends where the next one begins, so events between two (ROTATE and the like) belong to the first.
    """

    def __init__(self, accept: Callable[[Gtid], bool]) -> None:
        self._accept, self._inside = accept, False

    @property
    def inside(self) -> bool:
        """Whether the last transaction was accepted; more of it may follow."""
        return self._inside

    def parts(self, buffer: ReceiveBuffer) -> Iterator[ReceiveBuffer]:
        """Yield the parts of the buffer that belong to accepted transactions, in log order."""
        begin = 0
        for index in transaction_begins(buffer):
            if self._inside and index > begin:
                yield buffer.part(begin, index)
            begin, self._inside = index, self._accept(parse_gtid(buffer, index))
        if self._inside and begin < len(buffer):
            yield buffer.part(begin, len(buffer))


def transaction_begins(buffer: ReceiveBuffer) -> list[int]:
    """Return the indexes of the GTID events."""
    return [int(index) for index in np.flatnonzero(np.isin(buffer.type, _GTIDS))]


def begin_of(buffer: ReceiveBuffer, index: int) -> LogPosition:
    """Return the position where an event begins."""
    checksum = events.CHECKSUM_SIZE if buffer.checksum else 0
    size = int(buffer.end[index]) - int(buffer.start[index]) + checksum
    return LogPosition(buffer.file, int(buffer.end_position[index]) - size)
