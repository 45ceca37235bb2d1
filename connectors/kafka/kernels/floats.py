"""Write floating point numbers as JSON to an address. NaN and infinities, which JSON lacks, are words in quotes.

Connect's JsonConverter writes `"NaN"`, `"Infinity"` and `"-Infinity"`, and so do the other tools in Java.
"""

from __future__ import annotations

import numpy as np

from connectors.kafka.kernels import kernel
from connectors.shared.kernels.kernel_types import Bool, Int, Word
from connectors.shared.kernels.memory import poke8, poke32, poke64
from connectors.shared.kernels.text.floats import double_text, float_text

_QUOTE, _MINUS = 34, 45
_NAN, _INFINITY = 0x4E614E, 0x7974696E69666E49  # "NaN" and "Infinity", little-endian
_FLOAT_WORD, _DOUBLE_WORD = np.uint64(0x7F800000), np.uint64(0x7FF0000000000000)
_U0, _FLOAT_FRACTION, _DOUBLE_FRACTION = np.uint64(0), np.uint64(0x7FFFFF), np.uint64(0xFFFFFFFFFFFFF)
_U31, _U63 = np.uint64(31), np.uint64(63)


@kernel
def float_json(bits: Word, in_string: Bool, to: Int) -> Int:
    """Write the float with these 32 bits; return the address after it. `in_string`: the caller writes the quotes."""
    if bits & _FLOAT_WORD == _FLOAT_WORD:
        return _word(bits >> _U31 != _U0, bits & _FLOAT_FRACTION != _U0, in_string, to)
    return float_text(bits, to)


@kernel
def double_json(bits: Word, in_string: Bool, to: Int) -> Int:
    """Write the double with these bits; return the address after it. `in_string`: the caller writes the quotes."""
    if bits & _DOUBLE_WORD == _DOUBLE_WORD:
        return _word(bits >> _U63 != _U0, bits & _DOUBLE_FRACTION != _U0, in_string, to)
    return double_text(bits, to)


@kernel
def _word(negative: Bool, nan: Bool, in_string: Bool, to: Int) -> Int:
    if not in_string:
        poke8(to, _QUOTE)
        to += 1
    if nan:
        poke32(to, _NAN)
        to += 3
    else:
        if negative:
            poke8(to, _MINUS)
            to += 1
        poke64(to, _INFINITY)
        to += 8
    if not in_string:
        poke8(to, _QUOTE)
        to += 1
    return to
