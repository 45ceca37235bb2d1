"""MySQL's binary JSON in plain Python: the slow counterpart of `kernels.json` with error details, and trees for diffs.

A tree is a dict (an object, keys in MySQL's order: by length in bytes, then by bytes), a list (an array) or a str (the
final text of a scalar). Format: MySQL's sql-common/json_binary.h, json_dom.cc.
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from typing import TypeAlias

from cdc.errors import CorruptLog

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str"

MAX_DEPTH = 100
_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q", 11: "<d"}
_ESCAPES = {code: json.dumps(chr(code))[1:-1] for code in [*range(32), ord('"'), ord("\\")]}
_WORD_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def json_text_slow(data: bytes) -> str:
    """Return the text that MySQL shows for a binary JSON document; zero bytes are `null`.

    Raises CorruptLog with the reason.
    """
    return tree_text(decode(data))


def decode(data: bytes) -> Tree:
    """Decode a binary JSON document to a tree. Raises CorruptLog with the reason and the offset."""
    if not data:
        return "null"
    return _value(data[0], memoryview(data)[1:], 0, _Limits(len(data)))


def tree_text(tree: Tree) -> str:
    """Format a tree, spaced like MySQL does: `{"a": 1, "b": [1, 2]}`."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, list):
        return f"[{', '.join(map(tree_text, tree))}]"
    return f"{{{', '.join(f'{quote(key)}: {tree_text(value)}' for key, value in tree.items())}}}"


def quote(text: str) -> str:
    """Quote a JSON string with MySQL's escapes: quote, backslash and control characters only."""
    return f'"{text.translate(_ESCAPES)}"'


def key_order(key: str) -> tuple[int, bytes]:
    """Return the sort key of an object's member."""
    name = key.encode()
    return len(name), name


def double_text(value: float) -> str:
    """Format a double like MySQL's JSON (`my_gcvt` in strings/dtoa.cc, with `.0` after a whole number)."""
    sign, digits, exponent = _shortest(value)
    count = len(digits)
    point = count + exponent
    if point < -14 or (point > 15 and point >= count):
        return f"{sign}{digits[0]}{'.' if count > 1 else ''}{digits[1:]}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= count:
        return f"{sign}{digits}{'0' * (point - count)}.0"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _shortest(value: float) -> tuple[str, str, int]:
    """Return sign, digits without outer zeros, and exponent of the shortest decimal that reads back as the double."""
    text = repr(value)
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    stripped = digits.rstrip("0")
    if not stripped:
        return sign, "0", 0
    return sign, stripped, int(exponent or 0) - len(fraction) + len(digits) - len(stripped)


@dataclass(slots=True)
class _Limits:
    """Limits of a valid document: its values share no bytes, and it is at most `MAX_DEPTH` deep."""

    bytes_left: int
    depth: int = 0

    def use(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise _corrupt("values that lie on top of each other", 0)


def _corrupt(what: str, at: int) -> CorruptLog:
    return CorruptLog(f"a JSON value holds {what} at byte {at}", hint="the log is damaged; read it from another copy")


def _value(kind: int, data: memoryview, at: int, limits: _Limits) -> Tree:
    """Return the value of a type code whose bytes start at `data[at]` and may reach to its end."""
    if kind <= 3:
        if limits.depth >= MAX_DEPTH:
            raise _corrupt(f"more than {MAX_DEPTH} nested levels", at)
        limits.depth += 1
        tree = _container(kind in (0, 1), kind in (1, 3), data[at:], limits)
        limits.depth -= 1
        return tree
    if kind == 4:
        code = _unpack("<B", data, at)
        if code not in _LITERALS:
            raise _corrupt(f"literal {code}", at)
        return _LITERALS[int(code)]
    if kind in _NUMBERS:
        return _number(_unpack(_NUMBERS[kind], data, at), at)
    if kind == 12:
        return quote(_string(_sized(data, at, limits), at))
    if kind == 15:
        return _opaque(int(_unpack("<B", data, at)), _sized(data, at + 1, limits), at)
    raise _corrupt(f"value type {kind}", at)


def _unpack(form: str, data: memoryview, at: int) -> int | float:
    try:
        number: int | float = struct.unpack_from(form, data, at)[0]
    except struct.error as error:
        raise _corrupt("a value that ends too early", at) from error
    return number


def _number(value: int | float, at: int) -> str:
    if isinstance(value, int):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        raise _corrupt(f"the number {value}", at)
    return double_text(value)


def _sized(data: memoryview, at: int, limits: _Limits) -> bytes:
    """Return the bytes after a length of 7 bits per byte, lowest first."""
    length = 0
    for i in range(5):
        byte = int(_unpack("<B", data, at + i))
        length |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            first = at + i + 1
            if first + length > len(data):
                raise _corrupt("a value that ends too early", at)
            limits.use(length)
            return bytes(data[first : first + length])
    raise _corrupt("a length of more than five bytes", at)


def _string(data: bytes, at: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _corrupt("text that is not UTF-8", at) from error


def _container(is_object: bool, large: bool, data: memoryview, limits: _Limits) -> Tree:
    form, width = ("<I", 4) if large else ("<H", 2)
    count, size = int(_unpack(form, data, 0)), int(_unpack(form, data, width))
    keys_end = 2 * width + (count * (width + 2) if is_object else 0)
    if size > len(data) or keys_end + count * (1 + width) > size:
        raise _corrupt("an object or array larger than its place", 0)
    data = data[:size]
    limits.use(keys_end + count * (1 + width))
    values = []
    for entry in range(keys_end, keys_end + count * (1 + width), 1 + width):
        kind = data[entry]
        inlined = kind in (4, 5, 6) or (large and kind in (7, 8))
        at = entry + 1 if inlined else int(_unpack(form, data, entry + 1))
        values.append(_value(kind, data, at, limits))
    if not is_object:
        return values
    keys = [_key(data, form, entry, limits) for entry in range(2 * width, keys_end, width + 2)]
    if len(set(keys)) != count:
        raise _corrupt("an object with the same key twice", 0)
    return dict(zip(keys, values, strict=True))


def _key(data: memoryview, form: str, entry: int, limits: _Limits) -> str:
    first = int(_unpack(form, data, entry))
    last = first + int(_unpack("<H", data, entry + struct.calcsize(form)))
    if last > len(data):
        raise _corrupt("a key that ends too early", entry)
    limits.use(last - first)
    return _string(bytes(data[first:last]), entry)


def _opaque(kind: int, data: bytes, at: int) -> str:
    """Format an SQL value without a JSON type; `kind` is its field type code."""
    if kind == 246:
        return _decimal(data, at)
    if kind in (7, 10, 11, 12):
        return _temporal(kind, data, at)
    if kind == 253:
        return quote(_string(data, at))
    lines = [base64.b64encode(data[i : i + 57]).decode() for i in range(0, len(data), 57)]
    return quote(f"base64:type{kind}:" + "\n".join(lines))


def _temporal(kind: int, data: bytes, at: int) -> str:
    if len(data) != 8:
        raise _corrupt(f"a time of {len(data)} bytes", at)
    packed = int(_unpack("<q", memoryview(data), 0))
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    whole, micros = packed >> 24, packed & 0xFFFFFF
    day, month, year = (whole >> 17) & 31, (whole >> 22) % 13, (whole >> 22) // 13
    hour, minute, second = whole >> 12, (whole >> 6) & 63, whole & 63
    if micros > 999_999 or (hour > 1023 if kind == 11 else year > 9999):
        raise _corrupt("an impossible time", at)
    if kind == 11:
        return f'"{sign}{hour:02}:{minute:02}:{second:02}.{micros:06}"'
    date = f"{sign}{year:04}-{month:02}-{day:02}"
    return f'"{date}"' if kind == 10 else f'"{date} {hour & 31:02}:{minute:02}:{second:02}.{micros:06}"'


def _decimal(data: bytes, at: int) -> str:
    """Format a decimal: precision, scale, then MySQL's decimal in words of nine digits (strings/decimal.cc)."""
    precision, scale = (data[0], data[1]) if len(data) > 2 else (0, 0)
    if precision == 0 or precision > 81 or scale > precision:
        raise _corrupt(f"a decimal of precision {precision} and scale {scale}", at)
    whole = precision - scale
    groups = [g for g in (whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9) if g]
    if sum(_WORD_BYTES[g] for g in groups) != len(data) - 2:
        raise _corrupt(f"a decimal of {len(data)} bytes", at)
    negative = not data[2] & 0x80
    body = bytes([data[2] ^ 0x80, *data[3:]])
    body = bytes(byte ^ 0xFF for byte in body) if negative else body
    digits, first = "", 0
    for group in groups:
        word = int.from_bytes(body[first : first + _WORD_BYTES[group]])
        if word >= 10**group:
            raise _corrupt("a decimal with a word too large", at)
        digits += f"{word:0{group}}"
        first += _WORD_BYTES[group]
    text = (digits[:whole].lstrip("0") or "0") + (f".{digits[whole:]}" if scale else "")
    return f"-{text}" if negative and digits.strip("0") else text
