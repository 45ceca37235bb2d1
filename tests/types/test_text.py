"""Dates and times as text, of any year."""

from __future__ import annotations

import pyarrow as pa

from cdc.types.text import plain, without_zeros

MOMENTS = {
    253_402_300_799_999_999: "9999-12-31T23:59:59.999999",
    253_402_300_800_000_000: "+10000-01-01T00:00:00.000000",
    -62_167_219_200_000_000: "0000-01-01T00:00:00.000000",
    -62_167_219_200_000_001: "-0001-12-31T23:59:59.999999",
    2**63 - 1: "+294247-01-10T04:00:54.775807",
    -(2**63) + 1: "-290308-12-21T19:59:05.224193",
}
DAYS = {
    2_932_896: "9999-12-31", 2_932_897: "+10000-01-01", -719_528: "0000-01-01", -719_529: "-0001-12-31",
    2**31 - 1: "+5881580-07-11", -(2**31): "-5877641-06-23",
}  # fmt: skip


def test_years_beyond_four_digits_have_a_sign() -> None:
    numbers = pa.array([*MOMENTS, None], pa.int64())
    assert plain(numbers.view(pa.timestamp("us"))).to_pylist() == [*MOMENTS.values(), None]
    instants = [f"{text}Z" for text in MOMENTS.values()]
    assert plain(numbers.view(pa.timestamp("us", "UTC"))).to_pylist() == [*instants, None]
    assert without_zeros(plain(numbers.view(pa.timestamp("us"))[1:2])).to_pylist() == ["+10000-01-01T00:00:00"]
    assert plain(pa.array([*DAYS, None], pa.int32()).view(pa.date32())).to_pylist() == [*DAYS.values(), None]
