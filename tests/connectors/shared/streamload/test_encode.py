"""Load text read back by a strict reader is what was written: every type, every byte, NULL apart from its text."""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from load_text import read_columns, read_rows
from together import together
from trials import trials

from cdc.block import arrow_schema
from cdc.errors import SinkError
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from connectors.shared.conversion.convert import plain_text
from connectors.shared.conversion.plan import text_bytes
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable
from connectors.shared.streamload.dialect import DORIS, STARROCKS, StreamLoadDialect
from connectors.shared.streamload.encode import DelimitedEncoder

TABLE = TableId("shop", "t")
EPOCH = datetime.datetime(1970, 1, 1)
DIALECTS = pytest.mark.parametrize("dialect", [DORIS, STARROCKS], ids=["doris", "starrocks"])


def column_of(kind: str, target: str, name: str = "c", **more: Any) -> tuple[Column, TargetColumn]:
    """A source column, and a sink column from `DECIMAL(10, 2)` or `VARCHAR(9)`."""
    word, *numbers = re.findall(r"\w+", target)
    length, scale = (*map(int, numbers), None, None)[:2]
    return Column(name, DataType.parse(kind)), TargetColumn(name, TargetKind(word), length, scale, **more)


def written(
    columns: list[tuple[Column, TargetColumn]],
    rows: list[dict[str, Any]],
    *,
    dialect: StreamLoadDialect = DORIS,
    delete: list[int] | None = None,
    cut: int = 0,
    **target: Any,
) -> list[dict[str, bytes | None]]:
    """Encode rows from `cut` on, and read them back."""
    schema = TableSchema(tuple(source for source, _ in columns))
    table = TargetTable(TABLE, tuple(made for _, made in columns), **target)
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in arrow_schema(schema)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema)).slice(cut)
    flags = np.array(delete if delete is not None else [0] * len(rows), np.uint8)[cut:]
    encoder = DelimitedEncoder(schema, table, dialect).for_rows(batch)
    return read_rows(encoder.columns_header, bytes(encoder.encode(batch, flags)))


def text_of(kind: str, target: str, value: Any) -> bytes | None:
    """One value's text."""
    return written([column_of(kind, target)], [{"c": value}])[0]["c"]


def of_text(function: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """A reader of bytes from a reader of text."""
    return lambda data: function(data.decode())


def span(text: str) -> datetime.timedelta:
    """A signed span `[-]h:mm:ss[.f]`."""
    found = re.fullmatch(r"(-?)(\d{2,}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?", text)
    assert found, text
    sign, hours, minutes, seconds, fraction = found.groups()
    value = datetime.timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
    value += datetime.timedelta(microseconds=int((fraction or "0").ljust(6, "0")))
    return -value if sign else value


def moment(text: str) -> datetime.datetime:
    """A wall clock; nothing but `yyyy-mm-dd hh:mm:ss[.f]` is taken."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", text), text
    return datetime.datetime.fromisoformat(text)


def double(text: str) -> float:
    """A double, spelled with digits, point and exponent only."""
    assert re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text), text
    return float(text)


def single(text: str) -> float:
    """A 32-bit float."""
    return float(np.float32(double(text)))


def decimal(text: str) -> Decimal:
    """A decimal without exponent."""
    assert re.fullmatch(r"-?\d+(\.\d+)?", text), text
    return Decimal(text)


INTEGERS = {
    "TINYINT": (-128, 127), "SMALLINT": (-(2**15), 2**15 - 1), "INT": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1), "TINYINT UNSIGNED": (0, 255), "SMALLINT UNSIGNED": (0, 2**16 - 1),
    "INT UNSIGNED": (0, 2**32 - 1), "BIGINT UNSIGNED": (0, 2**64 - 1),
}  # fmt: skip
NASTY = st.sampled_from(["\\N", "", "\x01", "\x02", "\n", "\\", '"', "NULL", "\ufeff", "\x00", "'", "\r\n", "\t,|"])
CHARACTERS = NASTY | st.text(max_size=12) | st.text("\\N\x01\x02a", max_size=5)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SINGLES = st.floats(allow_nan=False, allow_infinity=False, width=32)
DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
MOMENTS = st.datetimes()
ALL_TYPES: list[tuple[str, str, st.SearchStrategy[Any], Callable[[bytes], Any]]] = [
    *((kind, "LARGEINT", st.integers(*ends), of_text(int)) for kind, ends in INTEGERS.items()),
    ("BOOLEAN", "BOOLEAN", st.booleans(), lambda data: {b"0": False, b"1": True}[data]),
    ("FLOAT", "FLOAT", SINGLES, of_text(single)),
    ("DOUBLE", "DOUBLE", FINITE, of_text(double)),
    ("DECIMAL(12, 2)", "DECIMAL(12, 2)", st.decimals("-9999999999.99", "9999999999.99", places=2), of_text(decimal)),
    ("DECIMAL(38, 0)", "DECIMAL(38, 0)", st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal), of_text(decimal)),
    (
        "DECIMAL(38, 38)", "DECIMAL(38, 38)",
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-38")), of_text(decimal),
    ),
    (
        "DECIMAL(38, 20)", "DECIMAL(38, 20)",
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-20")), of_text(decimal),
    ),
    ("DECIMAL(65, 30)", "STRING", st.just("-" + "9" * 35 + "." + "1" * 30), of_text(str)),
    ("DATE", "DATE", DAYS, of_text(datetime.date.fromisoformat)),
    ("TIMESTAMP(6)", "DATETIME(6)", MOMENTS, of_text(moment)),
    ("TIMESTAMP", "DATETIME", MOMENTS, of_text(moment)),
    ("TIMESTAMP(0)", "DATETIME(0)", MOMENTS.map(lambda value: value.replace(microsecond=0)), of_text(moment)),
    ("TIMESTAMP_LTZ(6)", "DATETIME(6)", MOMENTS, of_text(moment)),
    ("TIME(6)", "VARCHAR(17)", st.timedeltas(-datetime.timedelta(hours=839), datetime.timedelta(hours=839)),
     of_text(span)),
    ("CHAR(12)", "CHAR(48)", CHARACTERS, of_text(str)),
    ("VARCHAR(12)", "VARCHAR(48)", CHARACTERS, of_text(str)),
    ("STRING", "STRING", CHARACTERS, of_text(str)),
    ("VARCHAR(12)", "VARBINARY(48)", CHARACTERS, of_text(str)),
    ("JSON", "JSON", st.sampled_from(['{"a": "\\u0001"}', "null", '"\\\\N"', "[]"]), of_text(str)),
    ("VARBINARY(9)", "VARBINARY(9)", st.binary(max_size=9), bytes),
    ("BYTES", "STRING", st.binary(max_size=9), bytes),
    ("GEOMETRY", "VARBINARY(100)", st.binary(max_size=25), bytes),
    ("VECTOR(3)", "STRING", st.lists(SINGLES, max_size=3), lambda data: [single(x) for x in
     re.findall(r"[^\[\],]+", data.decode())]),
]  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[list[Any]]]:
    """Some of all types, and rows of values for them."""
    chosen = draw(st.lists(st.integers(0, len(ALL_TYPES) - 1), min_size=1, max_size=4))
    row = st.tuples(*(st.none() | ALL_TYPES[at][2] for at in chosen)).map(list)
    return chosen, draw(st.lists(row, max_size=9))


@settings(max_examples=trials(250), deadline=None)
@given(table=tables(), cut=st.integers(0, 2), dialect=st.sampled_from([DORIS, STARROCKS]))
@example(table=(list(range(len(ALL_TYPES))), [[None] * len(ALL_TYPES)]), cut=0, dialect=DORIS)
def test_every_value_of_every_type_comes_back(
    table: tuple[list[int], list[list[Any]]], cut: int, dialect: StreamLoadDialect
) -> None:
    chosen, values = table
    names = [f"c{at}" for at in range(len(chosen))]
    columns = [column_of(*ALL_TYPES[at][:2], name) for at, name in zip(chosen, names, strict=True)]
    rows = [dict(zip(names, row, strict=True)) for row in values]
    found = written(columns, rows, cut=cut, dialect=dialect)
    readers = dict(zip(names, (ALL_TYPES[at][3] for at in chosen), strict=True))
    for at, name in zip(chosen, names, strict=True):
        if ALL_TYPES[at][:2] == ("BYTES", "STRING") and dialect.limits.keeps_digits:
            readers[name] = of_text(bytes.fromhex)
    back = [{n: None if row[n] is None else readers[n](row[n] or b"") for n in names} for row in found]
    assert back == rows[cut:]


@DIALECTS
def test_null_its_text_and_nothing_are_three_values(dialect: StreamLoadDialect) -> None:
    rows = [{"c": None}, {"c": "\\N"}, {"c": ""}, {"c": "\\\\N"}]
    found = written([column_of("STRING", "STRING")], rows, dialect=dialect)
    assert [row["c"] for row in found] == [None, b"\\N", b"", b"\\\\N"]


@together(
    "kind, target, value, text",
    [
        ("BIGINT", "BIGINT", -(2**63), b"-9223372036854775808"),
        ("BIGINT UNSIGNED", "LARGEINT", 2**64 - 1, b"18446744073709551615"),
        ("BOOLEAN", "BOOLEAN", True, b"1"),
        ("DOUBLE", "DOUBLE", 0.1, b"0.1"),
        ("DOUBLE", "DOUBLE", -1.5e-300, b"-1.5e-300"),
        ("DOUBLE", "DOUBLE", 1e22, b"1e22"),
        ("DOUBLE", "DOUBLE", 5e-324, b"5e-324"),
        ("DOUBLE", "DOUBLE", 1500.0, b"1500"),
        ("DOUBLE", "DOUBLE", -0.0, b"-0"),
        ("FLOAT", "FLOAT", float(np.float32(0.1)), b"0.1"),
        ("FLOAT", "FLOAT", float(np.float32(3.4028235e38)), b"3.4028235e38"),
        ("FLOAT", "FLOAT", float(np.float32(1e-45)), b"1e-45"),
        ("FLOAT", "FLOAT", 16777216.0, b"16777216"),
        ("DECIMAL(5, 2)", "DECIMAL(5, 2)", Decimal("-0.05"), b"-0.05"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 0)", Decimal(-(10**38) + 1), b"-" + b"9" * 38),
        ("DATE", "DATE", datetime.date(2024, 2, 29), b"2024-02-29"),
        ("DATE", "DATE", datetime.date(1, 1, 1), b"0001-01-01"),
        ("TIMESTAMP(3)", "DATETIME(3)", EPOCH - datetime.timedelta(milliseconds=877), b"1969-12-31 23:59:59.123"),
        ("TIMESTAMP(0)", "DATETIME(6)", datetime.datetime(2026, 1, 2, 3, 4, 5), b"2026-01-02 03:04:05"),
        ("TIMESTAMP(6)", "DATETIME(2)", datetime.datetime(2026, 1, 2, 3, 4, 5, 670000), b"2026-01-02 03:04:05.67"),
        ("TIME(0)", "STRING", -datetime.timedelta(hours=838, minutes=59, seconds=59), b"-838:59:59"),
        ("TIME(1)", "STRING", datetime.timedelta(seconds=5, milliseconds=300), b"00:00:05.3"),
        ("VECTOR(2)", "STRING", [1.0, float(np.float32(0.1))], b"[1,0.1]"),
        ("VECTOR(2)", "STRING", [], b"[]"),
    ],
)  # fmt: skip
def test_the_spelling_of_values(kind: str, target: str, value: Any, text: bytes) -> None:
    assert text_of(kind, target, value) == text


def test_the_year_zero_and_the_last_microsecond() -> None:
    ends = [-719_528 * 86_400_000_000, 2_932_897 * 86_400_000_000 - 1]
    schema = TableSchema((Column("c", DataType.parse("TIMESTAMP(6)")),))
    batch = pa.RecordBatch.from_arrays([pa.array(ends, pa.timestamp("us"))], names=["c"])
    encoder = DelimitedEncoder(schema, TargetTable(TABLE, (column_of("INT", "DATETIME(6)")[1],)), DORIS)
    rows = read_rows(encoder.columns_header, bytes(encoder.encode(batch, np.zeros(2, np.uint8))))
    assert [row["c"] for row in rows] == [b"0000-01-01 00:00:00.000000", b"9999-12-31 23:59:59.999999"]


@settings(max_examples=trials(300), deadline=None)
@given(bits=st.integers(0, 2**32 - 1).filter(lambda n: (n >> 23) & 255 != 255))
def test_a_float_is_spelled_as_shortly_as_numpy_spells_it(bits: int) -> None:
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    text = text_of("FLOAT", "FLOAT", value)
    assert text is not None
    assert Decimal(text.decode()) == Decimal(np.format_float_scientific(np.float32(value), unique=True))


@settings(max_examples=trials(300), deadline=None)
@given(value=FINITE)
def test_a_double_is_spelled_as_shortly_as_python_spells_it(value: float) -> None:
    text = text_of("DOUBLE", "DOUBLE", value)
    assert text is not None
    assert Decimal(text.decode()).normalize() == Decimal(repr(value)).normalize()


@settings(max_examples=trials(200), deadline=None)
@given(data=st.data(), at=st.integers(0, len(ALL_TYPES) - 1))
def test_the_slow_way_spells_values_as_the_kernels_do(data: st.DataObject, at: int) -> None:
    kind, target, values, _ = ALL_TYPES[at]
    source = column_of(kind, target)[0]
    assume(source.type.kind not in (Kind.BINARY, Kind.VARBINARY, Kind.BYTES, Kind.GEOMETRY))
    value = data.draw(values, label=kind)
    text = text_of(kind, target, value)
    assert text is not None
    assert text == plain_text(value, source.type).encode()
    assert text_bytes(source.type) is None or len(text) <= (text_bytes(source.type) or 0)


KEYED = [
    column_of("INT", "INT", "id", nullable=False, is_key=True),
    column_of("STRING", "STRING", "note"),
    column_of("STRING", "VARCHAR(9)", "name", nullable=False),
    column_of("DATE", "DATE", "day", nullable=False),
    column_of("TIMESTAMP(0)", "DATETIME(0)", "at", nullable=False),
    column_of("DECIMAL(9, 1)", "DECIMAL(9, 1)", "price", nullable=False),
    column_of("JSON", "JSON", "attrs", nullable=False),
    column_of("BYTES", "VARBINARY(9)", "body", nullable=False),
    column_of("INT", "INT", "version", nullable=False),
]
FULL = {
    "id": 7, "note": "n", "name": "x", "day": datetime.date(2026, 1, 1), "at": datetime.datetime(2026, 1, 1),
    "price": Decimal("1.5"), "attrs": "[1]", "body": b"b", "version": 3,
}  # fmt: skip


@pytest.mark.parametrize("row", [FULL, {"id": 7, "version": 3}], ids=["whole before image", "key only"])
def test_a_delete_carries_its_key_and_readable_fillers(row: dict[str, Any]) -> None:
    found = written(KEYED, [row], delete=[1], keys=("id",), kept_in_deletes=("version",))
    assert found == [
        {
            "__DORIS_DELETE_SIGN__": b"1", "id": b"7", "note": None, "name": b"", "day": b"1970-01-01",
            "at": b"1970-01-01 00:00:00", "price": b"0", "attrs": b"{}", "body": b"", "version": b"3",
        }
    ]  # fmt: skip


def test_upserts_and_deletes_stay_in_order() -> None:
    rows = [{"c": number} for number in range(5)]
    found = written([column_of("INT", "INT", nullable=False, is_key=True)], rows, delete=[0, 1, 0, 1, 1], keys=("c",))
    assert [(row["__DORIS_DELETE_SIGN__"], row["c"]) for row in found] == [
        (b"0", b"0"), (b"1", b"1"), (b"0", b"2"), (b"1", b"3"), (b"1", b"4"),
    ]  # fmt: skip


def test_the_header_of_each_server() -> None:
    columns = [
        column_of("INT", "INT", "id"),
        column_of("BYTES", "VARBINARY(9)", "b"),
        column_of("BYTES", "STRING", "s"),
    ]
    schema = TableSchema(tuple(source for source, _ in columns))
    target = TargetTable(TABLE, tuple(made for _, made in columns), ("id",))
    assert DelimitedEncoder(schema, target, DORIS).columns_header == (
        "`__DORIS_DELETE_SIGN__`,`id`,`cdc_hex_1`,`s`,`b`=to_binary(`cdc_hex_1`)"
    )
    assert DelimitedEncoder(schema, target, STARROCKS).columns_header == (
        "`__op`,`id`,`cdc_hex_1`,`s`,`b`=to_binary(`cdc_hex_1`, 'hex')"
    )


def test_a_table_that_keeps_every_row_has_a_mark_instead_of_a_delete_sign() -> None:
    found = written([column_of("STRING", "STRING", "cdc_row")], [{"cdc_row": ""}], upserts=False)
    assert found == [{"cdc_row_": b"0", "cdc_row": b""}]


def test_columns_follow_the_source_and_names_the_sink() -> None:
    columns = [column_of("INT", "INT", "b"), column_of("INT", "INT", "A`a")]
    schema = TableSchema((columns[0][0], Column("a`A", DataType.parse("INT"))))
    target = TargetTable(TABLE, (columns[1][1], columns[0][1], column_of("INT", "INT", "c")[1]))
    assert read_columns(DelimitedEncoder(schema, target, DORIS).columns_header).fields[1:] == ("b", "A`a")


def test_a_column_that_the_sink_lacks_is_an_error() -> None:
    with pytest.raises(SinkError, match=r"shop\.t: the sink's table has no column x"):
        DelimitedEncoder(TableSchema((Column("x", DataType.parse("INT")),)), TargetTable(TABLE, ()), DORIS)


def strings(*values: str | None) -> pa.RecordBatch:
    """Rows of one text column."""
    return pa.RecordBatch.from_arrays([pa.array(values, pa.string())], names=["c"])


def text_encoder(dialect: StreamLoadDialect = DORIS, target: str = "STRING") -> DelimitedEncoder:
    """For one text column."""
    source, made = column_of("STRING", target)
    return DelimitedEncoder(TableSchema((source,)), TargetTable(TABLE, (made,)), dialect)


def test_a_load_goes_on_until_a_value_needs_hex_digits() -> None:
    plain = text_encoder()
    assert plain.for_rows(strings("a", None, "\n\t\\")) is plain
    other = plain.for_rows(strings("a", "b\x01"))
    assert other is not plain
    assert other.hex_columns == {"c"}
    assert other.columns_header != plain.columns_header
    assert other.for_rows(strings("quite plain")) is other


def test_rows_that_need_another_encoder_are_never_written() -> None:
    with pytest.raises(ValueError, match="for_rows"):
        text_encoder().encode(strings("\x02"), np.zeros(1, np.uint8))


@together("value", ["\\N", "a\x00", "\x01", "\x02"])
def test_only_the_rows_asked_about_count(value: str) -> None:
    batch = strings("a", value, "b")
    plain = text_encoder()
    assert plain.for_rows(batch) is not plain
    assert plain.for_rows(batch.slice(2)) is plain
    assert plain.for_rows(batch.slice(0, 1)) is plain


def test_a_long_value_in_a_column_of_hex_digits_begins_a_load_without_them() -> None:
    begun = text_encoder(STARROCKS).for_rows(strings("\x01"))
    long = strings("a" * 600_000)
    assert begun.hex_columns == {"c"}
    other = begun.for_rows(long)
    assert other.hex_columns == frozenset()
    assert other.for_rows(long) is other
    assert text_encoder(DORIS).for_rows(strings("\x01")).for_rows(long).hex_columns == {"c"}


def test_no_rows_are_no_text() -> None:
    assert written(KEYED, [], keys=("id",)) == []
