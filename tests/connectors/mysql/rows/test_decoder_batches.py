"""Many rows at once: what is decoded column by column is what was logged, at every size of batch, event and block."""

from __future__ import annotations

import datetime
import random
import struct
from collections.abc import Iterator

import pytest
from binlog_builder import Event
from decoded import decode
from log_script import BEGIN, XID, chunk, seen
from together import together

from cdc.errors import UnsupportedChange
from cdc.schema import TableId
from connectors.mysql import events
from connectors.mysql.table import MySqlColumn, MySqlTable
from connectors.mysql.value_rules import ValueRules

Row = tuple[int, int | None, str, str | None, datetime.date | None]

_TABLE = MySqlTable(
    TableId("d", "t"),
    (
        MySqlColumn("id", "bigint", nullable=False),
        MySqlColumn("n", "int"),
        MySqlColumn("name", "varchar", 80, charset="utf8mb4", nullable=False),
        MySqlColumn("note", "longtext", charset="utf8mb4"),
        MySqlColumn("day", "date"),
    ),
)
_HEAD = (7).to_bytes(6, "little") + b"\1\0\2\0\5"
_NULLABLE = 0b11010
_INVALID = datetime.date(1234, 5, 6)
"""Stands for a day that does not exist."""


def _map(nullable: int = _NULLABLE) -> Event:
    types = bytes([8, 3, 15, 252, 10])
    metadata = struct.pack("<HB", 200, 4)
    body = (7).to_bytes(6, "little") + b"\1\0" + b"\1d\0\1t\0" + bytes([5]) + types + bytes([len(metadata)]) + metadata
    return events.TABLE_MAP, body + bytes([nullable])


def _image(row: Row) -> bytes:
    number, n, name, note, day = row
    nulls = (n is None) << 1 | (note is None) << 3 | (day is None) << 4
    out = bytes([nulls]) + struct.pack("<q", number)
    out += b"" if n is None else struct.pack("<i", n)
    out += bytes([len(name.encode())]) + name.encode()
    out += b"" if note is None else struct.pack("<I", len(note.encode())) + note.encode()
    if day is not None:
        packed = (2026 << 9 | 2 << 5 | 30) if day == _INVALID else (day.year << 9 | day.month << 5 | day.day)
        out += packed.to_bytes(3, "little")
    return out


def _rows(rnd: random.Random, longest: int) -> Iterator[Row]:
    number = 0
    while True:
        number += 1
        yield (
            number * rnd.choice([1, -1]),
            rnd.choice([None, 0, -1, 2**31 - 1, rnd.randrange(1000)]),
            "ä" * rnd.choice([0, 1, 8, 16, 17, 32, 33, 40]),
            rnd.choice([None, "", "x" * rnd.randrange(longest)]),
            rnd.choice([None, datetime.date(2024, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        )


def _script(
    rnd: random.Random, count: int, longest: int, layouts: tuple[int, ...] = (_NULLABLE,)
) -> tuple[list[Event], list[tuple[int, Row]]]:
    """Events of 1 to 300 rows after TABLE_MAPs of these layouts, and the images they hold with their kinds."""
    script: list[Event] = []
    images: list[tuple[int, Row]] = []
    rows = _rows(rnd, longest)
    while len(images) < count:
        some = [next(rows) for _ in range(rnd.choice([1, 1, 2, 3, 127, 128, 129, 300]))]
        kind = rnd.randrange(3)
        code = (events.WRITE_ROWS_V2, events.UPDATE_ROWS_V2, events.DELETE_ROWS_V2)[kind]
        body = _HEAD + b"\x1f" * (2 if kind == 1 else 1)
        if kind == 1:
            some = [*some, next(rows)][: len(some) + len(some) % 2]
        body += b"".join(map(_image, some))
        images += [((0, 1 + index % 2, 3)[kind], row) for index, row in enumerate(some)]
        script += [_map(rnd.choice(layouts)), (code, body)]
    return script, images


@together("seed", range(6))
@together("longest", [8, 200, 20_000])
def test_rows_come_as_they_were_logged(seed: int, longest: int) -> None:
    script, images = _script(random.Random(seed), 3000 if longest < 1000 else 300, longest)
    found = decode({_TABLE.id: _TABLE}, [chunk([seen(1), BEGIN, *script, XID])])
    assert found.kinds(_TABLE.id) == [kind for kind, _ in images]
    assert found.rows(_TABLE.id) == [row for _, row in images]


def test_places_are_numbered_on_from_batch_to_batch() -> None:
    script, images = _script(random.Random(9), 2000, 20)
    found = decode({_TABLE.id: _TABLE}, [chunk([seen(1), BEGIN, *script, XID])])
    places = [
        place for block in found.blocks for place in zip(block.sequence.to_pylist(), block.row.to_pylist(), strict=True)
    ]
    assert len(places) == len(images)
    assert places == sorted(set(places))
    firsts = [row for (_, row), (sequence, _) in zip(places, [(None, None), *places], strict=False) if sequence is None]
    assert firsts == [0]


def test_rows_of_a_table_whose_metadata_changes_and_comes_back_come_as_they_were_logged() -> None:
    script, images = _script(random.Random(1), 2000, 20, layouts=(0b11010, 0b11000, 0b11110))
    found = decode({_TABLE.id: _TABLE}, [chunk([seen(1), BEGIN, *script, XID])])
    assert found.kinds(_TABLE.id) == [kind for kind, _ in images]
    assert found.rows(_TABLE.id) == [row for _, row in images]
    places = [place for block in found.blocks for place in block.sequence.to_pylist()]
    assert places == sorted(places)


def test_texts_that_grow_all_at_once_need_another_block() -> None:
    rows: list[Row] = [(number, 1, "a", "b" * (3 if number < 2000 else 3000), None) for number in range(4000)]
    script = []
    for first in range(0, len(rows), 100):
        body = _HEAD + b"\x1f" + b"".join(map(_image, rows[first : first + 100]))
        script += [_map(), (events.WRITE_ROWS_V2, body)]
    found = decode({_TABLE.id: _TABLE}, [chunk([seen(1), BEGIN, *script, XID])])
    assert len(found.blocks) > 1
    assert found.rows(_TABLE.id) == rows


@together("invalid_at", [0, 1, 700, 999])
def test_an_invalid_date_among_many_rows(invalid_at: int) -> None:
    rows: list[Row] = [(number, number, "a", None, datetime.date(2026, 11, 22)) for number in range(1000)]
    rows[invalid_at] = (*rows[invalid_at][:4], _INVALID)
    body = _HEAD + b"\x1f" + b"".join(map(_image, rows))
    after = [_map(), (events.WRITE_ROWS_V2, _HEAD + b"\x1f" + _image((1000, 1, "z", None, None)))]
    chunks = [chunk([seen(1), BEGIN, _map(), (events.WRITE_ROWS_V2, body), *after, XID])]
    found = decode({_TABLE.id: _TABLE}, chunks)
    assert found.counts == {"invalid-date-to-null d.t.day": 1}
    days = [row[4] for row in found.rows(_TABLE.id)]
    assert [index for index, day in enumerate(days) if day is None] == [invalid_at, 1000]
    with pytest.raises(UnsupportedChange, match="column day holds 2026-02-30"):
        decode({_TABLE.id: _TABLE}, chunks, rules=ValueRules(strict_dates=True))


def test_a_null_that_the_log_calls_impossible_is_a_null() -> None:
    rows: list[Row] = [(number, None if number % 7 == 0 else number, "a", None, None) for number in range(500)]
    body = _HEAD + b"\x1f" + b"".join(map(_image, rows))
    script = [_map(nullable=0b11000), (events.WRITE_ROWS_V2, body)]
    found = decode({_TABLE.id: _TABLE}, [chunk([seen(1), BEGIN, *script, XID])])
    assert found.rows(_TABLE.id) == rows
