"""Where an Arrow column's values lie in memory: addresses for kernels. The array has to be kept alive by the caller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from connectors.shared.kernels.text.utf8 import is_utf8


@dataclass(frozen=True, slots=True)
class Buffers:
    """Addresses of one array with its offset already applied; 0 where there is no such buffer.

    Attributes:
        values: first value; for strings and lists the place that offsets count from (items for lists).
        validity: first byte of the validity bits, 0 when nothing is NULL; `validity_bit` is the first row's bit.
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
    """The buffers of an array of any type that a change block has; TypeError for others."""
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
    """int32[n + 1] of a string, binary or list array; one zero for an empty one without."""
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1]


def too_long(array: pa.Array, limit: int) -> np.ndarray | None:
    """bool[n] strings of more bytes than `limit`, None when there are none."""
    lengths = np.diff(string_offsets(array))
    if len(lengths) == 0 or lengths.max() <= limit:
        return None
    return np.asarray((lengths > limit) & ~np.asarray(array.is_null().to_numpy(zero_copy_only=False), bool), bool)


def well_formed(text: pa.StringArray) -> bool:
    """Whether all of it is UTF-8: servers keep halves of surrogate pairs, and characters that were cut."""
    data = text.buffers()[2]
    if data is None or not data.size:
        return True
    offsets, source = string_offsets(text), np.frombuffer(data, np.uint8)
    for array in (offsets, source):  # one type for the kernel, whoever made the buffers
        array.flags.writeable = False
    return bool(is_utf8(source, offsets)) or _values_are_text(text)


def _values_are_text(text: pa.StringArray) -> bool:
    """The same without what lies below NULLs."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


_NO_OFFSETS = np.zeros(1, np.int32)


def _address(buffer: pa.Buffer | None) -> int:
    return int(buffer.address) if buffer is not None else 0


def _offsets(buffer: pa.Buffer | None, start: int) -> int:
    """An array of no rows may come without offsets; one zero is what it needs."""
    if buffer is None or buffer.size == 0:
        return int(_NO_OFFSETS.ctypes.data)
    return int(buffer.address) + 4 * start
