"""Messages in Avro: the kernel's JSON of every type, and what becomes of bytes that are none."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from avro_values import body, framed
from hypothesis import given
from hypothesis import strategies as st
from together import together

from connectors.kafka.avro.schemas import program
from connectors.kafka.avro.unwrapper import WrittenTexts
from connectors.kafka.formats import connect
from connectors.kafka.formats.scan import Texts

POINT = {
    "type": "record", "name": "Point", "namespace": "io.debezium.data.geometry",
    "fields": [{"name": "x", "type": "double"}, {"name": "wkb", "type": ["null", "bytes"]}],
}  # fmt: skip
ALL = {
    "type": "record", "name": "Value", "namespace": "a.b",
    "fields": [
        {"name": "n", "type": "null"},
        {"name": "yes", "type": "boolean"},
        {"name": "i", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}},
        {"name": "l", "type": ["null", "long"], "default": None},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "b", "type": "bytes"},
        {"name": "Ünï", "type": "string"},
        {"name": "x", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "e", "type": {"type": "enum", "name": "Kind", "symbols": ["ONE", "TWO"]}},
        {"name": "xs", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "m", "type": {"type": "map", "values": "Four"}},
        {"name": "p", "type": ["null", POINT]},
        {"name": "q", "type": ["null", "io.debezium.data.geometry.Point"]},
        {"name": "next", "type": ["null", "Value"]},
    ],
}  # fmt: skip


def value(**more: Any) -> dict[str, Any]:
    given = {
        "n": None, "yes": True, "i": -20000, "l": (0, None), "f": 0.1, "d": 1e-300, "b": b"\x00\xff",
        "Ünï": 'a"\n\\é€😀', "x": b"abcd", "e": "TWO", "xs": [(0, None), (1, -5)], "m": {"k\t": b"\0\0\0\1"},
        "p": (1, {"x": 2.5, "wkb": (0, None)}), "q": (0, None), "next": (0, None),
    }  # fmt: skip
    return {**given, **more}


def texts(schema: Any, *bodies: bytes, rows: int = 1) -> list[Any]:
    """What bodies are as JSON; None for what cannot be read."""
    messages = Texts.of([framed(1, "null", None) + each for each in bodies])
    written = WrittenTexts(8, len(bodies))
    bad = written.add(program(json.dumps(schema), rows=rows), messages, np.arange(len(bodies)))
    found = written.texts([])
    return [None if row in bad else json.loads(found.bytes_of(row)) for row in range(len(bodies))]


def test_every_type_is_the_json_that_connects_converter_would_write() -> None:
    inner = value(l=(1, 2**63 - 1), f=math.nan, d=-math.inf, q=(1, {"x": -0.0, "wkb": (1, b"\1")}), xs=[], m={})
    outer, deep = texts(ALL, body(ALL, value()), body(ALL, value(next=(1, inner))))
    # Of the row itself members that are NULL are left out, deeper ones are written.
    assert outer == {
        "yes": True, "i": -20000, "f": 0.1, "d": 1e-300, "b": "AP8=", "Ünï": 'a"\n\\é€😀', "x": "YWJjZA==", "e": "TWO",
        "xs": [None, -5], "m": {"k\t": "AAAAAQ=="}, "p": {"x": 2.5, "wkb": None},
    }  # fmt: skip
    assert deep["next"]["l"] == 2**63 - 1
    assert (deep["next"]["f"], deep["next"]["d"]) == ("NaN", "-Infinity")
    assert deep["next"]["q"] == {"x": 0.0, "wkb": "AQ=="}
    assert deep["next"]["next"] is None
    assert (deep["next"]["xs"], deep["next"]["m"]) == ([], {})


def test_bytes_that_are_none_of_the_schema_are_refused_wherever_they_end() -> None:
    whole = body(ALL, value())
    found = texts(ALL, *(whole[:size] for size in range(len(whole))), whole + b"\0", whole)
    assert found[:-1] == [None] * (len(whole) + 1)
    assert found[-1] is not None


@given(st.lists(st.binary(max_size=60), max_size=20))
def test_any_bytes_are_refused_or_read(bodies: list[bytes]) -> None:
    assert len(texts(ALL, *bodies)) == len(bodies)


def test_a_type_inside_of_itself_has_an_end() -> None:
    chain = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}
    assert texts(chain, b"\2" * 20 + b"\0", b"\2" * 10_000 + b"\0")[1] is None


def test_lists_in_blocks_with_their_size_are_read_and_endless_ones_are_not() -> None:
    numbers = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
    blocks = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"  # two items in 2 bytes, then one, then the end
    assert texts(numbers, blocks, b"\xfe\xff\xff\xff\x0f\x02") == [{"a": [1, 2, 3]}, None]


def test_long_texts_get_the_room_that_they_need() -> None:
    text = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "bytes"}]}
    rows = [{"a": "\1" * size, "b": b"\xff" * size} for size in (1, 300_000, 7)]
    assert [len(row["a"]) for row in texts(text, *(body(text, row) for row in rows))] == [1, 300_000, 7]


@together(
    "written, expected",
    [
        ({"type": "int", "connect.type": "int16"}, "SMALLINT"),
        ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, "TIMESTAMP(6)"),
        ({"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}, "TIMESTAMP_LTZ(6)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, "DECIMAL(10, 2)"),
        (
            {
                "type": "bytes", "connect.name": "org.apache.kafka.connect.data.Decimal", "scale": 4,
                "connect.parameters": {"scale": "4", "connect.decimal.precision": "12"},
            },
            "DECIMAL(12, 4)",
        ),
        ({"type": "int", "logicalType": "date"}, "DATE"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP(6)"),
        ({"type": "int", "logicalType": "time-millis"}, "TIME(3)"),
        ({"type": "string", "logicalType": "uuid"}, "STRING"),
        (
            {
                "type": "int", "connect.type": "int16",
                "connect.parameters": {"__debezium.source.column.type": "SMALLINT UNSIGNED"},
            },
            "SMALLINT UNSIGNED",
        ),
        ({"type": "fixed", "name": "F", "size": 3}, "BYTES"),
        ({"type": "map", "values": "string"}, "JSON"),
        (["null", POINT], "GEOMETRY"),
    ],
)  # fmt: skip
def test_types_are_those_of_connects_schema(written: Any, expected: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": written}]}
    (found,) = connect.fields_of(program(json.dumps(schema)).connect)
    assert str(found.type) == expected


@together(
    "schema",
    [
        '{"type": "fixed", "name": "F", "size": 36893488147419103232}',
        '"int',
        '{"type": "record"}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "B"}]}',
    ],
)
def test_what_is_no_schema_is_said(schema: str) -> None:
    with pytest.raises(ValueError):
        program(schema)
