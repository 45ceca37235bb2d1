"""Definitions shared by the decoder (Python) and the row kernels (Numba): record layouts, operations, return codes.

The kernels take addresses, not arrays: an array argument costs Numba two atomic counter updates per call, more than it
costs to decode most values. A record's fields are read at `address + offset(RECORD, "field")`.
"""

from __future__ import annotations

from typing import Final

import numpy as np


def offset(record: np.dtype[np.void], field: str) -> int:
    """Return the number of bytes before a field of a record."""
    fields = record.fields
    return int(fields[field][1]) if fields is not None else 0


def _record(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


COLUMN: Final = _record(
    "op", "need", "values", "data", "data_at", "data_end", "b", "valid",
    "a", "c", "d", "width", "growth", "ratio", "nulls", "invalid",
)  # fmt: skip
"""One column: how to read it, and where it goes. The fields that most values need are in one cache line.

These fields make the plan of a table. op: see below. need: bytes that must exist before the value is looked at: its
size, or the size of its length field. a, b, c, d: see the operations. width: bytes of an output value, or BITS_OUT,
BYTES_OUT, FLOATS_OUT. growth, ratio: the output takes at most growth bytes per row plus ratio bytes per byte of input.

These are set for every block, first as places in its arena, then as addresses. values: fixed-size values, bits, or
int32 offsets. valid: validity bits. data .. data_end: bytes of variable length, written up to data_at. nulls: number of
NULLs so far; invalid: number of zero and invalid dates among them.
"""
CONTEXT: Final = _record(
    "source", "limit", "strict", "labels", "text", "json_columns", "json_stack", "documents", "pending", "slow",
    "state", "fault", "image",
)  # fmt: skip
"""Arguments that rarely change in a run of the row kernel; addresses unless stated otherwise.

source: the receive buffer. limit: 64 bytes before its end. strict: 1 when an invalid date is a fault. labels: int64
places in `text`, one more than there are labels. json_columns: their number. json_stack: see `json.json_text`.
documents: (start, end) of the before image's document, per JSON column. pending: a count, and that many columns whose
invalid dates became NULL in this row. slow: SLOW_CAPACITY records. state, fault, image: one record each.
"""
BUFFER: Final = _record("size", "starts", "ends", "types", "positions", "times", "base", "order", "last")
"""Events of a receive buffer of `size` bytes.

starts .. times: addresses of the arrays of `ReceiveBuffer`. base: sequence of position 0 of its file. order: address of
the table's event numbers, up to entry `last`.
"""
IMAGE: Final = _record(
    "steps", "step_count", "rest", "required", "where", "places", "stride", "most", "enough_bytes", "goal"
)
"""How the row images of one table are read, see `placing`.

steps: STEP records; rest: bytes after the last step; required: bits of the columns that are never NULL. where: WHERE
records, one per column. places: room for (step_count + 1) times `stride` bytes: the places after each step, of at most
`most` images; no more are begun when these have enough_bytes. goal: a STATE record.
"""
STEP: Final = _record("before", "width", "prefix", "nullable", "column")
"""A value whose size is not known beforehand.

before: bytes between the previous step and this one. width: its size if fixed. prefix: otherwise, the size of its
length field. nullable: whether it may be NULL. column: number of its column.
"""
WHERE: Final = _record("step", "skip", "own", "nullable")
"""Where a column's values are: `skip` bytes after step number `step` (0: after the NULL bitmap).

own: 1 when the next step is the column's; nullable: 1 when it may be NULL, too.
"""
HEAD: Final = _record("kinds", "sequences", "rows", "times", "ones_end", "zeros_end", "total")
"""Places of the arrays that describe each row image; ends of the parts preset to ones and zeros; size of the arena."""
STATE: Final = _record("event", "at", "rows", "sequence", "next_row", "nulls_known", "slow")
"""How far one table is decoded.

event: next entry of the order. at: where in that event to continue, 0 for its start. rows: row images in this block.
sequence, next_row: those of the last image. nulls_known: whether COLUMN.nulls is exact. slow: entries in the slow list.
"""
FAULT: Final = _record("event", "column", "value")
"""Where decoding stopped: event number, column or -1, and a value or place whose meaning depends on the code."""
SLOW: Final = _record("row", "column", "start", "end", "base_start", "base_end")
"""A list of changes to a JSON document; base: the before image's document."""
SLOW_CAPACITY: Final = 1024
KNOWN: Final = _record("hash", "start", "length", "slot")
"""A TABLE_MAP seen before: where its bytes are stored; slot is UNWANTED or a slot number."""
IDS: Final = _record("id", "epoch", "entry")
"""A table id and the number of its KNOWN record. It is valid only in its epoch, which ends with the statement."""
SCAN: Final = _record("next", "found", "epoch")
"""State of the first pass: next event, rows events found, current epoch."""

BITS_OUT: Final = 0
BYTES_OUT: Final = -1
FLOATS_OUT: Final = -2

EMPTY: Final = -2
"""The slot of a table id that no TABLE_MAP announced."""
UNWANTED: Final = -1
"""The slot of tables whose rows are not needed."""

# Operations; the brackets say what a, b, c, d mean. From DATE on, they are dates; from BITS on, of variable length.
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
