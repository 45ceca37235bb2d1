"""Addresses of an Arrow column's buffers, for kernels. The caller has to keep the array alive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from connectors.shared.kernels.text.utf8 import is_utf8


@dataclass(frozen=True, slots=True)
class Buffers:
    """Addresses of one array's buffers, with its offset already applied. 0 means that there is no such buffer.

    Attributes:
        values: the first value; for strings and lists, the place that offsets count from (the items, for lists).
        validity: first byte of the validity bits, 0 when nothing is NULL.
        validity_bit: the first row's bit in them.
        offsets: the first row's int32 offset.
        bit: the first row's bit, for booleans.
        width: bytes of a value; 0 for booleans, -1 for strings and binary, -(item bytes + 1) for lists.
    """

    values: int
    validity: int
    validity_bit: int
    offsets: int
    bit: int
    width: int


def buffers(array: pa.Array) -> Buffers:
    """Return the buffers of an array of any type that change blocks have. Raises TypeError for other types."""
    kind, start = array.type, array.offset
    parts = array.buffers()
    validity = parts[0].address if parts[0] is not None and array.null_count else 0
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return Buffers(_address(parts[2]), validity, start, _offsets(parts[1], start), 0, -1)
    if pa.types.is_list(kind) and kind.value_type.bit_width % 8 == 0:
        item = kind.value_type.bit_width // 8
        # The child may start later than its buffer does, and offsets count from the child's start.
        values = _address(array.values.buffers()[1]) + item * array.values.offset
        return Buffers(values, validity, start, _offsets(parts[1], start), 0, -(item + 1))
    if pa.types.is_boolean(kind):
        return Buffers(_address(parts[1]), validity, start, 0, start, 0)
    if pa.types.is_primitive(kind) or pa.types.is_decimal128(kind):
        width = kind.bit_width // 8
        return Buffers(_address(parts[1]) + width * start, validity, start, 0, 0, width)
    raise TypeError(f"no kernel reads columns of type {kind}")


def string_offsets(array: pa.Array) -> np.ndarray:
    """Return the offsets, int32[n + 1], of a string, binary or list array.

    For an empty array without offsets, one zero.
    """
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1]


def too_long(array: pa.Array, limit: int) -> np.ndarray | None:
    """Return bool[n]: which strings have more bytes than `limit`. None when there are none."""
    lengths = np.diff(string_offsets(array))
    if len(lengths) == 0 or lengths.max() <= limit:
        return None
    return np.asarray((lengths > limit) & ~np.asarray(array.is_null().to_numpy(zero_copy_only=False), bool), bool)


def well_formed(text: pa.StringArray) -> bool:
    """Return whether the whole column is UTF-8.

    Servers store unpaired surrogates and truncated characters.
    """
    data = text.buffers()[2]
    if data is None or not data.size:
        return True
    offsets, source = string_offsets(text), np.frombuffer(data, np.uint8)
    for array in (offsets, source):  # one type for the kernel, whoever made the buffers
        array.flags.writeable = False
    return bool(is_utf8(source, offsets)) or _values_are_text(text)


def _values_are_text(text: pa.StringArray) -> bool:
    """Return whether all values are UTF-8, without the bytes under NULLs."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


_NO_OFFSETS = np.zeros(1, np.int32)


def _address(buffer: pa.Buffer | None) -> int:
    return int(buffer.address) if buffer is not None else 0


def _offsets(buffer: pa.Buffer | None, start: int) -> int:
    """Return the address of the first offset. An array without rows may have no offsets; it then needs a zero."""
    if buffer is None or buffer.size == 0:
        return int(_NO_OFFSETS.ctypes.data)
    return int(buffer.address) + 4 * start
