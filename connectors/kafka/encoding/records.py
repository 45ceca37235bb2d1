"""Make the keys and values of messages into the objects that the client takes, in one step.

The client takes a dictionary for each message. Making these one by one, with a slice for every key and value, would
cost more than writing their texts. So the kernel writes texts and dictionaries as one pickle, which Python's own reader
turns into objects.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from connectors.kafka.encoding.kernels.records import RECORD_BYTES, write_records
from connectors.kafka.encoding.template import Description, Metadata, Part

Record = dict[str, bytes]
"""The `key` and `value` of a message, as far as it has them."""

_BEGIN = b"\x80\x04\x8c\x03key\x940\x8c\x05value\x940]("
"""The begin of the pickle: protocol 4, two names to remember as 0 and 1, a list, and a mark before its items."""
_END = b"e."


class RecordTemplate:
    """Writes the records of one layout. Executor; made once per table and schema, used by one thread."""

    def __init__(self, key: Sequence[Part] | None, value: Sequence[Part]) -> None:
        self._key, self._value = key or (), value
        self._out = np.empty(0, np.uint8)

    def write(
        self, rows: pa.RecordBatch, beside: Metadata, picks: np.ndarray, events: np.ndarray, skip: np.ndarray
    ) -> tuple[list[Record], np.ndarray]:
        """Write one record per message; return the records, and the bytes of key and value of each.

        Args:
            rows: the row images, with a column for each field.
            beside: the columns with a value per message.
            picks: int64[m, 3], the rows of each message: before, after, key; -1 for none.
            events: int64[m], equal for neighbouring messages of one event.
            skip: uint8[m], 1 for a message without a value.
        """
        count = len(picks)
        found = Description(rows, beside, count)
        keys, parts = found.add(self._key), found.add(self._value)
        start = self._place(found.size + count * RECORD_BYTES)
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
        """The address of memory with that much room. It is reused, because new pages cost more than the texts."""
        needed = len(_BEGIN) + room + len(_END)
        if len(self._out) < needed:
            self._out = np.empty(needed, np.uint8)
            self._out[: len(_BEGIN)] = np.frombuffer(_BEGIN, np.uint8)
        return int(self._out.ctypes.data) + len(_BEGIN)
