"""Kernels for opaque values in MySQL's binary JSON: SQL values that JSON has no type for.

DECIMAL is printed as a number with its scale, DATE, TIME, DATETIME and TIMESTAMP as quoted text with six fractional
digits, and everything else as `"base64:typeN:..."` with a line break after every 76 characters.

Sources: `Json_decimal`, `Json_datetime` and `wrapper_to_string` in MySQL's sql-common/json_dom.cc, strings/decimal.cc,
sql-common/my_time.cc, mysys/base64.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.json_scalar import CORRUPT, little, variable_length
from connectors.mysql.kernels.number_text import FULL, int64_text, padded_text, two_digits
from connectors.shared.kernels.kernel_types import Bytes, Int

TIMESTAMP, DATE, TIME, DATETIME, DECIMAL = 7, 10, 11, 12, 246
"""Codes of field types that are not printed as base64."""

MAX_DIGITS = 81
"""Digits of the longest decimal that MySQL's decimal type can hold: nine words of nine digits."""

_QUOTE, _COLON, _MINUS = np.uint8(34), np.uint8(58), np.uint8(45)
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_BASE64_HEAD = np.frombuffer(b'"base64:type', np.uint8)
_LINE_BYTES = 57
_WORD_BYTES = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], np.int64)


@kernel.inlined
def opaque_text(src: Bytes, start: Int, end: Int, dst: Bytes, at: Int) -> Int:
    """Write the opaque value (type byte, length, bytes) at `start`.

    Returns the offset after it, `FULL` or `CORRUPT`.
    """
    if start >= end:
        return CORRUPT
    kind = src[start]
    length, first = variable_length(src, start + 1, end)
    if length < 0 or first + length > end:
        return CORRUPT
    last = first + length
    if kind == DECIMAL:
        return _decimal_text(src, first, last, dst, at)
    if kind in (DATE, TIME, DATETIME, TIMESTAMP):
        return _temporal_text(kind, src, first, last, dst, at)
    return _base64_text(kind, src, first, last, dst, at)


@kernel
def _temporal_text(kind: Int, src: Bytes, first: Int, last: Int, dst: Bytes, at: Int) -> Int:
    """Write MySQL's packed 64-bit time.

    It has 24 bits of microseconds, then from low to high second, minute, hour, and for dates day and month.
    """
    if last - first != 8:
        return CORRUPT
    if at + 32 > dst.size:
        return FULL
    packed = np.int64(little(src, first, 8))
    negative = packed < 0
    if negative:
        packed = -packed
    micros, whole = packed & 0xFF_FFFF, packed >> 24
    if packed < 0 or micros > 999_999:
        return CORRUPT
    dst[at] = _QUOTE
    at += 1
    if negative:
        dst[at] = _MINUS
        at += 1
    hour = whole >> 12
    if kind != TIME:
        day, month = (whole >> 17) & 31, (whole >> 22) % 13
        year = (whole >> 22) // 13
        hour = hour & 31
        if year > 9999:
            return CORRUPT
        at = two_digits(year // 100, dst, at)
        at = _joined(year % 100, month, day, _MINUS, dst, at)
    if kind == DATE:
        dst[at] = _QUOTE
        return at + 1
    if kind != TIME:
        dst[at] = np.uint8(32)
        at += 1
    elif hour > 1023:
        return CORRUPT
    if hour >= 100:
        at = int64_text(hour // 100, dst, at)
    at = _joined(hour % 100, (whole >> 6) & 63, whole & 63, _COLON, dst, at)
    dst[at] = np.uint8(46)
    at = two_digits(micros // 10_000, dst, at + 1)
    at = two_digits(micros // 100 % 100, dst, at)
    at = two_digits(micros % 100, dst, at)
    dst[at] = _QUOTE
    return at + 1


@kernel
def _joined(a: Int, b: Int, c: Int, mark: Int, dst: Bytes, at: Int) -> Int:
    """Write `a`, `b` and `c` with two digits each and `mark` between them; room was checked."""
    at = two_digits(a, dst, at)
    dst[at] = mark
    at = two_digits(b, dst, at + 1)
    dst[at] = mark
    return two_digits(c, dst, at + 1)


@kernel
def _decimal_bytes(digits: Int) -> Int:
    return digits // 9 * 4 + _WORD_BYTES[digits % 9]


@kernel
def _decimal_text(src: Bytes, first: Int, last: Int, dst: Bytes, at: Int) -> Int:
    """Write a decimal.

    Its bytes are precision, scale, then big-endian words of nine digits; all bits are inverted when it is negative.
    """
    if last - first < 3:
        return CORRUPT
    precision, scale = np.int64(src[first]), np.int64(src[first + 1])
    if precision > MAX_DIGITS or scale > precision or precision == 0:
        return CORRUPT
    whole = precision - scale
    middle = first + 2 + _decimal_bytes(whole)
    if middle + _decimal_bytes(scale) != last:
        return CORRUPT
    if at + precision + 4 > dst.size:
        return FULL
    flip = np.int64(0 if src[first + 2] & 0x80 else 0xFF)
    begin = at
    if flip:
        dst[at] = _MINUS
        at += 1
    number = at
    at = _words(src, first + 2, whole, whole % 9, flip, np.int64(0x80), dst, at)
    if at < 0:
        return CORRUPT
    at = _without_leading_zeros(dst, number, at)
    if scale > 0:
        dst[at] = np.uint8(46)
        sign = np.int64(0x80 if whole == 0 else 0)
        at = _words(src, middle, scale, min(9, scale), flip, sign, dst, at + 1)
        if at < 0:
            return CORRUPT
    if flip and _is_zero(dst, number, at):
        for i in range(begin + 1, at):
            dst[i - 1] = dst[i]
        return at - 1
    return at


@kernel
def _words(src: Bytes, start: Int, digits: Int, head: Int, flip: Int, sign: Int, dst: Bytes, at: Int) -> Int:
    """Write `digits` digits stored from `start`.

    They come in a group of `head` digits (0: nine), then groups of nine, then the rest. `sign` is the sign bit when the
    first byte has it. Returns the offset after the digits, or `CORRUPT`.
    """
    left = digits
    group = head if head > 0 else min(9, left)
    while left > 0:
        value = np.int64(0)
        for _ in range(_WORD_BYTES[group]):
            value = value << 8 | np.int64(src[start]) ^ flip ^ sign
            sign = np.int64(0)
            start += 1
        if value >= 10**group:
            return CORRUPT
        at = padded_text(value, group, dst, at)
        left -= group
        group = min(9, left)
    return at


@kernel
def _without_leading_zeros(dst: Bytes, start: Int, end: Int) -> Int:
    """Remove leading zeros from the digits `dst[start:end]`; an empty or zero number becomes one `0`."""
    first = start
    while first < end and dst[first] == 48:
        first += 1
    if first == end:
        dst[start] = np.uint8(48)
        return start + 1
    for i in range(first, end):
        dst[start + i - first] = dst[i]
    return start + end - first


@kernel
def _is_zero(dst: Bytes, start: Int, end: Int) -> bool:
    nonzero = 0
    for i in range(start, end):
        nonzero += dst[i] != 48 and dst[i] != 46
    return nonzero == 0


@kernel
def _base64_text(kind: Int, src: Bytes, first: Int, last: Int, dst: Bytes, at: Int) -> Int:
    size = last - first
    groups = (size + 2) // 3
    if at + 20 + groups * 4 + 2 * (size // _LINE_BYTES) > dst.size:
        return FULL
    for i in range(_BASE64_HEAD.size):
        dst[at + i] = _BASE64_HEAD[i]
    at = int64_text(np.int64(kind), dst, at + _BASE64_HEAD.size)
    dst[at] = _COLON
    at += 1
    for i in range(groups):
        if i > 0 and i % 19 == 0:
            dst[at] = np.uint8(92)
            dst[at + 1] = np.uint8(110)
            at += 2
        at = _base64_group(src, first + 3 * i, last, dst, at)
    dst[at] = _QUOTE
    return at + 1


@kernel
def _base64_group(src: Bytes, first: Int, last: Int, dst: Bytes, at: Int) -> Int:
    """Write four characters for up to three bytes from `first`; room was checked."""
    left = min(3, last - first)
    value = np.int64(0)
    for i in range(3):
        value = value << 8 | (np.int64(src[first + i]) if i < left else 0)
    for i in range(4):
        dst[at + i] = _BASE64[(value >> (18 - 6 * i)) & 63] if i <= left else np.uint8(61)
    return at + 4
