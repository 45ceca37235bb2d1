"""Steps of a column behind the kernel: charset conversion, MariaDB's compressed values and addresses."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any

import pyarrow as pa

from cdc.errors import CorruptLog, UnsupportedChange
from connectors.mysql.charsets.conversion import to_utf8
from connectors.mysql.rows.column_plan import Finish

Array = Any
_INVALID_TEXT = (
    "set invalid-text: replace; for a key, correct the value in the source and leave the table out with tables.exclude "
    "for one run, after which it is copied"
)
_LONGEST = (1 << 32) - 1
"""Bytes in a LONGBLOB."""


def finish_array(
    array: Array, finish: Finish, arrow: Array, where: str, replaced: Callable[[int], None] | None = None
) -> Array:
    """A binary array to its final type. `where` names table, position and column for errors, `replaced` is `to_utf8`'s.

    Raises CorruptLog for compressed values that do not decompress, UnsupportedChange for bytes outside their charset.
    """
    if finish.step == "inflate":
        array = pa.array([None if value is None else inflate(value, where) for value in array.to_pylist()], pa.binary())
    elif finish.step:
        family = AF_INET if finish.step == "inet4" else AF_INET6
        return pa.array([None if value is None else inet_ntop(family, value) for value in array.to_pylist()], arrow)
    if finish.charset is not None:
        try:
            return to_utf8(array, finish.charset, replaced)
        except UnsupportedChange as error:
            raise UnsupportedChange(error.message, where=where, hint=_INVALID_TEXT) from error
    return array.view(arrow) if array.type != arrow else array


def inflate(value: bytes, where: str) -> bytes:
    """A value of a MariaDB COMPRESSED column.

    Format (MariaDB `sql/field_comp.cc`): nothing for an empty value; a zero byte and the plain value; or 0x80 + size of
    the length (+ 8 when without zlib header), that many bytes of length, big-endian, and the deflated value.
    """
    if not value:
        return b""
    if value[0] == 0:
        return value[1:]
    size = value[0] & 7
    length = int.from_bytes(value[1 : 1 + size], "big")
    reader = zlib.decompressobj(-zlib.MAX_WBITS if value[0] & 8 else zlib.MAX_WBITS)
    try:
        plain = reader.decompress(value[1 + size :], min(length, _LONGEST) + 1)
    except zlib.error as error:
        raise CorruptLog(f"a compressed value cannot be read: {error}", where=where) from error
    if len(plain) != length:
        raise CorruptLog("a compressed value has another length than it says", where=where)
    return plain
