"""JSON columns without the spaces that MySQL puts between tokens, as Debezium's log reader writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from connectors.kafka.encoding.kernels.json_spaces import take_spaces
from connectors.shared.kernels.buffers import buffers, string_offsets


def without_spaces(array: pa.Array) -> pa.Array:
    """The same texts; NULLs stay."""
    rows = len(array)
    if rows == 0:
        return array
    place, offsets = buffers(array), string_offsets(array)
    room = np.empty(max(1, int(offsets[-1] - offsets[0])), np.uint8)
    ends = np.zeros(rows + 1, np.int32)
    take_spaces(place.offsets, place.values, rows, int(room.ctypes.data), ends[1:])
    valid = None if array.null_count == 0 else pa.array(array.is_valid()).buffers()[1]
    texts = [valid, pa.py_buffer(ends), pa.py_buffer(room)]
    return pa.Array.from_buffers(pa.string(), rows, texts)
