"""Compare how JSON texts begin, to handle many consecutive values with the same beginning at once."""

from __future__ import annotations

from connectors.kafka.kernels import kernel
from connectors.kafka.kernels.escapes import escape
from connectors.shared.kernels.kernel_types import Bool, Int, Ints
from connectors.shared.kernels.memory import peek8, peek64

CLOSE = 125
_PAYLOAD = int.from_bytes(b'payload"', "little")
_SCHEMA = int.from_bytes(b'schema"', "little")
_SIX, _SEVEN = (1 << 48) - 1, (1 << 56) - 1
"""The lowest six and seven bytes of a word."""


@kernel
def begins_with(text: Int, prefix: Int, length: Int) -> Bool:
    """Whether the texts at two addresses have the same first `length` bytes; both have at least that many."""
    place = 0
    while place + 8 <= length:
        if peek64(text + place) != peek64(prefix + place):
            return False
        place += 8
    while place < length:
        if peek8(text + place) != peek8(prefix + place):
            return False
        place += 1
    return True


@kernel.entry
def count_with_prefix(base: Int, begins: Ints, ends: Ints, first: Int, prefix: Int, length: Int) -> Int:
    """The number of consecutive texts from `first` on that begin with the prefix and end with one more `}`."""
    item = first
    while item < len(begins):
        at, stop = begins[item], ends[item]
        if stop - at <= length or peek8(base + stop - 1) != CLOSE or not begins_with(base + at, prefix, length):
            break
        item += 1
    return item - first


@kernel
def _wrapped(base: Int, at: Int, stop: Int) -> Bool:
    """Whether the first member of the object at `at` is named `schema` or `payload`."""
    while at < stop and peek8(base + at) <= 32:
        at += 1
    if at >= stop or peek8(base + at) != 123:
        return False
    at += 1
    while at < stop and peek8(base + at) <= 32:
        at += 1
    if at + 9 > stop or peek8(base + at) != 34:
        return False
    name = peek64(base + at + 1)
    return name == _PAYLOAD or name & _SEVEN == _SCHEMA or _escaped_wrapped(base, at + 1, stop)


@kernel
def _escaped_wrapped(base: Int, at: Int, stop: Int) -> Bool:
    """Do the same as `_wrapped`, for a name at `at` that has escapes."""
    word, length, escaped = 0, 0, False
    while at < stop:
        byte = peek8(base + at)
        at += 1
        if byte == 34:
            return escaped and ((length == 6 and word == _SCHEMA & _SIX) or (length == 7 and word == _PAYLOAD & _SEVEN))
        if byte == 92:
            found = escape(base, at, stop)
            if found < 0:
                return False
            at += found & 15
            byte, escaped = found >> 4, True
        if byte > 127 or length == 7:
            return False
        word |= byte << (8 * length)
        length += 1
    return False


@kernel.entry
def count_without_schema(base: Int, begins: Ints, ends: Ints, first: Int) -> Int:
    """The number of consecutive texts from `first` on without a Connect schema: `schema` or `payload` first."""
    item = first
    while item < len(begins) and not _wrapped(base, begins[item], ends[item]):
        item += 1
    return item - first
