from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from together import together

from cdc.units import OptionError, duration_text, parse_duration, parse_size, size_text


@together(
    "text, seconds",
    [("30s", 30), ("10 min", 600), ("500ms", 0.5), ("1 h", 3600), ("2 days", 172800), ("250", 0.25), (" 7 SEC ", 7)],
)
def test_a_duration_is_read_with_flinks_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@together(
    "text, size",
    [("64 mb", 64 << 20), ("1 MiB", 1 << 20), ("1kb", 1024), ("100", 100), ("2 GB", 2 << 30), ("1.5 kb", 1536)],
)
def test_a_size_is_read_in_steps_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@together("text", ["", "soon", "-5 s", "5 fortnights", "1e3", "٣ s", True, None, [1]])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(OptionError):
        parse_duration(text)


@together("text", ["", "big", "-1", "1 mbit", "0x10", False, {}])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(OptionError):
        parse_size(text)


@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_size_is_written_as_it_is_read(size: int) -> None:
    assert parse_size(size_text(size)) == size


@given(st.integers(min_value=0, max_value=10**7))
def test_a_duration_is_written_as_it_is_read(milliseconds: int) -> None:
    assert parse_duration(duration_text(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)
