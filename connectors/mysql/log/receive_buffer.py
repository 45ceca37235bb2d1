"""A receive buffer: consecutive complete events of one binary log file, indexed and verified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ReceiveBuffer:
    """Consecutive complete events of ONE binary log file; checksums verified and cut off, compressed events expanded.

    Attributes:
        file: `binlog.000002`.
        file_number: 2; the digits after the last dot, 0 when there are none.
        data: uint8, C-contiguous, writable; holds the events, and nothing else as long as this buffer or a view of it
            exists.
        start: int64[n]; offset of each event's 19-byte header in `data`.
        end: int64[n]; offset just after the event's body, without the 4 checksum bytes.
        type: uint8[n]; event type, the constants of `events`.
        end_position: int64[n]; true position after the event in its file (not wrapped at 4 GiB). Events from inside a
            TRANSACTION_PAYLOAD all have the payload's end position; otherwise strictly increasing.
        commit_ms: int64[n]; commit time of the transaction, milliseconds since the epoch: from the GTID event's
            immediate commit timestamp, else the event's own second.
        query_kind: uint8[n]; `events.BEGIN` .. `events.ROLLBACK` for QUERY events, else 0.
        checksum: the events had a CRC32.

    Headers inside an expanded event are rewritten (type, size), so `data[start:end]` always reads as a plain event.
    """

    file: str
    file_number: int
    data: Bytes
    start: Ints
    end: Ints
    type: npt.NDArray[np.uint8]
    end_position: Ints
    commit_ms: Ints
    query_kind: npt.NDArray[np.uint8]
    checksum: bool

    def __len__(self) -> int:
        return len(self.start)

    def until(self, end_position: int) -> ReceiveBuffer:
        """Return the events that end at or before `end_position`. Shares the data."""
        return self.part(0, int(np.searchsorted(self.end_position, end_position, side="right")))

    def after(self, position: int) -> ReceiveBuffer:
        """Return the events that end after `position`. Shares the data."""
        return self.part(int(np.searchsorted(self.end_position, position, side="right")), len(self))

    def part(self, first: int, last: int) -> ReceiveBuffer:
        """Return events `first` up to, not including, `last`. Shares the data."""
        if first == 0 and last == len(self):
            return self
        cut = slice(first, last)
        return ReceiveBuffer(
            self.file,
            self.file_number,
            self.data,
            self.start[cut],
            self.end[cut],
            self.type[cut],
            self.end_position[cut],
            self.commit_ms[cut],
            self.query_kind[cut],
            self.checksum,
        )

    def body(self, index: int) -> bytes:
        """Return the event's bytes after the 19-byte header, without checksum. A copy."""
        return self.data[int(self.start[index]) + 19 : int(self.end[index])].tobytes()

    def where(self, index: int) -> str:
        """Return `binlog.000002:1234`, the position just after the event, for error messages."""
        return f"{self.file}:{int(self.end_position[index])}"
