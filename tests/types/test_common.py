"""The widening lattice: every pair of types, and values on their way to the wider one."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from together import together

from cdc.schema import DataType, Kind
from cdc.types.casts import cast_for
from cdc.types.common import common_type
from connectors.kafka.formats.widen import adapted, widened

ALL = [
    DataType.parse(text)
    for text in (
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "TINYINT UNSIGNED", "SMALLINT UNSIGNED", "INT UNSIGNED",
        "BIGINT UNSIGNED", "DECIMAL(10, 2)", "DECIMAL(5, 4)", "DECIMAL(65, 30)", "FLOAT", "DOUBLE", "CHAR(3)",
        "CHAR(9)", "VARCHAR(5)", "VARCHAR(40)", "STRING", "JSON", "BINARY(4)", "VARBINARY(9)", "BYTES", "DATE",
        "TIME(0)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "GEOMETRY", "VECTOR(3)", "VECTOR(4)",
    )
]  # fmt: skip


@together(
    "left, right, wide",
    [
        ("TINYINT", "SMALLINT", "SMALLINT"),
        ("INT", "BIGINT", "BIGINT"),
        ("INT UNSIGNED", "INT", "BIGINT"),
        ("TINYINT UNSIGNED", "SMALLINT UNSIGNED", "SMALLINT UNSIGNED"),
        ("BIGINT UNSIGNED", "TINYINT", "DECIMAL(20, 0)"),
        ("TINYINT", "DECIMAL(4, 2)", "DECIMAL(5, 2)"),
        ("BIGINT", "DECIMAL(10, 2)", "DECIMAL(21, 2)"),
        ("INT", "DECIMAL(20, 2)", "DECIMAL(20, 2)"),
        ("DECIMAL(10, 2)", "DECIMAL(5, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 18)", "DECIMAL(56, 18)"),
        ("DECIMAL(65, 0)", "DECIMAL(30, 30)", "STRING"),
        ("SMALLINT", "FLOAT", "FLOAT"),
        ("INT", "FLOAT", "DOUBLE"),
        ("BIGINT", "DOUBLE", "DOUBLE"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("DECIMAL(10, 2)", "DOUBLE", "STRING"),
        ("DECIMAL(10, 2)", "FLOAT", "STRING"),
        ("VARCHAR(5)", "VARCHAR(40)", "VARCHAR(40)"),
        ("CHAR(9)", "VARCHAR(5)", "VARCHAR(9)"),
        ("CHAR(9)", "CHAR(5)", "CHAR(9)"),
        ("VARCHAR(5)", "STRING", "STRING"),
        ("JSON", "VARCHAR(5)", "STRING"),
        ("INT", "VARCHAR(5)", "STRING"),
        ("BINARY(4)", "VARBINARY(2)", "VARBINARY(4)"),
        ("BINARY(4)", "BINARY(2)", "VARBINARY(4)"),
        ("BINARY(4)", "BYTES", "BYTES"),
        ("BYTES", "STRING", "STRING"),
        ("BOOLEAN", "INT", "STRING"),
        ("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(3)"),
        ("TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"),
        ("DATE", "TIMESTAMP(0)", "TIMESTAMP(6)"),
        ("DATE", "TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(6)"),
        ("TIME(0)", "TIME(3)", "TIME(3)"),
        ("TIME(0)", "TIMESTAMP(0)", "STRING"),
        ("VECTOR(3)", "VECTOR(4)", "VECTOR"),
    ],
)
def test_the_type_that_holds_both(left: str, right: str, wide: str) -> None:
    assert str(common_type(DataType.parse(left), DataType.parse(right))) == wide


def test_a_time_has_at_most_six_digits_and_six_by_default() -> None:
    assert [str(DataType.parse(text)) for text in ("TIME", "TIMESTAMP(9)")] == ["TIME(6)", "TIMESTAMP(6)"]
    with pytest.raises(ValueError, match="without its fractional digits"):
        DataType(Kind.TIMESTAMP_LTZ)


def test_the_order_of_two_types_makes_no_difference() -> None:
    for left, right in product(ALL, ALL):
        assert common_type(left, right) == common_type(right, left), (left, right)


def test_a_type_that_holds_both_is_not_widened_by_either() -> None:
    for left, right in product(ALL, ALL):
        wide = common_type(left, right)
        assert common_type(wide, common_type(wide, left)) == common_type(wide, left) == common_type(left, wide)
        if wide.kind not in (left.kind, right.kind):
            continue
        assert common_type(wide, left) == wide == common_type(wide, right), (left, right, wide)


def test_an_instant_and_a_wall_clock_of_messages_are_text_as_nothing_tells_the_zone() -> None:
    assert str(widened(DataType.parse("TIMESTAMP(6)"), DataType.parse("TIMESTAMP_LTZ(3)"))) == "STRING"


def test_values_of_messages_become_the_text_that_the_sink_makes_of_those_before() -> None:
    text = DataType.parse("STRING")
    for values, kind, expected in (
        (pa.array([datetime(2024, 5, 6, 7, 8, 9), None], pa.timestamp("us")), "TIMESTAMP", "2024-05-06T07:08:09"),
        (pa.array([timedelta(hours=9, milliseconds=500), None], pa.duration("us")), "TIME(6)", "09:00:00.5"),
        (pa.array([b"a", None]), "BYTES", "YQ=="),
    ):
        assert adapted(values, DataType.parse(kind), text).to_pylist() == [expected, None]


def test_what_is_no_json_does_not_fit_into_a_column_of_json() -> None:
    """The engine tells the row then; the sink's own word on its column names neither table nor key."""
    cast = cast_for(DataType.parse("STRING"), DataType.parse("JSON"), "UTC")
    assert cast is not None
    texts = pa.array(['{"a": 1}', "7", None])
    assert cast(texts) == texts
    for wrong in (pa.array(["9999-06-08"]), pa.array(["NaN"]), pa.array([""])):
        with pytest.raises(ValueError, match=r"Extra data|NaN|Expecting value"):
            cast(wrong)
    numbers = cast_for(DataType.parse("INT"), DataType.parse("JSON"), "UTC")
    assert numbers is not None
    assert numbers(pa.array([7, None], pa.int32())).to_pylist() == ["7", None]


def test_a_number_of_as_many_digits_as_a_long_decimal_has_fits_into_it() -> None:
    cast = cast_for(DataType.parse("DECIMAL(38, 0)"), DataType.parse("DECIMAL(40, 2)"), "UTC")
    assert cast is not None
    nines = Decimal("-" + "9" * 38)
    assert cast(pa.array([nines], pa.decimal128(38, 0))).to_pylist() == [f"{nines}.00"]


def test_a_fraction_of_a_second_does_not_fit_into_a_type_of_fewer_digits() -> None:
    """Doris and MySQL would round it; StarRocks' load would cut it."""
    half, whole = timedelta(seconds=7, milliseconds=500), timedelta(seconds=7)
    for source, target, kind in (
        ("TIMESTAMP(3)", "TIMESTAMP(0)", pa.timestamp("us")),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP(0)", pa.timestamp("us", "UTC")),
        ("TIME(1)", "TIME(0)", pa.duration("us")),
    ):
        cast = cast_for(DataType.parse(source), DataType.parse(target), "UTC")
        assert cast is not None
        seconds = pa.array([whole, None], pa.duration("us")).view(pa.int64()).cast(kind)
        assert len(cast(seconds)) == 2
        with pytest.raises(ValueError, match="fractional digits"):
            cast(pa.array([half], pa.duration("us")).view(pa.int64()).cast(kind))
    assert cast_for(DataType.parse("TIMESTAMP(0)"), DataType.parse("TIMESTAMP(3)"), "UTC") is None
    from_text = cast_for(DataType.parse("STRING"), DataType.parse("TIMESTAMP(0)"), "UTC")
    assert from_text is not None
    with pytest.raises(ValueError, match="fractional digits"):
        from_text(pa.array(["2024-01-01 00:00:00.5"]))


def test_a_number_that_a_column_of_less_precision_would_round_does_not_fit() -> None:
    for source, target, kept, lost in (
        ("DOUBLE", "FLOAT", pa.array([0.5, None, float("nan")]), pa.array([0.1])),
        ("DOUBLE", "FLOAT", pa.array([-0.0, float("inf")]), pa.array([1e300])),
        ("DECIMAL(20, 2)", "DOUBLE", pa.array([Decimal("0.10"), None]), pa.array([Decimal("123456789012345678.10")])),
        ("DECIMAL(50, 2)", "DOUBLE", pa.array(["1.50", None]), pa.array(["123456789012345678.10"])),
        ("STRING", "DOUBLE", pa.array(["0.1", None, "-1.5e3", "NaN", "inf"]), pa.array(["1e400"])),
        ("STRING", "FLOAT", pa.array(["0.1", "16777216"]), pa.array(["16777217"])),
    ):
        cast = cast_for(DataType.parse(source), DataType.parse(target), "UTC")
        assert cast is not None
        assert len(cast(kept)) == len(kept)
        with pytest.raises(ValueError, match=r"rounded|does not fit"):
            cast(lost)


def test_a_time_that_the_zone_skips_or_has_twice_is_not_bent() -> None:
    to_instant = cast_for(DataType.parse("TIMESTAMP(0)"), DataType.parse("TIMESTAMP_LTZ(0)"), "Europe/Berlin")
    to_clock = cast_for(DataType.parse("TIMESTAMP_LTZ(0)"), DataType.parse("TIMESTAMP(0)"), "Europe/Berlin")
    assert to_instant is not None
    assert to_clock is not None
    twice = pa.array([datetime(2026, 10, 25, 2, 30), None], pa.timestamp("us"))
    instants = to_instant(twice)
    assert to_clock(instants) == twice
    with pytest.raises(ValueError, match="second of two"):
        to_clock(pc.add(instants, timedelta(hours=1)))
    with pytest.raises(ValueError, match="doesn't exist"):
        to_instant(pa.array([datetime(2026, 3, 29, 2, 30)], pa.timestamp("us")))
