"""Text to values of each type: the quick way and the one-by-one way give the same, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from cdc_standins.doris.types import DorisType, parse_type
from cdc_standins.doris.values import TooLong, convert
from cdc_standins.load_text import Field
from cdc_standins.sql_server import SqlError
from cdc_standins.sql_text import Parser, Unparsable

MOMENT = dt.datetime(2024, 2, 29, 13, 14, 15)


def value(text: str, kind: str) -> Any:
    """The value, or the class of the error."""
    column, wrong = convert([text.encode()], parse_type(Parser(kind)))
    return type(wrong[0]).__name__ if wrong else column.to_pylist()[0]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("TINYINT", "-128", -128),
        ("TINYINT", "128", "Invalid"),
        ("INT", "007", 7),
        ("INT", "1.0", "Invalid"),
        ("INT", "", "Invalid"),
        ("INT", "0x10", "Invalid"),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", "9223372036854775808", "Invalid"),
        ("LARGEINT", str(2**127 - 1), str(2**127 - 1)),
        ("LARGEINT", str(2**127), "Invalid"),
        ("BOOLEAN", "TRUE", True),
        ("BOOLEAN", "0", False),
        ("BOOLEAN", "2", "Invalid"),
        ("DOUBLE", "1e308", 1e308),
        ("DOUBLE", "1e309", "Invalid"),
        ("FLOAT", "1e39", "Invalid"),
        ("DOUBLE", "one", "Invalid"),
        ("DECIMAL(5, 2)", "123.45", Decimal("123.45")),
        ("DECIMAL(5, 2)", "1.005", Decimal("1.01")),
        ("DECIMAL(5, 2)", "-1.005", Decimal("-1.01")),
        ("DECIMAL(5, 2)", "1e2", Decimal("100.00")),
        ("DECIMAL(5, 2)", "999.995", "Invalid"),
        ("DECIMAL(5, 2)", "1000", "Invalid"),
        ("DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("DATE", "20240229", dt.date(2024, 2, 29)),
        ("DATE", "2023-02-29", "Invalid"),
        ("DATE", "0000-00-00", "Invalid"),
        ("DATETIME", "2024-02-29 13:14:15", MOMENT),
        ("DATETIME", "2024-02-29T13:14:15.5", MOMENT + dt.timedelta(seconds=1)),
        ("DATETIME(3)", "2024-02-29 13:14:15.1235", MOMENT + dt.timedelta(milliseconds=124)),
        ("DATETIME(6)", "2024-02-29 13:14:15.000001", MOMENT + dt.timedelta(microseconds=1)),
        ("DATETIME", "9999-12-31 23:59:59.9", "Invalid"),
        ("DATETIME", "2024-02-30 00:00:00", "Invalid"),
        ("DATETIME", "2024-02-29 24:00:00", "Invalid"),
        ("DATETIME", "2024-02-29 15:14:15+02:00", MOMENT),
        ("VARCHAR(3)", "abc", "abc"),
        ("VARCHAR(3)", "aé", "aé"),
        ("VARCHAR(3)", "éé", "TooLong"),
        ("CHAR(2)", "", ""),
        ("STRING", "x" * 1048577, "TooLong"),
        ("JSON", '{"b": 1, "a": [1, 2.50, null, "\\u00e9"]}', '{"b":1,"a":[1,2.5,null,"é"]}'),
        ("JSON", "{", "Invalid"),
        ("JSON", "NaN", "Invalid"),
    ],
)
def test_strict(kind: str, text: str, expected: Any) -> None:
    assert value(text, kind) == expected


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("BIGINT", ["1", "-5", "123456789012345678"]),
        ("DECIMAL(20, 4)", ["1", "-2.5", "1234567890123456.7891"]),
        ("DATE", ["0001-01-01", "9999-12-31", "1970-01-01"]),
        ("DATETIME(6)", ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.5"]),
        ("DATETIME", ["2024-01-01 00:00:00", "1900-01-01 01:02:03"]),
        ("DOUBLE", ["1.5", "-1e-300", "3"]),
        ("VARCHAR(10)", ["", "é", "0123456789"]),
    ],
)
def test_a_whole_column_at_once_is_the_same_as_one_by_one(kind: str, texts: list[str]) -> None:
    parsed = parse_type(Parser(kind))
    fields: list[Field] = [text.encode() for text in texts] + [None]
    column, wrong = convert(fields, parsed)
    assert wrong == {}
    assert column.type == parsed.arrow
    odd = (
        b"2024-01-01 00:00:00+00:00" if "DAT" in kind else b" 1 " if parsed.kind not in ("VARCHAR", "DECIMAL") else b"1"
    )
    slow = [convert([field, odd], parsed)[0].to_pylist()[0] for field in fields]
    assert column.to_pylist() == slow


def test_what_is_wrong_is_known_by_its_row() -> None:
    column, wrong = convert([b"1", b"x", None, b"3"], DorisType("INT"))
    assert (column.to_pylist(), list(wrong)) == ([1, None, None, 3], [1])
    _, too_long = convert([b"ab"], DorisType("VARCHAR", 1))
    assert isinstance(too_long[0], TooLong)
    assert too_long[0].length == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [("bigint(20)", "bigint"), ("datetimev2(3)", "datetime(3)"), ("decimalv3(10,2)", "decimal(10,2)"), ("text", "text"),
     ("varchar(*)", "varchar(65533)"), ("decimal", "decimal(38,9)"), ("jsonb", "json"), ("bool", "boolean")],
)  # fmt: skip
def test_spellings_of_types(text: str, shown: str) -> None:
    assert str(parse_type(Parser(text))) == shown


@pytest.mark.parametrize("text", ["enum", "set", "blob", "mediumint", "time", "year", "int unsigned", "array<int>"])
def test_types_that_doris_lacks(text: str) -> None:
    parser = Parser(text)
    with pytest.raises(Unparsable):  # noqa: PT012 - either call may say so
        parse_type(parser)
        parser.end()


@pytest.mark.parametrize("text", ["decimal(39)", "decimal(5, 6)", "char(256)", "varchar(0)", "datetime(7)"])
def test_types_beyond_their_limits(text: str) -> None:
    with pytest.raises(SqlError):
        parse_type(Parser(text))
