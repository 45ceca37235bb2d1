"""Geometry values as text."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from together import together

from connectors.shared.conversion.geometry import geometry_text
from connectors.shared.conversion.policy import RejectedValue

SRID_0 = struct.pack("<I", 0)


def wkb(kind: int, *parts: bytes, count: int | None = None) -> bytes:
    """A little-endian WKB value; points have no count."""
    body = b"".join(parts)
    number = b"" if kind == 1 else struct.pack("<I", len(parts) if count is None else count)
    return struct.pack("<BI", 1, kind) + number + body


def at(*numbers: float) -> bytes:
    """Coordinates."""
    return struct.pack(f"<{len(numbers)}d", *numbers)


def ring(*numbers: float) -> bytes:
    """A ring of a polygon."""
    return struct.pack("<I", len(numbers) // 2) + at(*numbers)


LINE = wkb(2, at(0, 0), at(1.5, -2))
SQUARE = wkb(3, ring(0, 0, 4, 0, 4, 4, 0, 0), ring(1, 1, 2, 1, 2, 2, 1, 1))


@together(
    "value, text",
    [
        (wkb(1, at(1, 2)), "POINT(1 2)"),
        (wkb(1, at(0.1, -1e300)), "POINT(0.1 -1e+300)"),
        (LINE, "LINESTRING(0 0,1.5 -2)"),
        (SQUARE, "POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))"),
        (wkb(4, wkb(1, at(1, 2)), wkb(1, at(3, 4))), "MULTIPOINT((1 2),(3 4))"),
        (wkb(5, LINE, LINE), "MULTILINESTRING((0 0,1.5 -2),(0 0,1.5 -2))"),
        (wkb(6, SQUARE), "MULTIPOLYGON(((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1)))"),
        (wkb(7), "GEOMETRYCOLLECTION EMPTY"),
        (wkb(7, wkb(1, at(1, 2)), wkb(7, LINE)),
         "GEOMETRYCOLLECTION(POINT(1 2),GEOMETRYCOLLECTION(LINESTRING(0 0,1.5 -2)))"),
    ],
)  # fmt: skip
def test_every_type_of_geometry(value: bytes, text: str) -> None:
    assert geometry_text(SRID_0 + value) == text


def test_the_reference_system_stands_before() -> None:
    assert geometry_text(struct.pack("<I", 4326) + wkb(1, at(13.4, 52.5))) == "SRID=4326;POINT(13.4 52.5)"


def test_big_endian_values_are_read_too() -> None:
    assert geometry_text(SRID_0 + struct.pack(">BI2d", 0, 1, 1, 2)) == "POINT(1 2)"


@together(
    "value",
    [b"", SRID_0, SRID_0 + wkb(8), SRID_0 + LINE[:-1], SRID_0 + LINE + b"x", SRID_0 + wkb(2, count=2**32 - 1)],
)
def test_bytes_that_are_no_geometry_are_a_rejected_value(value: bytes) -> None:
    with pytest.raises(RejectedValue):
        geometry_text(value)


def test_nesting_without_end_is_a_rejected_value() -> None:
    value = wkb(7)
    for _ in range(5000):
        value = wkb(7, value)
    with pytest.raises(RejectedValue):
        geometry_text(SRID_0 + value)


@given(st.binary(max_size=60))
def test_any_bytes_give_text_or_a_rejected_value(value: bytes) -> None:
    try:
        assert geometry_text(SRID_0 + value)
    except RejectedValue:
        return
