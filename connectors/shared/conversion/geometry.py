"""Formats geometry values (4 bytes of SRID, then WKB) as text: `POINT(1 2)`, `SRID=4326;POINT(13.4 52.5)`.

Both servers' spatial functions read well-known text (`ST_GeomFromText`, `ST_GeometryFromText`) without the prefix.
Coordinates keep their stored order, x before y: longitude first, also where MySQL's own `ST_AsText` swaps the axes.
Numbers are the shortest text that reads back as the same double. WKB after OGC 06-103r4, section 8.2; only the
two-dimensional types that MySQL stores.
"""

from __future__ import annotations

import struct

from connectors.shared.conversion.policy import Reason, RejectedValue

_NAMES = {
    1: "POINT", 2: "LINESTRING", 3: "POLYGON", 4: "MULTIPOINT", 5: "MULTILINESTRING", 6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}  # fmt: skip
_DEEPEST = 64


def geometry_text(value: bytes) -> str:
    """Format one value. Raises RejectedValue for bytes that are not a geometry."""
    try:
        (srid,) = struct.unpack_from("<I", value)
        text, end = _WkbReader(value).geometry(4, 0)
    except (struct.error, KeyError) as error:
        raise RejectedValue(Reason.NOT_CONVERTIBLE) from error
    if end != len(value):
        raise RejectedValue(Reason.NOT_CONVERTIBLE)
    return f"SRID={srid};{text}" if srid else text


class _WkbReader:
    """Reads one value; every method takes an offset and returns text and the offset after it."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def geometry(self, at: int, depth: int) -> tuple[str, int]:
        order = "<" if self._value[at : at + 1] == b"\1" else ">"
        (kind,) = struct.unpack_from(order + "I", self._value, at + 1)
        name = _NAMES[kind]
        if depth > _DEEPEST:
            raise RejectedValue(Reason.NOT_CONVERTIBLE)
        if kind == 1:
            text, end = self._points(order, at + 5, 1)
            return f"{name}({text})", end
        (count,) = struct.unpack_from(order + "I", self._value, at + 5)
        if count == 0:
            return f"{name} EMPTY", at + 9
        if kind == 2:
            text, end = self._points(order, at + 9, count)
        elif kind == 3:
            text, end = self._rings(order, at + 9, count)
        else:
            text, end = self._parts(at + 9, count, kind, depth)
        return f"{name}({text})", end

    def _points(self, order: str, at: int, count: int) -> tuple[str, int]:
        if count * 16 > len(self._value) - at:
            raise RejectedValue(Reason.NOT_CONVERTIBLE)
        numbers = struct.unpack_from(f"{order}{2 * count}d", self._value, at)
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return ",".join(f"{_number(x)} {_number(y)}" for x, y in pairs), at + 16 * count

    def _rings(self, order: str, at: int, count: int) -> tuple[str, int]:
        rings = []
        for _ in range(count):
            (points,) = struct.unpack_from(order + "I", self._value, at)
            text, at = self._points(order, at + 4, points)
            rings.append(f"({text})")
        return ",".join(rings), at

    def _parts(self, at: int, count: int, kind: int, depth: int) -> tuple[str, int]:
        """Format members of a multi type without their own name: `MULTIPOINT((1 2),(3 4))`."""
        parts = []
        for _ in range(count):
            text, at = self.geometry(at, depth + 1)
            parts.append(text if kind == 7 else text[text.index("(") :] if "(" in text else text)
        return ",".join(parts), at


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
