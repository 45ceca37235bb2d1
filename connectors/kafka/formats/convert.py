"""Convert values found in JSON text to Arrow arrays, with one function per way of writing a value."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.kafka.formats.scan import Cells
from connectors.kafka.kernels import ABSENT, ESCAPED, FALSE, FRACTION, INTEGER, NULL, STRING, TRUE, moments, spans


class BadValue(ValueError):
    """Raised for a value that does not fit its type. `row` is its index in the array."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


def nulls(cells: Cells) -> Any:
    """The values that are NULL or absent (bool[n])."""
    return (cells.kinds == NULL) | (cells.kinds == ABSENT)


def binary(cells: Cells) -> pa.Array:
    """The bytes of strings without escapes, and of everything else as it is written."""
    rows = len(cells)
    empty = nulls(cells)
    size = int(np.where(empty, 0, cells.stops.astype(np.int64) - cells.starts).sum())
    out, offsets = np.empty(max(size, 1), np.uint8), np.zeros(rows + 1, np.int32)
    bad = spans.gather(cells.texts.address, cells.starts, cells.stops, cells.kinds, out.ctypes.data, offsets)
    if bad >= 0:
        raise BadValue(bad, "an escape in a text that stands for no character")
    return _from_buffers(pa.binary(), empty, [pa.py_buffer(offsets), pa.py_buffer(out)])


def text(cells: Cells) -> pa.Array:
    """The values as text, read as in `binary`."""
    return cast(binary(cells), pa.string(), "is not UTF-8")


def name_of(cells: Cells, row: int, described_as: str, *, needed: bool = True) -> str:
    """The name of a table or database; empty for NULL if not `needed`. Raises ValueError for a missing or bad name."""
    kind = cells.kinds[row]
    if kind in (NULL, ABSENT) and not needed:
        return ""
    if kind not in (STRING, ESCAPED):
        raise ValueError(f"the name of the {described_as} is missing, or no text")
    found = str(text(cells.take([row]))[0].as_py())
    if not found or "\0" in found:
        raise ValueError(f"the name of the {described_as} is empty, or has U+0000 in it")
    return found


def integers(cells: Cells) -> pa.Array:
    """The values as int64."""
    values = np.empty(len(cells), np.int64)
    bad = spans.integers(cells.texts.address, cells.starts, cells.stops, cells.kinds, values)
    if bad >= 0:
        raise BadValue(bad, f"{_excerpt(cells, bad)} is not a whole number of 64 bits")
    return _from_buffers(pa.int64(), nulls(cells), [pa.py_buffer(values)])


def whole_numbers(cells: Cells, target: pa.DataType) -> pa.Array:
    """The values as integers of any width; true and false are 1 and 0."""
    flags = (cells.kinds == TRUE) | (cells.kinds == FALSE)
    if flags.any():
        return cast(cast(booleans(cells), pa.int8()), target)
    if target == pa.uint64():
        return cast(text(cells), target, "is not a whole number of 64 bits")
    return cast(integers(cells), target)


def booleans(cells: Cells) -> pa.Array:
    """The values as booleans, from true and false, 1 and 0, or "1", "0", "true" and "false"."""
    plain = (cells.kinds == TRUE) | (cells.kinds == FALSE)
    empty = nulls(cells)
    if (plain | empty).all():
        return pa.array(cells.kinds == TRUE, mask=empty)
    if np.isin(cells.kinds, (INTEGER, STRING, NULL, ABSENT, TRUE, FALSE)).all():
        return cast(text(cells), pa.bool_(), "is neither true nor false")
    raise BadValue(int(np.argmin(plain | empty)), "is neither true nor false")


def numbers(cells: Cells, target: pa.DataType) -> pa.Array:
    """The values as floats or decimals, exactly as written in numbers or text; nothing is rounded to fit a decimal."""
    if pa.types.is_string(target):
        return decimal_text(text(cells))
    found = cast(text(cells), target, f"is no {target}")
    if pa.types.is_floating(target):
        # Arrow reads 1e400 as infinity, which is refused. Words such as NaN are taken as they are.
        for bad in np.flatnonzero(pc.is_inf(found).fill_null(False)).tolist():
            if b"i" not in cells.raw(bad).lower():
                raise BadValue(bad, f"{_excerpt(cells, bad)} is beyond a {target}")
    return found


def rounded_numbers(cells: Cells, target: pa.DataType) -> int:
    """How many valid numbers, which may be text, have more digits than `target`, a float or double, can hold."""
    number_type, digits = (np.float32, 9) if target == pa.float32() else (np.float64, 17)

    def is_changed(item: bytes | str) -> bool:
        number = float(number_type(item))
        return math.isfinite(number) and int(number) != int(item)

    def is_cut(item: str) -> bool:
        written = item.lower().partition("e")[0].replace(".", "").strip("-0")
        # A double that was made of a float has digits that no float needs, and is the same number.
        return len(written) > digits and (digits == 17 or float(item) != float(number_type(item)))

    long = cells.stops - cells.starts >= digits - 2
    lost = sum(map(is_changed, map(cells.raw, np.flatnonzero(long & (cells.kinds == INTEGER)).tolist())))
    others = np.flatnonzero(long & np.isin(cells.kinds, (FRACTION, STRING)))
    if len(others):
        texts = text(cells.take(others))
        whole = pc.match_substring_regex(texts, "^[-+]?[0-9]+$")
        lost += sum(map(is_changed, texts.filter(whole).to_pylist()))
        # The pattern leaves only few to check, and trailing zeros do not count.
        likely = pc.and_not(pc.match_substring_regex(texts, f"[1-9](?:[.]?[0-9]){{{digits}}}"), whole)
        lost += sum(map(is_cut, texts.filter(likely).to_pylist()))
    return lost


def digits_beyond_micros(cells: Cells, in_nanos: bool) -> int:
    """How many times have more than six digits of a second, which no column keeps. `in_nanos`: they are numbers."""
    if in_nanos:
        counts = integers(cells)
        finite = np.abs(nanos(counts)) != moments.MOST
        return int((finite & (counts.fill_null(0).to_numpy() % 1000 != 0)).sum())
    if not len(cells.kinds) or int((cells.stops - cells.starts).max()) < _LONG_TIME:
        return 0
    found = pc.match_substring_regex(text(cells), "[.][0-9]{6}[0-9]*[1-9]")
    return int(pc.sum(found).as_py() or 0)


_LONG_TIME = len("12:34:56.1234567")


_DECIMAL = "^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]{1,4})?$"


def decimal_text(texts: pa.Array) -> pa.Array:
    """Decimals of more than 38 digits as text, with exponents written out. Raises BadValue for other texts."""
    strange = pc.invert(pc.match_substring_regex(texts, _DECIMAL))
    if pc.any(strange).as_py():
        row = pc.index(strange, True).as_py()
        raise BadValue(row, f"{texts[row].as_py()[:60]!r} is not a decimal")
    if not pc.any(pc.match_substring_regex(texts, "[eE]")).as_py():
        return texts
    from decimal import Decimal

    return pa.array([None if item is None else f"{Decimal(item):f}" for item in texts.to_pylist()], pa.string())


def _are_numbers(cells: Cells) -> Any:
    return (cells.kinds == INTEGER) | (cells.kinds == FRACTION)


def _refuse_numbers(cells: Cells) -> None:
    """Raise BadValue for a number, whose digits would be valid base64 too."""
    found = _are_numbers(cells)
    if found.any():
        raise BadValue(int(np.argmax(found)), "is a number, not bytes as text")


def from_base64(cells: Cells) -> pa.Array:
    """The bytes of values written as base64."""
    _refuse_numbers(cells)
    written = binary(cells)
    texts, offsets = _bytes_of(written)
    out, out_offsets = np.empty(max(len(texts) * 3 // 4 + 3, 1), np.uint8), np.zeros(len(written) + 1, np.int32)
    bad = spans.base64(texts, offsets, out, out_offsets)
    if bad >= 0:
        raise BadValue(bad, f"{_excerpt(cells, bad)} is not base64")
    return _from_buffers(pa.binary(), nulls(cells), [pa.py_buffer(out_offsets), pa.py_buffer(out)])


def from_base64_url(cells: Cells) -> pa.Array:
    """The bytes of values written as base64 for URLs."""
    _refuse_numbers(cells)
    return each(
        text(cells), lambda item: base64.b64decode(item, altchars=b"-_", validate=True), pa.binary(), "is not base64"
    )


def from_hex(cells: Cells) -> pa.Array:
    """The bytes of values written as hexadecimal digits."""
    _refuse_numbers(cells)
    return each(text(cells), lambda item: bytes.fromhex(item), pa.binary(), "is not hexadecimal text")


def from_latin1(cells: Cells) -> pa.Array:
    """The bytes of values written as the characters of the same numbers (ISO 8859-1)."""
    plain = text(cells)
    if pc.all(pc.string_is_ascii(plain)).as_py() is not False:
        return plain.cast(pa.binary())
    return each(plain, lambda item: item.encode("latin-1"), pa.binary(), "holds characters that are not bytes")


def decimal_bytes(cells: Cells, precision: int, scale: int) -> pa.Array:
    """The values of Connect's Decimal: base64 of the unscaled number's big-endian bytes; or numbers (NUMERIC)."""
    plain = _are_numbers(cells)
    if plain.any():
        packed, written = (replace(cells, kinds=np.where(away, NULL, cells.kinds)) for away in (plain, ~plain))
        bytes_ = decimal_bytes(packed, precision, scale)
        return pc.coalesce(bytes_, numbers(written, bytes_.type))
    raw = from_base64(cells)
    if precision > 38 or scale < 0:
        texts = each(raw, lambda item: _scaled(item, scale), pa.string(), "is not a decimal")
        return (
            texts if precision > 38 else cast(texts, pa.decimal128(precision, 0), f"has more than {precision} digits")
        )
    data, offsets = _bytes_of(raw)
    out = np.zeros(max(16 * len(raw), 1), np.uint8)
    bad = spans.decimals(data, offsets, out)
    if bad >= 0:
        raise BadValue(bad, f"has more than {precision} digits")
    found = _from_buffers(pa.decimal128(38, scale), nulls(cells), [pa.py_buffer(out)])
    return cast(found, pa.decimal128(precision, scale), f"has more than {precision} digits")


def _scaled(number: bytes, scale: int) -> str:
    unscaled = int.from_bytes(number, "big", signed=True)
    if scale <= 0:
        return str(unscaled) + "0" * (-scale if unscaled else 0)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return ("-" if unscaled < 0 else "") + f"{digits[:-scale]}.{digits[-scale:]}"


def parsed_moments(cells: Cells) -> tuple[Any, Any, Any]:
    """Parse dates and times: microseconds, NULL mask and verdicts (IMPOSSIBLE: 0000-00-00; ZONED). Raises BadValue."""
    return _parsed(cells, moments.moments, "no date or time")


def parsed_spans(cells: Cells) -> pa.Array:
    """Parse spans of time such as `-838:59:59.000000`."""
    values, empty, _ = _parsed(cells, moments.spans, "no time")
    return _from_buffers(pa.duration("us"), empty, [pa.py_buffer(values)])


def _parsed(cells: Cells, kernel: Callable[..., None], kind: str) -> tuple[Any, Any, Any]:
    written, empty = binary(cells), nulls(cells)
    texts, offsets = _bytes_of(written)
    values, verdicts = np.zeros(len(written), np.int64), np.zeros(len(written), np.uint8)
    kernel(texts, offsets, empty.astype(np.uint8), values, verdicts)
    unreadable = verdicts == moments.UNREADABLE
    if unreadable.any():
        bad = int(np.argmax(unreadable))
        raise BadValue(bad, f"{_excerpt(cells, bad)} is {kind}")
    return values, empty, verdicts


def each(array: pa.Array, change: Callable[[Any], Any], target: pa.DataType, message: str) -> pa.Array:
    """Apply a Python function to each value; only for rare encodings."""
    found: list[Any] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            found.append(None if value is None else change(value))
        except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
            raise BadValue(row, message) from error
    return pa.array(found, target)


def cast(array: pa.Array, target: pa.DataType, message: str = "") -> pa.Array:
    """Cast exactly with Arrow. Raises BadValue with the row that cannot be cast."""
    if array.type == target:
        return array
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        row = _first_bad(array, target)
        shown = str(array[row].as_py())
        raise BadValue(row, f"{shown[:60]!r} {message or f'is no {target}'}") from error
    except pa.ArrowException as error:  # there is no cast between the two types
        if array.null_count == len(array):
            return pa.nulls(len(array), target)
        row = int(np.argmax(np.asarray(array.is_valid())))
        raise BadValue(row, f"{message or f'is no {target}'}: {array.type} does not become {target}") from error


def _first_bad(array: pa.Array, target: pa.DataType) -> int:
    """The first row that cannot be cast, found by halving the array."""
    first, rows = 0, len(array)
    while rows > 1:
        half = rows // 2
        try:
            array.slice(first, half).cast(target)
        except pa.ArrowInvalid:
            rows = half
        else:
            first, rows = first + half, rows - half
    return first


def _from_buffers(kind: pa.DataType, empty: Any, values: list[pa.Buffer]) -> pa.Array:
    """An array from its buffers, with NULL where `empty`."""
    validity = None
    if empty.any():
        validity = pa.py_buffer(np.packbits(~empty, bitorder="little"))
    return pa.Array.from_buffers(kind, len(empty), [validity, *values])


def micros(counts: pa.Array, unit_us: int) -> Any:
    """Counts of a unit as int64[n] of microseconds. Raises BadValue for those that are beyond 64 bits.

    The last and the first number are PostgreSQL's infinity, which Debezium writes as microseconds in any unit, too.
    """
    found, most = counts.fill_null(0).to_numpy(), moments.MOST // unit_us
    held = found * unit_us
    beyond = (found > most) | (found < -most)
    for number, infinity in zip(moments.OF_DEBEZIUM, (moments.MOST, -moments.MOST), strict=True):
        infinite = (found == number) | (~beyond & (held == number))
        held[infinite], beyond[infinite] = infinity, False
    if beyond.any():
        raise BadValue(int(np.argmax(beyond)), "is a time out of range")
    return held


def nanos(counts: pa.Array) -> Any:
    """Counts of nanoseconds as int64[n] of microseconds; the last and the first number of 64 bits are infinity."""
    found = counts.fill_null(0).to_numpy()
    ends = [found == moments.MOST, found == moments.OUT_OF_RANGE]
    return np.select(ends, [moments.MOST, -moments.MOST], found // 1000)


def from_micros(kind: pa.DataType, values: Any, empty: Any) -> pa.Array:
    """An array of a 64-bit type from its numbers, with NULL where `empty`."""
    return _from_buffers(kind, empty, [pa.py_buffer(np.ascontiguousarray(values, np.int64))])


def _bytes_of(array: pa.Array) -> tuple[Any, Any]:
    """The bytes and offsets of a binary array that begins at offset 0."""
    _, offsets, data = array.buffers()
    return np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int32)[: len(array) + 1]


def _excerpt(cells: Cells, row: int) -> str:
    raw = cells.raw(row).decode("utf-8", "replace")
    return repr(raw if len(raw) <= 60 else raw[:57] + "...")
