"""Converts Arrow columns to text. Pure; executor; NULL stays NULL.

Arrays in, string arrays of the same length out.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MICROSECONDS = 1_000_000
_DAY = 86_400 * _MICROSECONDS
_FIRST, _END = -719_528, 2_932_897  # the days since 1970 of 0000-01-01 and 10000-01-01
_DAY_2000, _CYCLE = 10_957, 146_097  # the calendar repeats itself every 400 years


def escaped(text: pa.Array, escapes: Sequence[tuple[str, str]]) -> pa.Array:
    """Replace each ASCII letter by its escape, in this order.

    Most columns have nothing to escape, which one pass over their bytes detects.
    """
    escaped_bytes, raw = "".join(char for char, _ in escapes).encode(), _bytes(text).tobytes()
    if len(raw.translate(None, escaped_bytes)) == len(raw):
        return text
    for char, escape in escapes:
        if char.encode() in raw:
            text = pc.replace_substring(text, char, escape)
    return text


Piece: TypeAlias = pa.Array | str
"""A part of each row's text: a constant, or an array of texts without NULL."""


def concatenate(pieces: Sequence[Piece]) -> pa.Array:
    """Concatenate the pieces of each row, with one copy for any number of pieces."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if isinstance(piece, str) and isinstance(last, str):
            found[-1] = last + piece
        else:
            found.append(piece)
    return pc.binary_join_element_wise(*found, "")


def joined_bytes(pieces: Sequence[Piece]) -> bytes:
    """The texts of `concatenate` for all rows, concatenated."""
    return _bytes(concatenate(pieces)).tobytes()


def _bytes(text: pa.Array) -> np.ndarray:
    """The bytes of all texts of a string array, concatenated, without a copy."""
    if not len(text):
        return np.zeros(0, np.uint8)
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1]
    return np.frombuffer(text.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]


def plain(values: pa.Array) -> pa.Array:
    """The text of each value: numbers with all digits, times in ISO form, bytes in base64, lists in JSON."""
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_decimal(kind):
        return decimals(values)
    if pa.types.is_duration(kind):
        return spans(values)
    if pa.types.is_timestamp(kind):
        return moments(values)
    if pa.types.is_date32(kind):
        return _with_far_days(pc.cast(values, pa.string()), values.view(pa.int32()), 1)
    if pa.types.is_binary(kind):
        return base64(values)
    if pa.types.is_list(kind):
        return pa.array([None if item is None else json.dumps(item) for item in values.to_pylist()], pa.string())
    return pc.cast(values, pa.string())


def moments(values: pa.Array) -> pa.Array:
    """`2024-02-29T01:02:03.000000` of timestamps in microseconds, with `Z` after instants."""
    text = pc.cast(values.cast(pa.timestamp("us")), pa.string())
    text = pc.binary_replace_slice(text.cast(pa.binary()), start=10, stop=11, replacement=b"T").cast(pa.string())
    text = _with_far_days(text, values.view(pa.int64()), _DAY)
    return pc.binary_join_element_wise(text, "Z", "") if values.type.tz is not None else text


def _with_far_days(text: pa.Array, numbers: pa.Array, day: int) -> pa.Array:
    """The texts, but with a sign before years beyond four digits, as Java writes them: `+10000-01-01`.

    `numbers` count from 1970, `day` of them a day.
    """
    far = pc.or_(pc.less(numbers, _FIRST * day), pc.greater_equal(numbers, _END * day))
    if not pc.any(far).as_py():
        return text
    rows = zip(text.to_pylist(), numbers.to_pylist(), far.to_pylist(), strict=True)
    return pa.array([_far(number, day) if is_far else near for near, number, is_far in rows], pa.string())


def _far(number: int, day: int) -> str:
    cycles, days = divmod(number // day - _DAY_2000, _CYCLE)
    near = date(2000, 1, 1) + timedelta(days)
    year = near.year + 400 * cycles
    text = f"{'-' if year < 0 else '+'}{abs(year):04}-{near:%m-%d}"
    if day == 1:
        return text
    return f"{text}T{(datetime.min + timedelta(microseconds=number % day)).isoformat(timespec='microseconds')[11:]}"


def without_zeros(times: pa.Array) -> pa.Array:
    """Texts of `spans` and `moments` without trailing zeros of the fraction, and without an empty fraction."""
    return pc.replace_substring_regex(times, r"(?:(\.\d*[1-9])0+|\.0+)(Z?)$", r"\1\2")


def spans(values: pa.Array) -> pa.Array:
    """`-838:59:59.000000` of durations in microseconds."""
    number = values.view(pa.int64())
    sign = pc.if_else(pc.less(number, 0), "-", "")
    size = pc.abs(number)
    seconds = pc.divide(size, _MICROSECONDS)
    minutes, hours = pc.divide(seconds, 60), pc.divide(seconds, 3600)
    parts = (
        (hours, 2),
        (pc.subtract(minutes, pc.multiply(hours, 60)), 2),
        (pc.subtract(seconds, pc.multiply(minutes, 60)), 2),
        (pc.subtract(size, pc.multiply(seconds, _MICROSECONDS)), 6),
    )
    texts = [pc.utf8_lpad(pc.cast(part, pa.string()), width, "0") for part, width in parts]
    clock = pc.binary_join_element_wise(*texts[:3], ":")
    return pc.binary_join_element_wise(sign, clock, ".", texts[3], "")


def decimals(values: pa.Array) -> pa.Array:
    """Decimal128 values with all digits, never with an exponent: `-0.0000000001`."""
    scale = values.type.scale
    integers = pa.Array.from_buffers(pa.decimal128(38, 0), len(values), values.buffers(), -1, values.offset)
    digits = pc.cast(integers, pa.string())
    if scale <= 0:
        return digits
    negative = pc.starts_with(digits, "-")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    point = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(padded, 0, -scale), pc.utf8_slice_codeunits(padded, -scale), "."
    )
    return pc.binary_join_element_wise(pc.if_else(negative, "-", ""), point, "")


def hexadecimal(values: pa.Array) -> pa.Array:
    """The bytes of binary values, or of lists of 32-bit floats, as hexadecimal digits."""
    data: Any
    if pa.types.is_list(values.type):
        offsets, width = values.offsets.to_numpy(), 4
        data = np.ascontiguousarray(values.values.to_numpy(zero_copy_only=False))
    else:
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
        data, width = values.buffers()[2] or b"", 1
    starts = offsets.astype(np.int64) * width
    text = binascii.hexlify(memoryview(data).cast("B")[int(starts[0]) : int(starts[-1])]) if len(values) else b""
    text_offsets = ((starts - starts[0]) * 2).astype(np.int32) if len(values) else np.zeros(1, np.int32)
    texts = pa.StringArray.from_buffers(len(values), pa.py_buffer(text_offsets), pa.py_buffer(text))
    return pc.if_else(pc.is_valid(values), texts, pa.scalar(None, pa.string())) if values.null_count else texts


def base64(values: pa.Array) -> pa.Array:
    """The bytes of binary values in base64, with padding (RFC 4648 section 4)."""
    return pa.array([None if item is None else b64encode(item).decode() for item in values.to_pylist()], pa.string())


def not_finite(values: pa.Array) -> float | None:
    """The first NaN or infinity of a column of floats, None if there is none."""
    bad = pc.fill_null(pc.invert(pc.is_finite(values)), False)
    return float(values.filter(bad)[0].as_py()) if pc.any(bad).as_py() else None
