"""CSV as Doris reads it: a plain rendering of its state machine byte by byte, against the reader of the stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_standins.doris import csv_rows
from cdc_standins.doris.csv_rows import BLOCK_ROWS, CsvFormat, CsvReader, Field


def read(form: CsvFormat, width: int, *blocks: bytes) -> tuple[list[tuple[Field, ...]], list[str]]:
    reader = CsvReader(form, width)
    windows = [window for block in blocks for window in reader.feed(memoryview(block))] + list(reader.finish())
    rows = [row for window in windows for row in zip(*window.columns, strict=True)]
    assert len(rows) == sum(window.count for window in windows)
    return rows, [reason for window in windows for reason in window.filtered]


def lines_by_state_machine(form: CsvFormat, text: bytes) -> Iterator[list[bytes]]:
    """Lines as lists of raw fields: START, NORMAL, within an enclosed field, and after its end."""
    escape = form.escape or b"\0"
    fields, start, at, state = [], 0, 0, "start"
    escaped = closing = False
    while at < len(text):
        one = text[at : at + 1]
        if state == "start":
            state, escaped, closing = ("enclosed" if one == form.enclose else "normal"), False, False
            if state == "enclosed":
                at += 1
            continue
        if state == "enclosed":
            if one == escape:
                escaped = not escaped
            elif escaped:
                escaped = False
            elif closing:
                closing = False
                if one != form.enclose:
                    state = "normal"
                    continue
            elif one == form.enclose:
                closing = True
            at += 1
            continue
        if text.startswith(form.separator, at):
            fields.append(text[start:at])
            at = start = at + len(form.separator)
            state = "start"
        elif text.startswith(form.delimiter, at):
            last = text[start:at]
            if form.delimiter == b"\n" and last.endswith(b"\r"):
                last = last[:-1]
            yield [*fields, last]
            fields, state = [], "start"
            at = start = at + len(form.delimiter)
        else:
            at += 1
    if fields or start < len(text):
        yield [*fields, text[start:]]


def resolved(form: CsvFormat, field: bytes) -> Field:
    if len(field) > 1 and form.enclose and field[:1] == field[-1:] == form.enclose:
        field = field[1:-1]
    if field == csv_rows.NULL:
        return None
    if not form.escape:
        return field
    out, skip = bytearray(), False
    for at, byte in enumerate(field):
        doubled = field[at : at + 2] == form.enclose * 2 if form.enclose else field[at : at + 2] == b"\0\0"
        skip = not skip if doubled or bytes([byte]) == form.escape else False
        if not skip:
            out.append(byte)
    return bytes(out)


FORMATS = [
    CsvFormat(b",", b"\n"),
    CsvFormat(b",", b"\n", b'"', b"\\"),
    CsvFormat(b",", b"\n", b"'"),
    CsvFormat(b"||", b"\r\n", b'"', b"\\"),
    CsvFormat(b"\x01", b"\x02"),
    CsvFormat(b",", b"\n", b"", b"\\"),
]


@pytest.mark.parametrize("form", FORMATS)
@given(st.lists(st.sampled_from(list(b",\"'\\\n\r|N\x01\x02a\0")), max_size=24).map(bytes))
@example(b"''\x00,")
def test_the_reader_does_what_the_state_machine_does(form: CsvFormat, text: bytes) -> None:
    lines = [line for line in lines_by_state_machine(form, text) if line != [b""]]
    trimmed = [[resolved(form, field) for field in line] for line in lines]
    for width in (1, 2, 3):
        rows, filtered = read(form, width, text)
        kept = [tuple(line) for line in trimmed if len(line) == width]
        assert (rows, len(filtered)) == (kept, len(lines) - len(kept))


def test_null_and_empty_fields() -> None:
    form = CsvFormat(b",")
    assert read(form, 2, b"\\N,\n,\\N\n\\n,\\NN\n")[0] == [(None, b""), (b"", None), (b"\\n", b"\\NN")]
    enclosed = CsvFormat(b",", b"\n", b'"', b"\\")
    assert read(enclosed, 2, b'"\\N","\\\\N"\n')[0] == [(None, b"\\N")]
    as_null = CsvFormat(b",", empty_field_as_null=True)
    assert read(as_null, 2, b"a,\n")[0] == [(b"a", None)]


def test_nothing_is_quoted_without_enclose() -> None:
    rows, filtered = read(CsvFormat(b","), 2, b'"a,b",c\n"a",b\n')
    assert rows == [(b'"a"', b"b")]
    assert filtered == ["Column count mismatch: expected 2, but found 3 (sep:, delim:\\n)"]


def test_separators_delimiters_and_marks_within_an_enclosed_field() -> None:
    form = CsvFormat(b",", b"\n", b'"', b"\\")
    text = b'"a,b","c\nd"\n"say \\"x\\"","back\\\\slash"\n"doubled ""x""",plain\n'
    assert read(form, 2, text)[0] == [
        (b"a,b", b"c\nd"), (b'say "x"', b"back\\slash"), (b'doubled "x"', b"plain")
    ]  # fmt: skip


def test_lines_of_windows_and_of_other_systems() -> None:
    assert read(CsvFormat(b","), 1, b"a\r\n\r\n\nb")[0] == [(b"a",), (b"b",)]
    assert read(CsvFormat(b",", b"\x02"), 1, b"a\r\n\x02b")[0] == [(b"a\r\n",), (b"b",)]


def test_lines_that_are_no_utf8_are_filtered() -> None:
    rows, filtered = read(CsvFormat(b","), 2, b"a,b\n\xff,c\nd,\xc3\xa9\n")
    assert rows == [(b"a", b"b"), (b"d", b"\xc3\xa9")]
    assert filtered == ["Invalid file encoding: all CSV files must be UTF-8 encoded"]


def test_byte_order_marks_at_the_start_of_a_block_of_rows_are_taken_off() -> None:
    bom = b"\xef\xbb\xbf"
    rows, _ = read(CsvFormat(b","), 1, (bom + b"a\n") * (BLOCK_ROWS + 1))
    assert [rows[0], rows[1], rows[BLOCK_ROWS - 1], rows[BLOCK_ROWS]] == [
        (b"a",), (bom + b"a",), (bom + b"a",), (b"a",)
    ]  # fmt: skip


def test_first_lines_can_be_skipped() -> None:
    assert read(CsvFormat(b",", skip_lines=2), 1, b"head\ntypes\na\n")[0] == [(b"a",)]


def test_windows_end_between_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_rows, "WINDOW_BYTES", 8)
    blocks = [b"aa,b\ncc", b",dd\nee,", b"ff\ngg,hh\nii,j", b"j"]
    assert read(CsvFormat(b","), 2, *blocks)[0] == [
        (b"aa", b"b"), (b"cc", b"dd"), (b"ee", b"ff"), (b"gg", b"hh"), (b"ii", b"jj")
    ]  # fmt: skip
