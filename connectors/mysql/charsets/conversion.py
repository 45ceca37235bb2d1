"""Character sets of MySQL and MariaDB: converts text columns to UTF-8.

A column's bytes are stored and logged in its own character set. `to_utf8` reads them as the server does for
`CONVERT(column USING utf8mb4)`, with one difference. Where bytes have no character, the server answers `?`; `to_utf8`
raises an error, or replaces them with U+FFFD and reports it, so that nothing is lost silently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc.errors import UnsupportedChange
from connectors.mysql.charsets.tables import CODECS, CORRECTIONS, USER_DEFINED
from connectors.mysql.kernels import charset_text
from connectors.shared.kernels.buffers import well_formed

IDENTITY: Final = frozenset({"utf8mb4", "utf8mb3", "binary"})
"""Character sets whose bytes are UTF-8 already: `to_utf8` only checks them and copies nothing."""

_ALIASES: Final = {"utf8": "utf8mb3"}
_UNITS: Final = {  # bytes of a unit, big-endian, surrogate pairs
    "ucs2": (2, 1, 0),
    "utf16": (2, 1, 1),
    "utf16le": (2, 0, 1),
    "utf32": (4, 1, 0),
}
_NONE: Final = "\uffff"
_GB_FOUR: Final = 39_420

KNOWN: Final = IDENTITY | _UNITS.keys() | CODECS.keys()
"""Every character set that `to_utf8` reads."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodeTables:
    """The tables of `kernels.charset_text.decode_table`."""

    single: Any
    double: Any
    triple: Any
    quad: Any


def canonical(charset: str) -> str:
    """Return the name in lower case with aliases resolved. Raises UnsupportedChange for an unknown character set."""
    name = charset.lower()
    name = _ALIASES.get(name, name)
    if name not in KNOWN:
        raise UnsupportedChange(
            f"character set {charset!r} is not known",
            hint=f"convert the column to utf8mb4, or exclude the table; known: {', '.join(sorted(KNOWN))}",
        )
    return name


def to_utf8(array: pa.Array, charset: str, replaced: Callable[[int], None] | None = None) -> pa.StringArray:
    """Convert a binary array in `charset` to text; nulls stay nulls. Sets in `IDENTITY` are not copied.

    With `replaced`, bytes that have no character in the set become U+FFFD, and `replaced` is called with the number of
    values concerned. Raises UnsupportedChange when a value's bytes have no character in the set (the message has the
    bytes in hexadecimal), when the set is not known, and when the result exceeds the 2 GiB of one Arrow string column.
    """
    name = canonical(charset)
    if name in IDENTITY:
        validity, offsets, data = array.buffers()
        text = pa.StringArray.from_buffers(len(array), offsets, data, validity, array.null_count, array.offset)
        return text if well_formed(text) else _repaired(array, name, replaced)
    src, offsets, valid = _parts(array)
    room = 3 * int(offsets[-1] - offsets[0]) + 8
    dst, out = np.empty(room, np.uint8), np.empty(len(array) + 1, np.int32)
    marks = np.zeros(0 if replaced is None else len(array), np.uint8)
    if name in _UNITS:
        row = charset_text.decode_units(src, offsets, valid, *_UNITS[name], dst, out, marks)
    else:
        table = table_of(name)
        row = charset_text.decode_table(
            src, offsets, valid, table.single, table.double, table.triple, table.quad, dst, out, marks
        )
    if row == charset_text.TOO_LONG:
        raise UnsupportedChange("one block of text exceeds 2 GiB", hint="lower source.max-batch-bytes")
    if row != charset_text.DONE:
        raise _undefined(array[int(row)].as_py(), name)
    if replaced is not None and marks.any():
        replaced(int(marks.sum()))
    data = pa.py_buffer(dst[: out[-1]].copy())
    validity = pa.array(valid.view(np.bool_)).buffers()[1] if len(valid) else None
    return pa.StringArray.from_buffers(len(array), pa.py_buffer(out), data, validity, array.null_count)


def _repaired(array: pa.Array, charset: str, replaced: Callable[[int], None] | None) -> pa.StringArray:
    """Return the text with U+FFFD in place of bytes that are not UTF-8.

    Without `replaced`, the first such value is an error.
    """
    values, count = list[str | None](), 0
    for value in array.to_pylist():
        text = None if value is None else value.decode("utf-8", "replace")
        if text is not None and text.encode() != value:
            if replaced is None:
                raise _undefined(value, charset)
            count += 1
        values.append(text)
    if replaced is not None:
        replaced(count)
    return pa.array(values, pa.string())


def _parts(array: pa.Array) -> tuple[Any, Any, Any]:
    """Return value bytes, offsets and validity (empty without nulls) of a binary or string array, as numpy arrays."""
    _, offsets, data = array.buffers()
    src = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    if offsets is None or not len(array):
        return src, np.zeros(len(array) + 1, np.int32), np.empty(0, np.uint8)
    rows = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    if array.null_count == 0:
        return src, rows, np.empty(0, np.uint8)
    return src, rows, array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)


def _undefined(value: bytes, charset: str) -> UnsupportedChange:
    shown = value[:64].hex() + ("..." if len(value) > 64 else "")
    return UnsupportedChange(
        f"the bytes 0x{shown} are not text in character set {charset}",
        hint="correct the value in the source, or exclude the table",
    )


@cache
def table_of(charset: str) -> DecodeTables:
    """Return the tables of a character set with a codec.

    They are built once per process, within some 10 milliseconds.
    """
    codec = CODECS[charset]
    single = np.full(256, charset_text.UNDEFINED, np.uint32)
    empty = np.empty(0, np.uint16)
    table = DecodeTables(single, empty, empty, empty)
    for byte in range(256):
        text = _decoded(bytes([byte]), codec)
        single[byte] = ord(text) if text else charset_text.UNDEFINED
    if charset in _MULTIBYTE:
        table = _multibyte(charset, codec, single)
    for first, text in CORRECTIONS.get(charset, {}).items():
        for step, char in enumerate(text):
            _set(table, first + step, char)
    for first, code in USER_DEFINED.get(charset, ()):
        for cell in range(940):
            _set(table, first + cell // 94 * 256 + cell % 94, chr(code + cell))
    if charset in _MULTIBYTE:
        leads = np.unique(np.flatnonzero(table.double) >> 8)
        single[leads] = charset_text.LEAD
        if len(table.triple):
            single[0x8F] = charset_text.LEAD
        if len(table.quad):
            single[0x81:0xFF] = charset_text.LEAD
    return table


_MULTIBYTE: Final = frozenset({"big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis"})


def _multibyte(charset: str, codec: str, single: Any) -> DecodeTables:
    double, triple, quad = np.zeros(1 << 16, np.uint16), np.empty(0, np.uint16), np.empty(0, np.uint16)
    for number in range(0x8000, 0x10000):
        double[number] = ord(_decoded(number.to_bytes(2), codec) or "\0")
    if codec == "euc_jp":
        triple = np.zeros(1 << 16, np.uint16)
        for number in range(0xA0A0, 0x10000):
            triple[number] = ord(_decoded(b"\x8f" + number.to_bytes(2), codec) or "\0")
    if charset == "gb18030":
        quad = np.zeros(_GB_FOUR, np.uint16)
        for rank in range(_GB_FOUR):
            quad[rank] = ord(_decoded(_four_bytes(rank), codec) or "\0")
    return DecodeTables(single, double, triple, quad)


def _four_bytes(rank: int) -> bytes:
    """Return GB 18030's four-byte sequence with that rank."""
    rest, fourth = divmod(rank, 10)
    rest, third = divmod(rest, 126)
    first, second = divmod(rest, 10)
    return bytes((0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth))


def _decoded(data: bytes, codec: str) -> str:
    """Return the one character that the bytes stand for; empty when they do not stand for exactly one."""
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return ""
    return text if len(text) == 1 else ""


def _set(table: DecodeTables, sequence: int, char: str) -> None:
    if sequence < 0x100:
        table.single[sequence] = charset_text.UNDEFINED if char == _NONE else ord(char)
    elif sequence < 0x10000:
        table.double[sequence] = 0 if char == _NONE else ord(char)
    elif sequence < 0x1000000:
        table.triple[sequence & 0xFFFF] = ord(char)
    else:
        fourth, third, second, first = sequence & 0xFF, sequence >> 8 & 0xFF, sequence >> 16 & 0xFF, sequence >> 24
        table.quad[((first - 0x81) * 10 + second - 0x30) * 1260 + (third - 0x81) * 10 + fourth - 0x30] = ord(char)
