"""Values that a sink's column would refuse or bend are found before sending, and dealt with as the policy says."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from together import together
from trials import trials

from cdc.dead_letters import Rejected
from cdc.errors import SinkError
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.testing.blocks import block
from connectors.shared.conversion.fit import Fitted, Fitter
from connectors.shared.conversion.policy import Reason, RejectedValuePolicy
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable
from connectors.shared.last_image.last_image import KeylessChanges, LastImages, every_insert, images
from connectors.shared.streamload.dialect import DORIS, STARROCKS

TABLE = TableId("shop", "orders")
HERE = 1234
ID = TargetColumn("id", TargetKind.INT, nullable=False, is_key=True)


def column(text: str, name: str = "c", **more: Any) -> TargetColumn:
    """A sink column from `DECIMAL(10, 2)`, `VARCHAR(9)` or `DATE`."""
    word, *numbers = re.findall(r"\w+", text)
    length, scale = (*map(int, numbers), None, None)[:2]
    return TargetColumn(name, TargetKind(word), length, scale, **more)


def changed(kind: str, changes: Sequence[tuple[str, int, Any]], keys: Sequence[str] = ("id",)) -> LastImages:
    """Images of a table with an INT key `id` and a column `c`."""
    schema = TableSchema((Column("id", DataType.parse("INT")), Column("c", DataType.parse(kind))), tuple(keys))
    rows = block(TABLE, schema, [(symbol, {"id": key, "c": value}) for symbol, key, value in changes], sequence=HERE)
    return images(replace(rows, position_text="log 3:{}".format), keys)


def fitted(kind: str, target: TargetColumn, values: Sequence[Any], policy: str = "fail", **more: Any) -> Fitted:
    """Check upserts of these values with keys 1, 2, ..."""
    found = changed(kind, [("+I", at + 1, value) for at, value in enumerate(values)])
    return Fitter(
        found.schema, TargetTable(TABLE, (ID, target), ("id",)), DORIS.limits, RejectedValuePolicy(policy), **more
    ).check(found)


def sent(kind: str, target: str, values: Sequence[Any], policy: str = "fail") -> list[Any]:
    """What is left of the values."""
    return list(fitted(kind, column(target), values, policy).rows["c"].to_pylist())


def day(text: str) -> datetime.date:
    """A date."""
    return datetime.date.fromisoformat(text)


def clock(text: str) -> datetime.datetime:
    """A wall clock."""
    return datetime.datetime.fromisoformat(text)


REJECTED: list[tuple[str, str, Any, Any, Reason]] = [
    # kind, sink's column, a value that fits, one that does not, why
    ("SMALLINT", "TINYINT", -128, 128, Reason.OUT_OF_RANGE),
    ("INT UNSIGNED", "INT", 2**31 - 1, 2**31, Reason.OUT_OF_RANGE),
    ("BIGINT UNSIGNED", "BIGINT", 2**63 - 1, 2**63, Reason.OUT_OF_RANGE),
    ("TINYINT", "BOOLEAN", 1, 2, Reason.OUT_OF_RANGE),
    ("INT", "DECIMAL(4, 2)", -99, 100, Reason.OUT_OF_RANGE),
    ("BIGINT UNSIGNED", "DECIMAL(19, 0)", 10**19 - 1, 10**19, Reason.OUT_OF_RANGE),
    ("BOOLEAN", "DECIMAL(2, 2)", False, True, Reason.OUT_OF_RANGE),
    ("DECIMAL(10, 2)", "DECIMAL(8, 2)", Decimal("999999.99"), Decimal("-1000000.00"), Reason.OUT_OF_RANGE),
    ("DECIMAL(38, 0)", "DECIMAL(37, 0)", Decimal(10**37 - 1), Decimal(10**37), Reason.OUT_OF_RANGE),
    ("DECIMAL(10, 4)", "DECIMAL(10, 2)", Decimal("1.2300"), Decimal("1.2301"), Reason.DIGITS_LOST),
    ("DECIMAL(10, 2)", "INT", Decimal("12.00"), Decimal("12.50"), Reason.DIGITS_LOST),
    ("DECIMAL(20, 0)", "BIGINT", Decimal(2**63 - 1), Decimal(2**63), Reason.OUT_OF_RANGE),
    ("DECIMAL(65, 30)", "DECIMAL(38, 2)", "1.2300", "1.2301", Reason.DIGITS_LOST),
    ("DECIMAL(65, 0)", "DECIMAL(38, 0)", "9" * 38, "1" + "0" * 38, Reason.OUT_OF_RANGE),
    ("DOUBLE", "FLOAT", 0.1, 0.1234567890123, Reason.DIGITS_LOST),
    ("DOUBLE", "FLOAT", 1e38, 1e39, Reason.OUT_OF_RANGE),
    ("DOUBLE", "DOUBLE", 0.5, float("nan"), Reason.NOT_FINITE),
    ("FLOAT", "FLOAT", 0.5, float("inf"), Reason.NOT_FINITE),
    ("DOUBLE", "STRING", 0.5, float("-inf"), Reason.NOT_FINITE),
    ("DOUBLE", "DECIMAL(5, 1)", 0.5, 0.25, Reason.DIGITS_LOST),
    ("VECTOR(2)", "STRING", [0.5], [0.5, float("nan")], Reason.NOT_FINITE),
    ("BIGINT", "DOUBLE", 2**53, 2**53 + 1, Reason.DIGITS_LOST),
    ("VARCHAR(9)", "VARCHAR(4)", "äö", "äöü", Reason.TOO_LONG),
    ("VARCHAR(9)", "CHAR(4)", "abcd", "abcde", Reason.TOO_LONG),
    ("JSON", "VARCHAR(4)", "[12]", "[123]", Reason.TOO_LONG),
    ("JSON", "JSON(4)", "[12]", "[123]", Reason.TOO_LONG),
    ("VARBINARY(9)", "VARBINARY(4)", b"\xff" * 4, b"\xff" * 5, Reason.TOO_LONG),
    ("VARCHAR(9)", "VARBINARY(4)", "abcd", "abcde", Reason.TOO_LONG),
    ("BIGINT", "VARCHAR(5)", -1234, -12345, Reason.TOO_LONG),
    ("TIME(6)", "VARCHAR(15)", datetime.timedelta(hours=1), datetime.timedelta(hours=-1), Reason.TOO_LONG),
    ("TIMESTAMP(6)", "DATETIME(3)", clock("2026-01-01 00:00:00.123"), clock("2026-01-01 00:00:00.1234"),
     Reason.DIGITS_LOST),
    ("TIMESTAMP(6)", "DATE", clock("2026-01-01 00:00:00"), clock("2026-01-01 00:00:01"), Reason.DIGITS_LOST),
    ("VARCHAR(20)", "INT", "-42", "4 2", Reason.NOT_CONVERTIBLE),
    ("VARCHAR(20)", "INT", "4.2e1", "0.5", Reason.DIGITS_LOST),
    ("VARCHAR(20)", "TINYINT", "127", "128", Reason.OUT_OF_RANGE),
    ("VARCHAR(20)", "TINYINT", "127", "1e999999", Reason.OUT_OF_RANGE),
    ("VARCHAR(20)", "INT", "1", "NaN", Reason.NOT_CONVERTIBLE),
    ("VARCHAR(20)", "INT", "1", "1_000", Reason.NOT_CONVERTIBLE),
    ("VARCHAR(20)", "BOOLEAN", "0", "true", Reason.NOT_CONVERTIBLE),
    ("VARCHAR(20)", "DATE", "2024-02-29", "2023-02-29", Reason.NOT_CONVERTIBLE),
    ("VARCHAR(30)", "DATETIME", "2024-02-29 12:00:00.5", "2024-02-29 12:00:00+01:00", Reason.NOT_CONVERTIBLE),
    ("VARCHAR(30)", "DATETIME(0)", "2024-02-29 12:00:00", "2024-02-29 12:00:00.5", Reason.DIGITS_LOST),
    ("VARCHAR(30)", "DATETIME(6)", "2024-02-29 12:00:00.1234560", "2024-02-29 12:00:00.1234561", Reason.DIGITS_LOST),
    ("VARCHAR(20)", "JSON", '{"a": 1}', "{a: 1}", Reason.INVALID_JSON),
    ("VARCHAR(20)", "JSON", "[1]", "[NaN]", Reason.NOT_CONVERTIBLE),
    ("DATE", "JSON", None, day("2026-01-01"), Reason.NOT_CONVERTIBLE),
    ("DATE", "INT", None, day("2026-01-01"), Reason.NOT_CONVERTIBLE),
    ("VARBINARY(9)", "INT", None, b"1", Reason.NOT_CONVERTIBLE),
    ("JSON", "DATE", None, '"2026-01-01"', Reason.NOT_CONVERTIBLE),
    ("GEOMETRY", "STRING", None, b"\0\0\0\0\1\1\0\0\0", Reason.NOT_CONVERTIBLE),
]  # fmt: skip


@together("kind, target, good, bad, reason", REJECTED)
def test_a_rejected_value_stops_becomes_null_or_goes_to_the_dead_letters(
    kind: str, target: str, good: Any, bad: Any, reason: Reason
) -> None:
    with pytest.raises(SinkError) as caught:
        fitted(kind, column(target), [good, bad, bad])
    assert caught.value.where == "shop.orders.c, row id=2 at log 3:1234"
    assert "a value does not fit" in caught.value.message
    found = fitted(kind, column(target), [good, bad, good, bad], "null")
    assert [value is None for value in found.rows["c"].to_pylist()] == [good is None, True, good is None, True]
    assert found.counts == {f"{reason}-to-null shop.orders.c": 2}
    found = fitted(kind, column(target, nullable=good is None), [good, bad, good], "dead-letter")
    assert found.rows["id"].to_pylist() == [1, 3]
    assert len(found.delete) == 2
    assert found.counts == {f"{reason}-dead-letter shop.orders.c": 1}
    (letter,) = found.dead_letters
    assert (letter.table, letter.position, letter.operation, letter.key) == (
        "shop.orders", "log 3:1234", "upsert", {"id": 2},
    )  # fmt: skip
    assert letter.rejected == (Rejected("c", target, reason),)
    assert letter.row["id"] == 2


@together(
    "kind, target, value, left",
    [
        ("VARCHAR(9)", "VARCHAR(5)", "äöü", "äö"),
        ("VARCHAR(9)", "VARCHAR(4)", "a€€", "a€"),
        ("VARCHAR(9)", "VARCHAR(3)", "😀", ""),
        ("VARCHAR(9)", "VARCHAR(3)", "ab😀", "ab"),
        ("VARBINARY(9)", "VARBINARY(2)", b"\xe2\x82\xac", b"\xe2\x82"),
        ("DECIMAL(10, 4)", "DECIMAL(10, 2)", Decimal("-1.2399"), Decimal("-1.2300")),
        ("DECIMAL(38, 4)", "DECIMAL(38, 2)", Decimal("9" * 34 + ".9999"), Decimal("9" * 34 + ".9900")),
        ("DECIMAL(10, 2)", "INT", Decimal("-12.50"), "-12"),
        ("TIMESTAMP(6)", "DATETIME(3)", clock("1969-12-31 23:59:59.9999"), clock("1969-12-31 23:59:59.999")),
        ("TIMESTAMP(6)", "DATE", clock("2026-01-01 23:59:59"), "2026-01-01"),
        ("VARCHAR(30)", "DATETIME(1)", "2026-01-01 00:00:00.99", "2026-01-01 00:00:00.9"),
    ],
)
def test_truncate_cuts_text_at_a_character_and_drops_digits(kind: str, target: str, value: Any, left: Any) -> None:
    found = fitted(kind, column(target), [None, value], "truncate")
    assert found.rows["c"].to_pylist() == [None, left]
    assert sum(found.counts.values()) == 1
    assert "truncated shop.orders.c" in next(iter(found.counts))


@together(
    "kind, target, value",
    [
        ("INT", "TINYINT", 128),
        ("DOUBLE", "DOUBLE", float("nan")),
        ("VARCHAR(9)", "JSON", "{"),
        ("JSON", "JSON(1)", "[]"),
    ],
)
def test_truncate_does_not_apply_to_what_cannot_be_cut(kind: str, target: str, value: Any) -> None:
    with pytest.raises(SinkError, match="'truncate' does not apply to it"):
        fitted(kind, column(target), [value], "truncate")


FITS: list[tuple[str, str, Any, Any]] = [
    ("INT", "VARCHAR(11)", -(2**31), -(2**31)),
    ("INT", "VARCHAR(3)", 12, "12"),
    ("DATE", "DATETIME", day("2026-01-01"), day("2026-01-01")),
    ("FLOAT", "DOUBLE", 0.5, 0.5),
    ("INT", "DOUBLE", 5, "5"),
    ("DECIMAL(5, 2)", "FLOAT", Decimal("0.10"), "0.1"),
    ("BOOLEAN", "JSON", True, True),
    ("DOUBLE", "JSON", 1e22, "1e22"),
    ("VARCHAR(20)", "DECIMAL(5, 2)", "0012.5", "12.5"),
    ("VARCHAR(20)", "DATETIME", "2024-02-29", "2024-02-29 00:00:00.000000"),
    ("TIME(0)", "VARCHAR(9)", datetime.timedelta(hours=12), "12:00:00"),
    ("TIMESTAMP(3)", "VARCHAR(19)", None, None),
    ("VECTOR(2)", "VARCHAR(9)", [0.5, 1.0], "[0.5,1]"),
    ("GEOMETRY", "STRING", b"\xe6\x10\0\0\1\1\0\0\0" + np.array([13.5, -52.0]).tobytes(), "SRID=4326;POINT(13.5 -52)"),
    ("BYTES", "STRING", b"\xff\0", b"\xff\0"),
]


@together("kind, target, value, left", FITS)
def test_values_of_other_kinds_that_fit_are_sent_as_text(kind: str, target: str, value: Any, left: Any) -> None:
    found = fitted(kind, column(target), [value])
    assert found.rows["c"].to_pylist() == [left]
    assert (found.counts, found.dead_letters) == ({}, ())


def test_an_error_does_not_show_text() -> None:
    with pytest.raises(SinkError) as caught:
        fitted("STRING", column("VARCHAR(3)"), ["my secret"])
    assert "text of 9 bytes is too long for VARCHAR(3)" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_null_in_a_not_null_column_stops_under_every_policy_but_dead_letter() -> None:
    target = column("INT", nullable=False)
    for policy in ("fail", "null", "truncate"):
        with pytest.raises(SinkError, match=r"c, row id=1 at log 3:1234: a value does not fit: NULL in a NOT NULL"):
            fitted("INT", target, [None], policy)
    assert fitted("INT", target, [None, 1], "dead-letter").counts == {"null-in-not-null-dead-letter shop.orders.c": 1}


def test_a_value_that_does_not_fit_a_not_null_column_cannot_become_null() -> None:
    with pytest.raises(SinkError, match="'null' does not apply to it"):
        fitted("INT", column("TINYINT", nullable=False), [1000], "null")


@together("policy", ["fail", "null", "truncate"])
def test_a_key_is_never_bent(policy: str) -> None:
    found = changed("VARCHAR(9)", [("+I", 1, "abc")], keys=("c",))
    target = TargetTable(TABLE, (column("VARCHAR(2)", is_key=True), column("INT", "id")), ("c",))
    with pytest.raises(SinkError, match=r"shop\.orders\.c, row c='abc'.*text of 3 bytes is too long for VARCHAR\(2\)"):
        Fitter(found.schema, target, DORIS.limits, RejectedValuePolicy(policy)).check(found)


def test_deleted_rows_are_looked_at_only_in_what_they_carry() -> None:
    found = changed("VARCHAR(9)", [("-D", 1, "too long"), ("+I", 2, "ok"), ("-D", 3, None)])
    needed = TargetTable(TABLE, (ID, column("VARCHAR(2)", nullable=False)), ("id",))
    result = Fitter(found.schema, needed, DORIS.limits).check(found)
    assert result.delete.tolist() == [1, 0, 1]
    kept = TargetTable(TABLE, needed.columns, ("id",), kept_in_deletes=("c",))
    with pytest.raises(SinkError, match="row id=3"):
        Fitter(found.schema, kept, DORIS.limits).check(found)


def test_deleted_rows_of_unrelated_kinds_are_not_converted() -> None:
    found = changed("VARCHAR(9)", [("-D", 1, "no number"), ("+I", 2, "2")])
    result = Fitter(found.schema, TargetTable(TABLE, (ID, column("INT")), ("id",)), DORIS.limits).check(found)
    assert result.rows["c"].to_pylist() == [None, "2"]


def test_invalid_text_is_found_wherever_it_hides() -> None:
    raw = pa.array([b"ok", None, b"a\xff", b"\xc3"], pa.binary()).view(pa.string())
    found = changed("STRING", [("+I", at, "x") for at in range(4)])
    rows = pa.RecordBatch.from_arrays([found.rows["id"], raw], names=["id", "c"])
    bad = LastImages(TABLE, found.schema, rows, found.delete, found.sequence, 4, 0, 0, {})
    target = TargetTable(TABLE, (ID, column("STRING")), ("id",))
    with pytest.raises(SinkError, match=r"row id=2 .*a value of 2 bytes is not valid UTF-8"):
        Fitter(found.schema, target, DORIS.limits).check(bad)
    nulled = Fitter(found.schema, target, DORIS.limits, RejectedValuePolicy.NULL).check(bad)
    assert nulled.rows["c"].to_pylist() == ["ok", None, None, None]
    dead = Fitter(found.schema, target, DORIS.limits, RejectedValuePolicy.DEAD_LETTER).check(bad)
    assert [letter.row["c"] for letter in dead.dead_letters] == [b"a\xff", b"\xc3"]


@pytest.mark.parametrize("days", [-719_529, 2_932_897])
def test_dates_outside_four_digit_years_are_found(days: int) -> None:
    found = changed("DATE", [("+I", 1, None), ("+I", 2, None)])
    rows = pa.RecordBatch.from_arrays([found.rows["id"], pa.array([0, days], pa.date32())], names=["id", "c"])
    bad = LastImages(TABLE, found.schema, rows, found.delete, found.sequence, 2, 0, 0, {})
    with pytest.raises(SinkError, match=r"row id=2.*out of the range of DATE"):
        Fitter(found.schema, TargetTable(TABLE, (ID, column("DATE")), ("id",)), DORIS.limits).check(bad)
    nulled = Fitter(
        found.schema, TargetTable(TABLE, (ID, column("VARCHAR(9)")), ("id",)), DORIS.limits, RejectedValuePolicy.NULL
    )
    assert nulled.check(bad).counts == {
        "out-of-range-to-null shop.orders.c": 1, "too-long-to-null shop.orders.c": 1,
    }  # fmt: skip


def test_binary_counts_double_where_the_server_ends_fields_early() -> None:
    found = changed("BYTES", [("+I", 1, b"x" * 524_289)])
    target = TargetTable(TABLE, (ID, column("VARBINARY(1048576)")), ("id",))
    assert Fitter(found.schema, target, DORIS.limits).check(found).counts == {}
    with pytest.raises(SinkError, match="too long"):
        Fitter(found.schema, target, STARROCKS.limits).check(found)


def test_text_counts_double_when_a_value_beside_it_has_control_bytes() -> None:
    target = TargetTable(TABLE, (ID, column("VARCHAR(1048576)")), ("id",))
    long = "x" * 524_289
    fine = changed("STRING", [("+I", 1, long), ("+I", 2, "plain")])
    assert Fitter(fine.schema, target, STARROCKS.limits).check(fine).counts == {}
    mixed = changed("STRING", [("+I", 1, long), ("+I", 2, "\x01")])
    assert Fitter(mixed.schema, target, DORIS.limits).check(mixed).counts == {}
    with pytest.raises(SinkError, match=r"row id=1 .*text of 524,289 bytes is too long"):
        Fitter(mixed.schema, target, STARROCKS.limits).check(mixed)
    cut = Fitter(mixed.schema, target, STARROCKS.limits, RejectedValuePolicy.TRUNCATE).check(mixed)
    assert [len(value) for value in cut.rows["c"].to_pylist()] == [524_288, 1]


@pytest.mark.parametrize("kind", ["BYTES", "STRING"])
def test_a_deleted_row_may_have_been_longer_than_a_field(kind: str) -> None:
    value: Any = b"x" * 600_000 if kind == "BYTES" else "\x01" * 600_000
    found = changed(kind, [("-D", 1, value), ("+I", 2, value[:9])])
    target = TargetTable(TABLE, (ID, column("VARCHAR(1048576)")), ("id",))
    result = Fitter(found.schema, target, STARROCKS.limits).check(found)
    assert result.rows["c"].to_pylist() == [None, value[:9]]


@together("value, fits", [("k" * 122, True), ("k" * 123, False), ("\0" * 61, True)])
def test_keys_longer_than_the_server_takes_are_found(value: str, fits: bool) -> None:
    found = changed("VARCHAR(200)", [("+I", 1, "a"), ("+I", 2, value)], keys=("c", "id"))
    target = TargetTable(TABLE, (column("VARCHAR(800)", nullable=False, is_key=True), ID), ("c", "id"))
    fitter = Fitter(found.schema, target, STARROCKS.limits, max_key_bytes=128)
    if fits:
        assert fitter.check(found).rows.num_rows == 2
    else:
        with pytest.raises(SinkError, match="longer than the server's 128 bytes"):
            fitter.check(found)


def test_a_number_in_a_text_key_counts_with_its_own_digits() -> None:
    found = changed("DECIMAL(38, 0)", [("+I", 1, Decimal(5))], keys=("c",))
    target = TargetTable(TABLE, (column("VARCHAR(60)", nullable=False, is_key=True), column("INT", "id")), ("c",))
    assert Fitter(found.schema, target, STARROCKS.limits, max_key_bytes=2).check(found).rows.num_rows == 1


def test_two_rejected_values_of_a_row_are_one_letter() -> None:
    schema = TableSchema(tuple(Column(name, DataType.parse("INT")) for name in ("id", "a", "b")), ("id",))
    rows = block(TABLE, schema, [("+I", {"id": 1, "a": 1000, "b": 2000}), ("-D", {"id": 2})], sequence=HERE)
    target = TargetTable(TABLE, (ID, column("TINYINT", "a"), column("TINYINT", "b")), ("id",))
    result = Fitter(schema, target, DORIS.limits, RejectedValuePolicy.DEAD_LETTER).check(images(rows, ["id"]))
    (letter,) = result.dead_letters
    assert [value.column for value in letter.rejected] == ["a", "b"]
    assert (result.rows.num_rows, result.delete.tolist()) == (1, [1])


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+02:00"])
def test_instants_are_written_in_the_zone_asked_for(zone: str) -> None:
    moment = datetime.datetime(2026, 7, 1, 22, 30, tzinfo=datetime.UTC)
    found = fitted("TIMESTAMP_LTZ(0)", column("DATETIME(0)"), [moment], time_zone=zone)
    assert found.rows["c"].to_pylist() == [clock("2026-07-02 00:30:00")]


def test_two_instants_with_the_same_clock_are_not_one_key() -> None:
    """02:30 is there twice on the last Sunday of October."""
    moments = [datetime.datetime(2026, 10, 25, hour, 30, tzinfo=datetime.UTC) for hour in (0, 1)]
    schema = TableSchema((Column("c", DataType.parse("TIMESTAMP_LTZ(0)")),), ("c",))
    found = images(block(TABLE, schema, [("+I", {"c": moment}) for moment in moments], sequence=HERE), ["c"])
    target = TargetTable(TABLE, (column("DATETIME(0)", is_key=True),), ("c",))
    Fitter(schema, target, DORIS.limits).check(found)
    with pytest.raises(SinkError, match=r"01:30:00\+00:00 has the clock of an earlier key"):
        Fitter(schema, target, DORIS.limits, RejectedValuePolicy.NULL, time_zone="Europe/Berlin").check(found)
    assert len(fitted("TIMESTAMP_LTZ(0)", column("DATETIME(0)"), moments, time_zone="Europe/Berlin").rows) == 2


def test_rows_without_a_key_name_only_the_position() -> None:
    schema = TableSchema((Column("c", DataType.parse("INT")),))
    rows = block(TABLE, schema, [("+I", {"c": 1000})], sequence=HERE)
    target = TargetTable(TABLE, (column("TINYINT"),), upserts=False)
    with pytest.raises(SinkError, match=r"shop\.orders\.c, row no key at 1234"):
        Fitter(schema, target, DORIS.limits).check(every_insert(rows, KeylessChanges.FAIL))


def test_a_key_of_the_sink_without_a_source_column_is_an_error() -> None:
    target = TargetTable(TABLE, (ID, column("INT"), column("INT", "k", is_key=True)), ("id", "k"))
    with pytest.raises(SinkError, match="no column for key column k"):
        Fitter(changed("INT", []).schema, target, DORIS.limits)


def test_no_rows_fit_anything() -> None:
    assert fitted("VARCHAR(9)", column("VARCHAR(1)"), []).rows.num_rows == 0
    assert sent("VECTOR(2)", "STRING", []) == []


@pytest.mark.slow
@settings(max_examples=trials(150), deadline=None)
@given(values=st.lists(st.none() | st.text(max_size=6), max_size=8), limit=st.integers(1, 12))
def test_truncated_text_is_the_longest_beginning_that_fits(values: list[str | None], limit: int) -> None:
    def expected(value: str | None) -> str | None:
        if value is None:
            return None
        return max((value[:end] for end in range(len(value) + 1) if len(value[:end].encode()) <= limit), key=len)

    assert sent("STRING", f"VARCHAR({limit})", values, "truncate") == [expected(value) for value in values]
