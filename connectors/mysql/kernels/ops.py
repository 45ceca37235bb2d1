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


COLUMN: Final = _record(
    "op", "need", "values", "data", "data_at", "data_end", "b", "valid",
    "a", "c", "d", "width", "growth", "ratio", "nulls", "invalid",
)  # fmt: skip
"""One column: how to read it, and where it goes. What most values need lies in one cache line.

op: see below. need: bytes that must be there before the value is looked at: its size, or the size of its length field.
a, b, c, d: see the operations. width: bytes of an output value, or BITS_OUT, BYTES_OUT, FLOATS_OUT. growth, ratio: the
output takes at most growth bytes per row plus ratio bytes per byte of input. These make the plan of a table.

values: fixed-size values, bits, or int32 offsets. valid: validity bits. data .. data_end: bytes of variable length,
written up to data_at. nulls: NULLs so far; invalid: zero and invalid dates among them. These are set for every block:
places in its arena, as addresses once that is open.
"""
CONTEXT: Final = _record(
    "source", "limit", "strict", "labels", "text", "json_columns", "json_stack", "documents", "pending", "slow",
    "state", "fault", "image",
)  # fmt: skip
"""What seldom changes in a run of the row kernel, as addresses unless said otherwise.

source: the receive buffer. limit: 64 bytes before its end. strict: 1 when an invalid date is a fault. labels: int64
places in `text`, one more than there are labels. json_columns: how many. json_stack: see `json.json_text`. documents:
(start, end) of the before image's document, per JSON column. pending: a count, and that many columns whose invalid
dates became NULL in this row. slow: SLOW_CAPACITY records. state, fault, image: one record.
"""
BUFFER: Final = _record("size", "starts", "ends", "types", "positions", "times", "base", "order", "last")
"""Events of a receive buffer of `size` bytes. starts .. times: addresses of the arrays of `ReceiveBuffer`. base:
sequence of position 0 of its file. order: address of the table's event numbers, up to entry `last`."""
IMAGE: Final = _record(
    "steps", "step_count", "rest", "required", "where", "places", "stride", "most", "enough_bytes", "goal"
)
"""How one table's row images are walked, see `placing`.

steps: STEP records; rest: bytes after the last step; required: bits of the columns that are never NULL. where: WHERE
records, one per column. places: room for (step_count + 1) times `stride` bytes: the places after each step, of at most
`most` images; no more are begun when these have enough_bytes. goal: a STATE record.
"""
STEP: Final = _record("before", "width", "prefix", "nullable", "column")
"""A value whose size is not known beforehand: bytes between the step before and it, its size if fixed, else the size
of its length field, whether it may be NULL, number of its column."""
WHERE: Final = _record("step", "skip", "own", "nullable")
"""Where a column's values are: `skip` bytes after step number `step` (0: after the NULL bitmap). own: 1 when the next
step is the column's; nullable: 1 when it may be NULL, too.
"""
HEAD: Final = _record("kinds", "sequences", "rows", "times", "ones_end", "zeros_end", "total")
"""Places of what is known about each row image; ends of the parts preset to ones and zeros; size of the arena."""
STATE: Final = _record("event", "at", "rows", "sequence", "next_row", "nulls_known", "slow")
"""Where the decoding of one table stands.

event: next entry of the order. at: where in that event to go on, 0 for its start. rows: row images in this block.
sequence, next_row: of the last image. nulls_known: COLUMN.nulls is exact. slow: entries in the slow list.
"""
FAULT: Final = _record("event", "column", "value")
"""Where decoding stopped: event number, column or -1, and a value or place whose meaning the code says."""
SLOW: Final = _record("row", "column", "start", "end", "base_start", "base_end")
"""A JSON value for Python to finish; base: the before image's document when the value is a list of changes, else -1."""
SLOW_CAPACITY: Final = 1024
KNOWN: Final = _record("hash", "start", "length", "slot")
"""A TABLE_MAP seen before: where its bytes are kept; slot is UNWANTED or a slot number."""
IDS: Final = _record("id", "epoch", "entry")
"""A table id and the number of its KNOWN record; it counts only in its epoch, which ends with the statement."""
SCAN: Final = _record("next", "found", "epoch")
"""State of the first pass: next event, rows events found, current epoch."""

BITS_OUT: Final = 0
BYTES_OUT: Final = -1
FLOATS_OUT: Final = -2

EMPTY: Final = -2
"""The slot of a table id that was not announced."""
UNWANTED: Final = -1
"""The slot of tables whose rows are not asked for."""

# Operations. In brackets what a, b, c, d mean. From DATE on: dates; from BITS on: variable length.
INT8: Final = 0
INT16: Final = 1
INT24: Final = 2
UINT24: Final = 3
INT32: Final = 4
INT64: Final = 5
DECIMAL64: Final = 6
"""At most 18 digits to decimal128. [digits of the first group, groups, fraction groups, digits of the last]"""
DECIMAL128: Final = 7
BOOLEAN: Final = 8
"""One byte, not 0 is true."""
YEAR: Final = 9
DATE: Final = 10
"""Dates and times: [bytes of fraction]"""
TIME2: Final = 11
DATETIME2: Final = 12
TIMESTAMP2: Final = 13
TIME_OLD: Final = 14
DATETIME_OLD: Final = 15
TIMESTAMP_OLD: Final = 16
BITS: Final = 17
"""A big-endian bit field to bytes."""
DECIMAL_TEXT: Final = 18
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
ODD_VECTOR: Final = 11
