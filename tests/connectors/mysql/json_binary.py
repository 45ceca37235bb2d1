"""Writes MySQL's binary JSON for tests that need no server, and makes random documents.

The layout is that of MySQL's sql-common/json_binary.cc: small containers, or large ones where an offset needs it.
"""

from __future__ import annotations

import random
import struct
from typing import Any

WORDS = (
    "",
    "a",
    "b",
    "name",
    "ключ",
    "日本",
    "😀",
    'q"uote',
    "back\\slash",
    "tab\tnewline\n\x01\x1f",
    "x" * 40,
    "/\x7f\u2028",
)


def encode(value: Any) -> bytes:
    """The binary document of a Python value as the json module has them; `bytes` are a ready type and value."""
    kind, data = _encoded(value)
    return bytes([kind]) + data


def variable_length(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def opaque(kind: int, data: bytes) -> bytes:
    """A ready opaque value for `encode`."""
    return b"\x0f" + bytes([kind]) + variable_length(len(data)) + data


def _encoded(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes([(None, True, False).index(value)])
    if isinstance(value, bytes):
        return value[0], value[1:]
    if isinstance(value, int):
        for kind, form, low, high in (
            (5, "<h", -(1 << 15), 1 << 15), (7, "<i", -(1 << 31), 1 << 31), (9, "<q", -(1 << 63), 1 << 63),
        ):  # fmt: skip
            if low <= value < high:
                return kind, struct.pack(form, value)
        return 10, struct.pack("<Q", value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        return 12, variable_length(len(value.encode())) + value.encode()
    return _container(value, large=False) or _container(value, large=True) or (0, b"")


def _container(value: Any, *, large: bool) -> tuple[int, bytes] | None:
    """None when it does not fit the small format."""
    is_object = isinstance(value, dict)
    keys = sorted((key.encode() for key in value), key=lambda key: (len(key), key)) if is_object else []
    values = [value[key.decode()] for key in keys] if is_object else value
    form, width = ("<I", 4) if large else ("<H", 2)
    at = 2 * width + len(keys) * (width + 2) + len(values) * (1 + width)
    key_entries = value_entries = b""
    for key in keys:
        key_entries += struct.pack(form, at & (1 << 8 * width) - 1) + struct.pack("<H", len(key))
        at += len(key)
    body = []
    for kind, data in map(_encoded, values):
        if kind in (4, 5, 6) or (large and kind in (7, 8)):
            value_entries += bytes([kind]) + data.ljust(width, b"\0")
            continue
        if at >= 1 << 8 * width or (not large and kind in (1, 3)):
            return None
        value_entries += bytes([kind]) + struct.pack(form, at)
        body.append(data)
        at += len(data)
    if at >= 1 << 8 * width:
        return None
    head = struct.pack(form, len(values)) + struct.pack(form, at)
    return 2 * (not is_object) + large, head + key_entries + value_entries + b"".join(keys) + b"".join(body)


def random_document(rnd: random.Random, depth: int = 0) -> Any:
    """A random JSON value of every plain kind; containers get rarer with depth."""
    kind = rnd.randrange(11 if depth < 6 else 8)
    if kind < 3:
        return (None, True, False)[kind]
    if kind == 3:
        return rnd.randrange(-40_000, 40_000)
    if kind == 4:
        return rnd.choice((-1, 1)) * rnd.getrandbits(rnd.randrange(1, 63))
    if kind == 5:
        return random_double(rnd)
    if kind < 8:
        return "".join(rnd.choice(WORDS) for _ in range(rnd.randrange(4)))
    if kind < 9:
        return [random_document(rnd, depth + 1) for _ in range(rnd.randrange(6))]
    return {
        rnd.choice(WORDS) + str(rnd.randrange(20)): random_document(rnd, depth + 1) for _ in range(rnd.randrange(7))
    }


def random_double(rnd: random.Random) -> float:
    """A finite double: any bit pattern, a short decimal, or a number near a layout boundary."""
    choice = rnd.randrange(3)
    if choice == 0:
        return struct.unpack("<d", struct.pack("<Q", rnd.getrandbits(64) & ~(1 << 62)))[0]
    if choice == 1:
        return round(rnd.uniform(-1000, 1000), rnd.randrange(6))
    return float(f"{rnd.randrange(-(10 ** rnd.randrange(1, 18)), 10**17)}e{rnd.randrange(-33, 4)}")
