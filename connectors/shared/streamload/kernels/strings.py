"""The search for values that a plain field cannot carry."""

from __future__ import annotations

from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek16, signed32
from connectors.shared.streamload.kernels import kernel

_NULL_WORD = 0x4E5C
"""The two bytes `\\N`, little-endian."""


@kernel.entry
def needs_hex(offsets: Int, values: Int, rows: Int) -> bool:
    """Return whether a string column has a byte below 3, which covers both separators, or a value that reads as NULL.

    offsets: address of the first row's int32 offset; values: address that the offsets count from.
    """
    first, last = signed32(offsets), signed32(offsets + 4 * rows)
    low = 0
    for i in range(first, last):
        if peek8(values + i) < 3:
            low += 1
    if low > 0:
        return True
    for row in range(rows):
        start = signed32(offsets + 4 * row)
        if signed32(offsets + 4 * row + 4) - start == 2 and peek16(values + start) == _NULL_WORD:
            return True
    return False
