"""Decode escapes in JSON strings (RFC 8259, section 7), and compare names that have escapes."""

from __future__ import annotations

from connectors.kafka.kernels import kernel
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8

_BACK = 92


@kernel
def _hex4(base: Int, at: Int) -> Int:
    code = 0
    for place in range(4):
        byte = peek8(base + at + place)
        if 48 <= byte <= 57:
            code = code * 16 + byte - 48
        elif 97 <= byte <= 102:
            code = code * 16 + byte - 87
        elif 65 <= byte <= 70:
            code = code * 16 + byte - 55
        else:
            return -1
    return code


@kernel
def escape(base: Int, at: Int, stop: Int) -> Int:
    """16 times the character of the escape whose backslash is before `at`, plus the length after the backslash.

    -1 for an escape that is no character, such as a lone surrogate.
    """
    if at >= stop:
        return -1
    byte = peek8(base + at)
    if byte == 117:
        if at + 5 > stop:
            return -1
        code = _hex4(base, at + 1)
        if code < 0 or 0xDC00 <= code <= 0xDFFF:
            return -1
        if code < 0xD800 or code > 0xDFFF:
            return code * 16 + 5
        if at + 11 > stop or peek8(base + at + 5) != _BACK or peek8(base + at + 6) != 117:
            return -1
        low = _hex4(base, at + 7)
        if low < 0xDC00 or low > 0xDFFF:
            return -1
        return (0x10000 + ((code - 0xD800) << 10) + low - 0xDC00) * 16 + 11
    if byte == 110:
        byte = 10
    elif byte == 116:
        byte = 9
    elif byte == 114:
        byte = 13
    elif byte == 98:
        byte = 8
    elif byte == 102:
        byte = 12
    elif byte != 34 and byte != _BACK and byte != 47:
        return -1
    return byte * 16 + 1


@kernel
def utf8_length(code: Int) -> Int:
    """The number of bytes of a character in UTF-8."""
    if code < 0x80:
        return 1
    if code < 0x800:
        return 2
    return 3 if code < 0x10000 else 4


@kernel
def utf8_byte(code: Int, place: Int) -> Int:
    """The byte with this number, from 0 on, of a character in UTF-8."""
    length = utf8_length(code)
    if length == 1:
        return code
    bits = (code >> (6 * (length - 1 - place))) & 63
    if place > 0:
        return 0x80 | bits
    if length == 2:
        return 0xC0 | bits
    return (0xE0 if length == 3 else 0xF0) | bits


@kernel
def is_name(base: Int, at: Int, stop: Int) -> Int:
    """Return 1 if every escape in a string is a character, else 0."""
    while at < stop:
        byte = peek8(base + at)
        at += 1
        if byte == _BACK:
            found = escape(base, at, stop)
            if found < 0:
                return 0
            at += found & 15
    return 1


@kernel
def same_name(base: Int, at: Int, stop: Int, names: Int, name: Int, name_end: Int) -> Int:
    """Return 1 if a string, whose escapes are all characters, is this name, else 0."""
    while at < stop:
        code = peek8(base + at)
        at += 1
        length = 1
        if code == _BACK:
            found = escape(base, at, stop)
            at += found & 15
            code = found >> 4
            length = utf8_length(code)
        if name + length > name_end:
            return 0
        if length == 1:
            if code != peek8(names + name):
                return 0
        else:
            for place in range(length):
                if utf8_byte(code, place) != peek8(names + name + place):
                    return 0
        name += length
    return 1 if name == name_end else 0
