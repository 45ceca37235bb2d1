"""Text to values without a server: the quick way and the exact way agree, and blocks may end anywhere."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_standins.starrocks import fields
from cdc_standins.starrocks.types import ColumnType, column_type

KINDS = [
    column_type(name, numbers)
    for name, numbers in (
        ("BOOLEAN", ()), ("TINYINT", ()), ("INT", ()), ("BIGINT", ()), ("LARGEINT", ()), ("FLOAT", ()), ("DOUBLE", ()),
        ("DECIMAL", (9, 3)), ("DECIMAL", (38, 0)), ("DECIMAL", (38, 38)),
        ("DATE", ()), ("DATETIME", ()), ("CHAR", (3,)), ("VARCHAR", (5,)),
        ("VARBINARY", ()), ("JSON", ()),
    )
]  # fmt: skip
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**20), max_value=10**20).map(str)
TIMES = st.datetimes().map(str)
TEXTS = st.one_of(st.integers().map(str), NUMBERS, TIMES, st.dates().map(str), st.text(max_size=8))
unhurried = settings(max_examples=60)
FIELDS = st.lists(st.one_of(st.none(), TEXTS.map(lambda text: text.encode("utf-8", "ignore"))), max_size=6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
@unhurried
@given(texts=FIELDS)
def test_many_fields_at_once_are_read_like_one_by_one(kind: ColumnType, texts: list[bytes | None]) -> None:
    together, wrong = fields.convert(texts, kind)
    each = [fields._one_by_one([text], kind) for text in texts]
    assert together.to_pylist() == [column[0].as_py() for column, _ in each]
    assert wrong.tolist() == [bool(flags[0]) for _, flags in each]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("DATE", b"20240229", dt.date(2024, 2, 29)),
        ("DATE", b"2024-02-29 10:00:00", dt.date(2024, 2, 29)),
        ("DATETIME", b"2024-02-29", dt.datetime(2024, 2, 29)),
        ("DATETIME", b"20240229101112", dt.datetime(2024, 2, 29, 10, 11, 12)),
        ("BOOLEAN", b"False", False),
        ("BOOLEAN", b"-0.5", True),
        ("DECIMAL", b"1.005", Decimal(1)),
        ("DECIMAL", b"-2.5", Decimal(-3)),
        ("DECIMAL", b"1e3", Decimal(1000)),
    ],
)
def test_spellings_that_are_accepted(name: str, text: bytes, value: object) -> None:
    column, wrong = fields.convert([text], column_type(name, (9, 0) if name == "DECIMAL" else ()))
    assert (column.to_pylist(), wrong.any()) == ([value], False)
