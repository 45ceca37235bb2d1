"""The kernel that writes rows: one line of separated fields each, from the buffers of Arrow columns.

A column is a row of ten numbers, `FIELDS` in order. Values of fixed width start at `values`; strings and lists have
int32 offsets at `offsets`. A NULL is written as `filler`, and so is every value of a deleted row in a column whose
`in_deletes` is 0.
"""

from __future__ import annotations

import numpy as np

from connectors.shared.kernels.kernel_types import Int, Ints
from connectors.shared.kernels.memory import (
    move,
    peek8,
    peek16,
    peek32,
    peek64,
    poke8,
    signed8,
    signed16,
    signed32,
)
from connectors.shared.kernels.text.floats import double_text, float_text
from connectors.shared.kernels.text.integers import UPPER, decimal_text, hex_text, signed_text, unsigned_text
from connectors.shared.kernels.text.moments import date_text, moment_text, span_text
from connectors.shared.streamload.kernels import kernel

FIELDS = (
    "op", "values", "validity", "validity_bit", "offsets", "detail", "bit", "in_deletes", "filler", "filler_size",
)  # fmt: skip
"""Names of the numbers; addresses are 0 if absent. detail: scale, or digits of the fraction."""

_OP, _VALUES, _VALIDITY, _VALIDITY_BIT, _OFFSETS, _DETAIL, _BIT, _IN_DELETES, _FILLER, _FILLER_SIZE = range(10)

(
    BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64, DECIMAL128, DATE32, MOMENT, SPAN,
    TEXT, HEX, FLOATS,
) = range(18)  # fmt: skip
"""Encodings of a column's values. TEXT and HEX: strings; FLOATS: lists of 32-bit floats as a JSON array."""

FIELD_END, ROW_END = 1, 2
"""The separators. Text rarely contains them, and then its column is sent as HEX."""


@kernel.entry
def write_rows(columns: Ints, rows: Int, deleted: Int, to: Int) -> Int:
    """Write all rows; returns the address after the last one.

    columns: int64[c, 10]; deleted: address of a byte per row, 1 for a delete. The caller has allocated enough space.
    """
    count = columns.shape[0]
    for row in range(rows):
        delete = peek8(deleted + row)
        poke8(to, 48 + delete)
        to += 1
        for i in range(count):
            column = columns[i]
            poke8(to, FIELD_END)
            to += 1
            present = delete == 0 or column[_IN_DELETES] != 0
            if present and column[_VALIDITY] != 0:
                bit = column[_VALIDITY_BIT] + row
                present = (peek8(column[_VALIDITY] + (bit >> 3)) >> (bit & 7)) & 1 == 1
            if present:
                to = _value(column, row, to)
            else:
                size = column[_FILLER_SIZE]
                for j in range(size):
                    poke8(to + j, peek8(column[_FILLER] + j))
                to += size
        poke8(to, ROW_END)
        to += 1
    return to


@kernel
def _value(column: Ints, row: Int, to: Int) -> Int:
    """Write one non-NULL value; checks the most common kinds first."""
    op, values = column[_OP], column[_VALUES]
    if op == TEXT:
        start, end = signed32(column[_OFFSETS] + 4 * row), signed32(column[_OFFSETS] + 4 * row + 4)
        move(to, values + start, end - start)
        return to + end - start
    if op == INT32:
        return signed_text(signed32(values + 4 * row), to)
    if op == INT64:
        return signed_text(peek64(values + 8 * row), to)
    if op == MOMENT:
        return moment_text(peek64(values + 8 * row), column[_DETAIL], to)
    if op == DECIMAL128:
        return decimal_text(values + 16 * row, column[_DETAIL], to)
    if op == INT8:
        return signed_text(signed8(values + row), to)
    if op == INT16:
        return signed_text(signed16(values + 2 * row), to)
    if op == DATE32:
        return date_text(signed32(values + 4 * row), to)
    if op == FLOAT64:
        return double_text(np.uint64(peek64(values + 8 * row)), to)
    return _rare_value(column, row, to)


@kernel
def _rare_value(column: Ints, row: Int, to: Int) -> Int:
    op, values = column[_OP], column[_VALUES]
    if op == FLOAT32:
        return float_text(np.uint64(peek32(values + 4 * row)), to)
    if op == BOOL:
        bit = column[_BIT] + row
        poke8(to, 48 + ((peek8(values + (bit >> 3)) >> (bit & 7)) & 1))
        return to + 1
    if op == UINT8:
        return unsigned_text(np.uint64(peek8(values + row)), to)
    if op == UINT16:
        return unsigned_text(np.uint64(peek16(values + 2 * row)), to)
    if op == UINT32:
        return unsigned_text(np.uint64(peek32(values + 4 * row)), to)
    if op == UINT64:
        return unsigned_text(np.uint64(peek64(values + 8 * row)), to)
    if op == SPAN:
        return span_text(peek64(values + 8 * row), column[_DETAIL], to)
    start, end = signed32(column[_OFFSETS] + 4 * row), signed32(column[_OFFSETS] + 4 * row + 4)
    if op == HEX:
        return hex_text(values + start, end - start, UPPER, to)
    poke8(to, 91)
    to += 1
    for i in range(start, end):
        if i > start:
            poke8(to, 44)
            to += 1
        to = float_text(np.uint64(peek32(values + 4 * i)), to)
    poke8(to, 93)
    return to + 1
