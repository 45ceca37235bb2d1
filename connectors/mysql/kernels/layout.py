"""Computes where the columns of one block are in its arena, and prepares the arena. For records see `ops`."""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel, ops
from connectors.shared.kernels.kernel_types import Int, Ints
from connectors.shared.kernels.memory import fill, poke32

_LARGEST = (1 << 31) - 128
"""Offsets are int32."""
_SLACK = 4096
_FIELDS = ("width", "growth", "ratio", "values", "valid", "data", "data_at", "data_end")
_WIDTH, _GROWTH, _RATIO, _VALUES, _VALID, _DATA, _DATA_AT, _DATA_END = (ops.offset(ops.COLUMN, f) // 8 for f in _FIELDS)
_ONES_END, _ZEROS_END, _TOTAL = (ops.offset(ops.HEAD, f) // 8 for f in ("ones_end", "zeros_end", "total"))
_ROW_WIDTHS = (1, 8, 4, 8)
"""Bytes per row of the first fields of the head: kinds, sequences, row numbers, times."""


@kernel
def _up(size: Int) -> Int:
    """Round up to a multiple of 64, Arrow's alignment."""
    return (size + 63) & ~63


@kernel
def _room(growth: Int, ratio: Int, rows: Int, bound: Int, average: Int) -> Int:
    """Return the bytes to reserve for a variable-length column: a quarter more than before, at most the worst case."""
    worst = bound * ratio + rows * growth + 128
    if average >= 0:
        worst = min(worst, np.int64(average * (1.25 * rows + 8)) + _SLACK)
    return min(worst, _LARGEST)


@kernel.entry
def lay_out(layout: Ints, head: Ints, rows: Int, bound: Int, averages: Ints) -> None:
    """Fill `layout`, which holds the plan, and `head` with places that count from the arena's start.

    layout, head: int64 views of COLUMN and HEAD records, [columns, fields] and [fields]. rows: row images that must
    fit, from at most `bound` bytes of log. averages: float64[columns], bytes per row that variable-length columns took
    before; negative when not known.
    """
    columns = layout.shape[0]
    at = np.int64(0)
    for c in range(columns):
        layout[c, _VALID] = at
        at += _up((rows + 7) >> 3)
    head[_ONES_END] = at
    for c in range(columns):
        if layout[c, _WIDTH] == ops.BITS_OUT:
            layout[c, _VALUES] = at
            at += _up((rows + 7) >> 3)
    head[_ZEROS_END] = at
    for field in range(4):
        head[field] = at
        at += _up(_ROW_WIDTHS[field] * rows)
    for c in range(columns):
        width = layout[c, _WIDTH]
        if width > 0:
            layout[c, _VALUES] = at
            at += _up(width * rows)
        elif width < 0:
            layout[c, _VALUES] = at
            at += _up(4 * (rows + 1))
            layout[c, _DATA] = at
            layout[c, _DATA_AT] = at
            at += _up(_room(layout[c, _GROWTH], layout[c, _RATIO], rows, bound, averages[c]))
            layout[c, _DATA_END] = at
    head[_TOTAL] = at


@kernel.entry
def open_arena(layout: Ints, head: Ints, base: Int) -> None:
    """Turn places into addresses; initialize validity to ones, and booleans and the first offsets to zero."""
    fill(base, head[_ONES_END], 255)
    fill(base + head[_ONES_END], head[_ZEROS_END] - head[_ONES_END], 0)
    for field in range(4):
        head[field] += base
    for c in range(layout.shape[0]):
        for field in (_VALUES, _VALID, _DATA, _DATA_AT, _DATA_END):
            layout[c, field] += base
        if layout[c, _WIDTH] < 0:
            poke32(layout[c, _VALUES], 0)
