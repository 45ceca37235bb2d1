"""Text to values of each type in both stand-ins: whole columns and single rows give the same, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from together import together

from cdc_standins.doris.types import parse_type
from cdc_standins.load_values import Kind, convert
from cdc_standins.sql_server import SqlError
from cdc_standins.sql_text import Parser, Unparsable
from cdc_standins.starrocks.types import column_type

MOMENT = dt.datetime(2024, 2, 29, 13, 14, 15)
WRONG = object()
CASES: list[tuple[str, str, Any]] = [
    ("TINYINT", "-128", -128),
    ("TINYINT", "128", WRONG),
    ("INT", "1.0", WRONG),
    ("INT", "", WRONG),
    ("INT", "0x10", WRONG),
    ("BIGINT", "9223372036854775807", 2**63 - 1),
    ("BIGINT", "9223372036854775808", WRONG),
    ("LARGEINT", str(2**127 - 1), str(2**127 - 1)),
    ("LARGEINT", str(2**127), WRONG),
    ("BOOLEAN", "TRUE", True),
    ("BOOLEAN", "0", False),
    ("BOOLEAN", "2", WRONG),
    ("DOUBLE", "1e308", 1e308),
    ("DOUBLE", "-4.9e-324", -5e-324),
    ("DOUBLE", "1e309", WRONG),
    ("FLOAT", "1e39", WRONG),
    ("DOUBLE", "one", WRONG),
    ("DECIMAL(5, 2)", "-123.45", Decimal("-123.45")),
    ("DECIMAL(5, 2)", "1.005", WRONG),
    ("DECIMAL(5, 2)", "1000", WRONG),
    ("DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
    ("DECIMAL(38, 38)", "-0." + "9" * 38, Decimal("-0." + "9" * 38)),
    ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
    ("DATE", "20240229", WRONG),
    ("DATE", "2023-02-29", WRONG),
    ("DATE", "0000-00-00", WRONG),
    ("DATETIME", "2024-02-29 13:14:15", MOMENT),
    ("DATETIME", "2024-02-29", dt.datetime(2024, 2, 29)),
    ("DATETIME", "2024-02-30 00:00:00", WRONG),
    ("DATETIME", "2024-02-29 24:00:00", WRONG),
    ("DATETIME", "2024-02-29 15:14:15+02:00", WRONG),
    ("VARCHAR(3)", "aé", "aé"),
    ("VARCHAR(3)", "éé", WRONG),
    ("VARCHAR(3)", "", ""),
    ("JSON", '{"b":1,"a":[1,2.5,null,"é"]}', '{"b":1,"a":[1,2.5,null,"é"]}'),
    ("JSON", "{", WRONG),
    ("JSON", "NaN", WRONG),
]


def doris(text: str) -> Kind:
    return parse_type(Parser(text)).loaded


def starrocks(text: str) -> Kind:
    word, _, numbers = text.rstrip(")").partition("(")
    return column_type(word, tuple(int(number) for number in numbers.split(",") if number)).loaded


@pytest.mark.parametrize("kind_of", [doris, starrocks])
def test_a_field_is_this_value_or_none_alone_and_among_others(kind_of: Any) -> None:
    for kind, text, expected in CASES:
        column, wrong = convert([text.encode()], kind_of(kind))
        assert ([WRONG] if wrong else column.to_pylist()) == [expected], (kind, text)
    for kind in dict.fromkeys(kind for kind, _, _ in CASES):
        cases = [(text, value) for of, text, value in CASES if of == kind]
        column, wrong = convert([None, *(text.encode() for text, _ in cases)], kind_of(kind))
        assert column.to_pylist() == [None, *(None if value is WRONG else value for _, value in cases)]
        assert wrong == [row for row, (_, value) in enumerate(cases, 1) if value is WRONG]
        assert column.type == kind_of(kind).arrow


def test_where_the_servers_differ() -> None:
    fraction = [b"2024-02-29 13:14:15.5"]
    assert convert(fraction, doris("DATETIME"))[1] == [0]
    assert convert(fraction, doris("DATETIME(1)"))[0].to_pylist() == [MOMENT + dt.timedelta(microseconds=500_000)]
    assert convert(fraction, starrocks("DATETIME"))[1] == []
    spaced = [b'{"a": [1, null]}']
    assert convert(spaced, doris("JSON"))[0].to_pylist() == ['{"a":[1,null]}']
    assert convert(spaced, starrocks("JSON"))[0].to_pylist() == ['{"a": [1, null]}']
    long = [b"x" * 1048577]
    assert (convert(long, doris("STRING"))[1], convert(long, starrocks("VARBINARY"))[1]) == ([0], [0])
    assert convert([b"\xff"], doris("VARCHAR(3)"))[1] == [0]


@together(
    "text, shown",
    [("bigint(20)", "bigint"), ("datetimev2(3)", "datetime(3)"), ("decimalv3(10,2)", "decimal(10,2)"), ("text", "text"),
     ("decimal", "decimal(38,9)"), ("jsonb", "json"), ("bool", "boolean")],
)  # fmt: skip
def test_spellings_of_types_in_doris(text: str, shown: str) -> None:
    assert str(parse_type(Parser(text))) == shown


@together("text", ["enum", "set", "blob", "mediumint", "time", "year", "int unsigned", "array<int>"])
def test_types_that_doris_lacks(text: str) -> None:
    parser = Parser(text)
    with pytest.raises(Unparsable):  # noqa: PT012 - either call may say so
        parse_type(parser)
        parser.end()


@together("text", ["decimal(39)", "decimal(5, 6)", "char(256)", "varchar(0)", "datetime(7)"])
def test_types_beyond_the_limits_of_doris(text: str) -> None:
    with pytest.raises(SqlError):
        parse_type(Parser(text))
