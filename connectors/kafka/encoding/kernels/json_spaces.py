"""The kernel that takes the spaces between the tokens of JSON texts away."""

from __future__ import annotations

from connectors.kafka.encoding.kernels import kernel
from connectors.shared.kernels.kernel_types import Int, Ints
from connectors.shared.kernels.memory import peek8, poke8, signed32

_SPACE, _QUOTE, _BACKSLASH, _COMMA, _COLON = 32, 34, 92, 44, 58


@kernel
def take_spaces(offsets: Int, values: Int, rows: Int, to: Int, ends: Ints) -> Int:
    """Write texts without the spaces behind commas and colons outside of strings; returns the address after.

    offsets: address of the first row's int32 offset; values: address that the offsets count from; ends: int32[rows]
    takes where each text ends, from `to` on. There is room for as many bytes as the texts have.
    """
    begin = to
    for row in range(rows):
        inside, escaped, behind = False, False, False
        for i in range(signed32(offsets + 4 * row), signed32(offsets + 4 * row + 4)):
            byte = peek8(values + i)
            if behind and byte == _SPACE:
                continue
            poke8(to, byte)
            to += 1
            behind = not inside and byte in (_COMMA, _COLON)
            if byte == _QUOTE and not escaped:
                inside = not inside
            escaped = inside and byte == _BACKSLASH and not escaped
        ends[row] = to - begin
    return to
