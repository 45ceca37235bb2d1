"""Load text as both stand-ins read it: rows do not depend on where blocks end, and what is filtered is counted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_standins.doris.headers import BLOCK_ROWS, text_format
from cdc_standins.load_text import BOM, Field, RowCounter, TextFormat, TextReader, Window

FORM = text_format({"column_separator": ",", "line_delimiter": "\\x02"})
PLAIN = TextFormat(b",", b"\x02", lambda row: "", lambda wanted, found, row: "")


def read(form: TextFormat, width: int, *blocks: bytes) -> tuple[list[tuple[Field, ...]], list[str]]:
    reader = TextReader(form, width)
    windows: list[Window] = [window for block in blocks for window in reader.feed(block)] + list(reader.finish())
    rows = [row for window in windows for row in zip(*window.columns, strict=True)]
    assert len(rows) == sum(len(window.rows) for window in windows)
    return rows, [reason for window in windows for reason in window.rejected]


@settings(max_examples=60)
@given(rows=st.lists(st.text("ab,\x021", max_size=5), min_size=1), size=st.integers(1, 7))
def test_rows_and_their_number_do_not_depend_on_where_blocks_end(rows: list[str], size: int) -> None:
    body = "\x02".join(rows).encode()
    blocks = [body[start : start + size] for start in range(0, len(body), size)]
    found, filtered = read(FORM, 2, *blocks)
    written = [row for row in body.split(b"\x02") if row]
    assert found == [tuple(row.split(b",")) for row in written if row.count(b",") == 1]
    assert len(filtered) == sum(row.count(b",") != 1 for row in written)
    counter = RowCounter(b"\x02")
    for block in blocks:
        counter.feed(bytearray(block), len(block))
    assert counter.rows == body.count(b"\x02") + (bool(body) and not body.endswith(b"\x02"))


def test_null_is_one_spelling_and_nothing_is_quoted() -> None:
    assert read(FORM, 2, b'\\N,\x02\\n,\\\\N\x02"a",\n')[0] == [(None, b""), (b"\\n", b"\\\\N"), (b'"a"', b"\n")]


def test_rows_that_are_no_utf8_or_of_another_width_are_filtered() -> None:
    rows, filtered = read(FORM, 2, b"a,b\x02\xff,c\x02d\x02\x02e,\xc3\xa9")
    assert rows == [(b"a", b"b"), (b"e", b"\xc3\xa9")]
    assert filtered == [
        "Invalid file encoding: all CSV files must be UTF-8 encoded",
        "Column count mismatch: expected 2, but found 1 (sep:, delim:\x02)",
    ]


def test_byte_order_marks_at_the_start_of_a_block_of_rows_are_taken_off_by_doris() -> None:
    body = (BOM + b"a\x02") * (BLOCK_ROWS + 1)
    rows, _ = read(FORM, 1, body)
    assert [number for number, row in enumerate(rows) if row == (b"a",)] == [0, BLOCK_ROWS]
    assert read(PLAIN, 1, body)[0][0] == (BOM + b"a",)
