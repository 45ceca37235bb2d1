"""Keys and values of messages as the objects that the client takes, made in one step.

The client wants a dictionary for each message. Made one by one, with a slice for every key and value, they cost more
than the texts in them; so the kernel writes texts and dictionaries as one pickle, which Python's own reader turns into
objects.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from connectors.kafka.encoding.kernels.records import RECORD_BYTES, write_records
from connectors.kafka.encoding.template import Beside, Description, Part

Record = dict[str, bytes]
"""`key` and `value`; what a message does not have is left out."""

_BEGIN = b"\x80\x04\x8c\x03key\x940\x8c\x05value\x940]("
"""Protocol 4; remember two names, 0 and 1; a list, and a mark before what goes into it."""
_END = b"e."


class RecordTemplate:
    """Writes the records of one layout. Executor; built once per table and schema, used by one thread."""

    def __init__(self, key: Sequence[Part] | None, value: Sequence[Part]) -> None:
        self._key, self._value = key or (), value
        self._out = np.empty(0, np.uint8)

    def write(
        self, rows: pa.RecordBatch, beside: Beside, picks: np.ndarray, events: np.ndarray, skip: np.ndarray
    ) -> tuple[list[Record], np.ndarray]:
        """One record per message, and the bytes of key and value of each.

        Args:
            rows: row images; fields of rows are columns of it.
            beside: columns with a value per message.
            picks: int64[m, 3], the message's rows: before, after, key; -1 is none.
            events: int64[m], equal for messages that stand together and are of one event.
            skip: uint8[m], 1 for a message without a value.
        """
        count = len(picks)
        found = Description(rows, beside, count)
        keys, parts = found.add(self._key), found.add(self._value)
        start = self._place(found.room + count * RECORD_BYTES)
        picks, skip = np.ascontiguousarray(picks, np.int64), np.ascontiguousarray(skip, np.uint8)
        events, sizes = np.ascontiguousarray(events, np.int64), np.empty(count, np.int64)
        at, columns, memo = found.addresses()
        end = write_records(
            keys, parts, at, columns, memo, int(picks.ctypes.data), int(events.ctypes.data), int(skip.ctypes.data),
            start, sizes,
        )  # fmt: skip
        size = end - start
        self._out[len(_BEGIN) + size : len(_BEGIN) + size + len(_END)] = np.frombuffer(_END, np.uint8)
        records = pickle.loads(self._out.data[: len(_BEGIN) + size + len(_END)])
        return records, sizes

    def _place(self, room: int) -> int:
        """The address where that much may be written. The memory is kept, as new pages cost more than the texts."""
        needed = len(_BEGIN) + room + len(_END)
        if len(self._out) < needed:
            self._out = np.empty(needed, np.uint8)
            self._out[: len(_BEGIN)] = np.frombuffer(_BEGIN, np.uint8)
        return int(self._out.ctypes.data) + len(_BEGIN)
