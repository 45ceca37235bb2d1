"""The stand-ins' readers, written from the servers' source, see the same rows as the strict reader of these tests."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from load_text import read_rows

from cdc.block import arrow_schema
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc_standins.doris import headers as doris_headers
from cdc_standins.doris.types import DorisType
from cdc_standins.expressions import parse_columns
from cdc_standins.load_text import TextFormat, TextReader
from cdc_standins.load_values import convert
from cdc_standins.starrocks import headers as starrocks_headers
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable
from connectors.shared.streamload.dialect import DORIS, STARROCKS, StreamLoadDialect
from connectors.shared.streamload.encode import DelimitedEncoder

COLUMNS = (
    ("id", "INT", TargetColumn("id", TargetKind.INT, nullable=False, is_key=True)),
    ("text", "STRING", TargetColumn("text", TargetKind.STRING)),
    ("plain", "VARCHAR(9)", TargetColumn("plain", TargetKind.VARCHAR, 36)),
    ("body", "BYTES", TargetColumn("body", TargetKind.VARBINARY, 300)),
    ("price", "DECIMAL(38, 10)", TargetColumn("price", TargetKind.DECIMAL, 38, 10)),
    ("at", "TIMESTAMP(6)", TargetColumn("at", TargetKind.DATETIME, 6)),
    ("day", "DATE", TargetColumn("day", TargetKind.DATE)),
    ("weight", "DOUBLE", TargetColumn("weight", TargetKind.DOUBLE)),
    ("paid", "BOOLEAN", TargetColumn("paid", TargetKind.BOOLEAN)),
    ("big", "BIGINT UNSIGNED", TargetColumn("big", TargetKind.LARGEINT)),
)
ROWS: list[dict[str, Any]] = [
    {"id": 1},
    {
        "id": 2, "text": "\ufeff\\N", "plain": "\n\r\n\t\\'\"", "body": bytes(range(256)),
        "price": Decimal("-0.0000000001"),
        "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        "day": datetime.date(9999, 12, 31), "weight": -5e-324,
        "paid": True, "big": 2**64 - 1,
    },
    {
        "id": 3, "text": "\\N", "plain": "", "body": b"", "price": Decimal("9" * 28), "day": datetime.date(1, 1, 1),
        "at": datetime.datetime(9999, 12, 31), "weight": 1.7976931348623157e308, "paid": False, "big": 0,
    },
    {"id": 4, "text": "", "plain": "größe 😀", "weight": 0.1, "at": datetime.datetime(2026, 2, 28, 12, 30, 15, 250)},
    {"id": 5, "text": "a\x01b\x02c\x00", "plain": "\\\\N", "body": b"\\N", "weight": 1e22},
]  # fmt: skip


def encoded(dialect: StreamLoadDialect) -> tuple[str, bytes]:
    """The `columns` header and the text of all rows."""
    schema = TableSchema(tuple(Column(name, DataType.parse(kind)) for name, kind, _ in COLUMNS), ("id",))
    arrow = arrow_schema(schema)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row.get(field.name) for row in ROWS], field.type) for field in arrow], schema=arrow
    )
    target = TargetTable(TableId("shop", "t"), tuple(made for _, _, made in COLUMNS), ("id",))
    encoder = DelimitedEncoder(schema, target, dialect).for_rows(batch)
    return encoder.columns_header, bytes(encoder.encode(batch, np.array([0, 0, 1, 0, 0], np.uint8)))


def seen_by_doris(headers: Mapping[str, str], columns: str, text: bytes) -> dict[str, list[bytes | None]]:
    """Fields by column name, expressions carried out."""
    return _seen(doris_headers.text_format(headers), columns, text)


def seen_by_starrocks(headers: Mapping[str, str], columns: str, text: bytes) -> dict[str, list[bytes | None]]:
    """Fields by column name, expressions carried out."""
    given = starrocks_headers.read_headers({**headers, "strict_mode": "true"})
    return _seen(starrocks_headers.text_format(given), columns, text)


def _seen(form: TextFormat, columns: str, text: bytes) -> dict[str, list[bytes | None]]:
    items = parse_columns(columns)
    names = [item.name for item in items if item.expression is None]
    reader = TextReader(form, len(names))
    half = len(text) // 2
    windows = [*reader.feed(text[:half]), *reader.feed(text[half:]), *reader.finish()]
    assert [window.rejected for window in windows] == [[]]
    fields = {name.lower(): list(found) for name, found in zip(names, windows[0].columns, strict=True)}
    rows = len(windows[0].rows)
    made = {i.name: list(i.expression.evaluate(fields, rows)) for i in items if i.expression is not None}
    return {**{name: fields[name.lower()] for name in names}, **made}


@pytest.mark.parametrize(("dialect", "seen"), [(DORIS, seen_by_doris), (STARROCKS, seen_by_starrocks)])
def test_a_stand_in_reads_what_was_written(dialect: StreamLoadDialect, seen: Any) -> None:
    columns, text = encoded(dialect)
    found = seen(dialect.headers, columns, text)
    expected = read_rows(columns, text)
    assert {name: found[name] for name in expected[0]} == {
        name: [row[name] for row in expected] for name in expected[0]
    }
    assert found[dialect.delete_sign] == [b"0", b"0", b"1", b"0", b"0"]
    assert found["text"] == [None, "\ufeff\\N".encode(), None, b"", b"a\x01b\x02c\x00"]
    assert found["body"] == [None, bytes(range(256)), None, None, b"\\N"]


def test_doris_takes_every_value_in_strict_mode() -> None:
    columns, text = encoded(DORIS)
    found = seen_by_doris(DORIS.headers, columns, text)
    for name, _, made in COLUMNS:
        scale = made.length if made.kind is TargetKind.DATETIME else made.scale
        values, wrong = convert(found[name], DorisType(made.kind.value, made.length or 0, scale or 0).loaded)
        assert wrong == [], name
        assert values.null_count == found[name].count(None)
