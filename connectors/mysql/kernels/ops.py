"""The vocabulary shared by the decoder (Python) and the row kernels (Numba): record layouts, operations, return codes.

The kernels get addresses, not arrays: an array argument costs Numba two atomic counter updates per call, more than most
values cost to decode. A record's fields are read at `address + offset(RECORD, "field")`.
"""

from __future__ import annotations

from typing import Final

import numpy as np


def offset(record: np.dtype[np.void], field: str) -> int:
    """Bytes before a field of a record."""
    fields = record.fields
    return int(fields[field][1]) if fields is not None else 0


def _record(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


PLAN: Final = _record("op", "need", "a", "b", "c", "d", "width", "growth", "ratio")
"""One column of a table.

op: see below. need: bytes that must be there before the value is looked at: its size, or the size of its length field.
a, b, c, d: see the operations. width: bytes of an output value, or BITS_OUT, BYTES_OUT, FLOATS_OUT. growth, ratio: the
output takes at most growth bytes per row plus ratio bytes per byte of input.
"""
LAYOUT: Final = _record("values", "valid", "data", "data_at", "data_end", "nulls", "invalid")
"""Where a column lies in a block's arena, as addresses once the arena is open.

values: fixed-size values, bits, or int32 offsets. valid: validity bits. data .. data_end: bytes of variable length,
written up to data_at. nulls: NULLs so far; invalid: zero and invalid dates among them.
"""
HEAD: Final = _record("kinds", "sequences", "rows", "times", "ones_end", "zeros_end", "total")
"""Places of what is known about each row image; ends of the parts preset to ones and zeros; size of the arena."""
STATE: Final = _record("event", "at", "rows", "sequence", "next_row", "nulls_known", "slow")
"""Where the decoding of one table stands.

event: next entry of the order. at: where in that event to go on, 0 for its start. rows: row images in this block.
sequence, next_row: of the last image. nulls_known: LAYOUT.nulls is exact. slow: entries in the slow list.
"""
FAULT: Final = _record("event", "column", "value")
"""Where decoding stopped: event number, column or -1, and a value or place whose meaning the code says."""
SLOW: Final = _record("row", "column", "start", "end", "base_start", "base_end")
"""A JSON value for Python to finish; base: the before image's document when the value is a list of changes, else -1."""
SLOW_CAPACITY: Final = 1024
KNOWN: Final = _record("hash", "start", "length", "slot")
"""A TABLE_MAP seen before; slot is EMPTY, UNWANTED or a slot number."""
IDS: Final = _record("id", "epoch", "slot")
"""A table id; it counts only in its epoch, which ends with the statement."""
SCAN: Final = _record("next", "found", "epoch")
"""State of the first pass: next event, rows events found, current epoch."""

BITS_OUT: Final = 0
BYTES_OUT: Final = -1
FLOATS_OUT: Final = -2

EMPTY: Final = -2
UNWANTED: Final = -1

# Operations. In brackets what a, b, c, d mean.
INT8: Final = 0
INT16: Final = 1
INT24: Final = 2
UINT24: Final = 3
INT32: Final = 4
INT64: Final = 5
DECIMAL64: Final = 6
"""At most 18 digits to decimal128. [digits of the first group, groups, fraction groups, digits of the last]"""
DECIMAL128: Final = 7
DECIMAL_TEXT: Final = 8
BOOLEAN: Final = 9
"""One byte, not 0 is true."""
BITS: Final = 10
"""A big-endian bit field to bytes."""
YEAR: Final = 11
DATE: Final = 12
TIME2: Final = 13
"""[bytes of fraction]"""
DATETIME2: Final = 14
TIMESTAMP2: Final = 15
TIME_OLD: Final = 16
DATETIME_OLD: Final = 17
TIMESTAMP_OLD: Final = 18
BYTES: Final = 19
"""[-, length to pad to with zero bytes]"""
ENUM: Final = 20
"""[-, first label, number of labels]"""
SET: Final = 21
JSON: Final = 22
"""[-, number of the column among JSON columns]"""
VECTOR: Final = 23
UUID: Final = 24

# Return codes.
DONE: Final = 0
FULL: Final = 1
CORRUPT: Final = 2
PARTIAL_IMAGE: Final = 3
INVALID_DATE: Final = 4
UNKNOWN_LABEL: Final = 5
WRONG_COLUMNS: Final = 6
CORRUPT_JSON: Final = 7
UNKNOWN_MAP: Final = 8
UNKNOWN_TABLE_ID: Final = 9
IDS_FULL: Final = 10
