"""Writes NULL to a column's buffers: a cleared validity bit, and a zero in the value's place.

All arguments are addresses and numbers; for records see `ops`.
"""

from __future__ import annotations

from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.ops import COLUMN, offset
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek32, peek64, poke8, poke16, poke32, poke64

_VALUES, _VALID = offset(COLUMN, "values"), offset(COLUMN, "valid")
_WIDTH, _NULLS = offset(COLUMN, "width"), offset(COLUMN, "nulls")


@kernel
def leave_zero(row: Int, column: Int) -> None:
    """Write a zero in place of a NULL."""
    values = peek64(column + _VALUES)
    width = peek64(column + _WIDTH)
    if width < 0:
        poke32(values + 4 * row + 4, peek32(values + 4 * row))
    elif width == 8:
        poke64(values + 8 * row, 0)
    elif width == 4:
        poke32(values + 4 * row, 0)
    elif width == 16:
        poke64(values + 16 * row, 0)
        poke64(values + 16 * row + 8, 0)
    elif width == 1:
        poke8(values + row, 0)
    elif width == 2:
        poke16(values + 2 * row, 0)


@kernel
def set_null(row: Int, column: Int) -> None:
    """Clear the validity bit, write a zero in the value's place, and count the NULL."""
    valid = peek64(column + _VALID) + (row >> 3)
    poke8(valid, peek8(valid) & ~(1 << (row & 7)))
    poke64(column + _NULLS, peek64(column + _NULLS) + 1)
    leave_zero(row, column)
