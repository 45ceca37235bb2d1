"""The parts of reading a chunk that need no server: windows, GTIDs underway, the throttle."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_stream import FakeStream
from together import together

from cdc.block import ChangeBlock, RowKind, arrow_schema
from cdc.errors import SourceUnavailable
from cdc.schema import TableId
from connectors.mysql import events
from connectors.mysql.gtid import GtidSet
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.stream import EndOfLog
from connectors.mysql.server.positions import LogPosition, file_number
from connectors.mysql.snapshot.read.throttle import BURST_S, Throttle
from connectors.mysql.snapshot.read.view import difference, parse_owned_gtids
from connectors.mysql.snapshot.read.window import Unusable, Window, buffers_until, names_table
from connectors.mysql.table import MySqlColumn, MySqlTable, table_schema

_TABLE = MySqlTable(
    TableId("shop", "orders"),
    (
        MySqlColumn("id", "int", nullable=False),
        MySqlColumn("day", "date", nullable=False),
        MySqlColumn("at", "timestamp", 3),
        MySqlColumn("note", "varchar", 9, charset="utf8mb4"),
    ),
    ("id",),
)
_I, _B, _A, _D = RowKind
_DAY, _AT = date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)


def _block(*images: tuple[RowKind, int | None, str], day: date | None = _DAY) -> ChangeBlock:
    schema, count = table_schema(_TABLE), len(images)
    rows = pa.RecordBatch.from_pylist(
        [{"id": key, "day": day, "at": _AT, "note": note} for _, key, note in images], arrow_schema(schema)
    )
    kinds = pa.array([int(kind) for kind, _, _ in images], pa.uint8())
    zeros = np.zeros(count, np.int64)
    return ChangeBlock(
        _TABLE.id, schema, rows, kinds, pa.array(zeros), pa.array(zeros.astype(np.int32)), pa.array(zeros)
    )


def _window(*blocks: ChangeBlock, key: tuple[str, ...] = ("id",)) -> Window:
    window = Window(key)
    for block in blocks:
        window.add(block, 100)
    window.close()
    return window


def _images(window: Window) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["note"]) for batch in window.last_images() for row in batch.to_pylist())


def test_the_last_image_of_each_key_counts() -> None:
    window = _window(
        _block((_I, 1, "one"), (_B, 1, "one"), (_A, 1, "eins"), (_I, 2, "two")),
        _block((_D, 2, "two"), (_B, 3, "three"), (_A, 30, "three"), (_D, 4, "four"), (_I, 4, "vier")),
    )
    assert _images(window) == [(1, "eins"), (4, "vier"), (30, "three")]
    keep = window.without(_block(*((_I, key, "") for key in (1, 2, 3, 4, 5, 30, 31))).rows)
    assert keep.tolist() == [False, False, False, False, True, False, True]


def test_an_empty_window_leaves_everything() -> None:
    window = _window()
    assert _images(window) == []
    assert window.without(_block((_I, 1, "")).rows) is None


@together("key", [("id", "day", "at"), ("day", "id"), ("at", "note")])
def test_keys_of_several_columns_count_as_a_whole(key: tuple[str, ...]) -> None:
    window = _window(_block((_A, 1, "x"), (_A, 2, "y")), key=key)
    keep = window.without(_block((_I, 1, "x"), (_I, 2, "y"), (_I, 3, "z")).rows)
    assert keep.tolist() == [False, False, True]


def test_values_from_two_keys_are_no_key() -> None:
    window = _window(_block((_A, 1, "x")), _block((_A, 2, "y")), key=("id", "note"))
    assert window.without(_block((_I, 1, "y"), (_I, 2, "x")).rows) is None


def test_rows_that_cannot_be_told_apart_are_not_merged() -> None:
    with pytest.raises(Unusable, match="no key"):
        _window(_block((_I, 1, "x")), key=())
    with pytest.raises(Unusable, match="date that no calendar has"):
        _window(_block((_I, 1, "x"), day=None), key=("id", "day"))
    with pytest.raises(Unusable, match="more than 100"):
        _window(_block(*((_I, key, "") for key in range(101))))


def _chunk(*ends: int, file: str = "binlog.000002", statement: bytes = b"") -> ReceiveBuffer:
    body = bytes(8) + bytes([0, 0, 0, 0, 0]) + b"\0" + statement if statement else b""
    event = bytes(19) + body
    count, size = len(ends), len(event)
    data = np.frombuffer(bytearray(event * count), np.uint8)
    places = np.arange(count, dtype=np.int64) * size
    kind = events.QUERY if statement else events.XID
    return ReceiveBuffer(
        file, file_number(file), data, places, places + size, np.full(count, kind, np.uint8),
        np.array(ends, np.int64), np.zeros(count, np.int64), np.full(count, events.OTHER * bool(statement), np.uint8),
        False,
    )  # fmt: skip


class _Stream(FakeStream):
    """Follows the position of what it gave."""

    def read(self, timeout_s: float, up_to: LogPosition | None = None) -> ReceiveBuffer | None:
        chunk = super().read(timeout_s, up_to)
        if chunk is not None:
            self.file, self.position = chunk.file, int(chunk.end_position[-1])
        return chunk


def _ends(stream: Any, high: LogPosition, **clock: Any) -> list[list[int]]:
    return [chunk.end_position.tolist() for chunk in buffers_until(stream, high, **clock)]


_HIGH = LogPosition("binlog.000002", 300)


def test_the_log_is_read_up_to_the_position_named() -> None:
    assert _ends(_Stream([_chunk(100, 200), None, _chunk(300, 400)]), _HIGH) == [[100, 200], [300]]
    assert _ends(_Stream([_chunk(100), _chunk(300), None]), _HIGH) == [[100], [300]]
    assert _ends(_Stream([_chunk(900, file="binlog.000001"), _chunk(300), _chunk(300), None]), _HIGH) == [
        [900],
        [300],
        [300],
    ]
    assert _ends(_Stream([_chunk(100), _chunk(4, file="binlog.000003")]), _HIGH) == [[100]]
    assert _ends(_Stream([_chunk(300), EndOfLog()]), _HIGH) == [[300]]


def test_a_log_that_does_not_come_is_an_error() -> None:
    with pytest.raises(SourceUnavailable, match="ends before"):
        _ends(_Stream([_chunk(100), EndOfLog()]), _HIGH)
    seconds = iter(range(0, 1000, 10))
    with pytest.raises(SourceUnavailable, match="did not arrive"):
        _ends(_Stream([_chunk(100)]), _HIGH, clock=lambda: next(seconds))


@together(
    "statement, names",
    [
        (b"ALTER TABLE `Orders` ADD x INT", True),
        (b"RENAME TABLE a TO shop.orders", True),
        (b"DROP DATABASE shop", True),
        (b"drop schema shop", True),
        (b"CREATE TABLE other (id INT)", False),
        (b"XA COMMIT 'orders'", False),
    ],
)
def test_statements_that_may_alter_the_table(statement: bytes, names: bool) -> None:
    assert names_table(_chunk(100, statement=statement), _TABLE) is names


def test_transactions_underway_as_the_server_shows_them() -> None:
    one, two = "739b999e-e5f4-11f1-ac53-02fc00000001", "12345678-1234-1234-1234-123456789012"
    assert parse_owned_gtids("") == GtidSet()
    assert parse_owned_gtids(f"{one}:17#8") == GtidSet.parse(f"{one}:17")
    assert parse_owned_gtids(f"{one}:17#8:19#21{two}:5#33") == GtidSet.parse(f"{one}:17:19,{two}:5")
    assert parse_owned_gtids(f"{one}:17#8,{one}:blue:3#9:4#12") == GtidSet.parse(f"{one}:17:blue:3-4")


def test_what_makes_a_table_another_one() -> None:
    first = _TABLE.columns[0]
    same = replace(_TABLE, comment="x", columns=(replace(first, comment="y", default="3"), *_TABLE.columns[1:]))
    assert difference(_TABLE, same) == ""
    assert difference(_TABLE, None) == "the table is gone"
    for column in (replace(first, name="Id"), replace(first, unsigned=True), replace(first, type="bigint")):
        assert difference(_TABLE, replace(_TABLE, columns=(column, *_TABLE.columns[1:])))
    assert difference(_TABLE, replace(_TABLE, columns=_TABLE.columns[:2]))
    assert difference(_TABLE, replace(_TABLE, columns=(*_TABLE.columns, first)))
    assert difference(_TABLE, replace(_TABLE, primary_key=("day",)))
    one = MySqlTable(_TABLE.id, (MySqlColumn("a", "tinyint", 1),))
    assert difference(one, replace(one, columns=(MySqlColumn("a", "tinyint", 4),)))


def test_a_throttle_keeps_the_rate() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    throttle = Throttle(1000, lambda: now[0], sleep)
    throttle.acquire(1000)
    throttle.acquire(500)
    assert slept == [1.0, 0.5], "nothing is free, not even the first rows"
    now[0] += timedelta(minutes=5).total_seconds()
    throttle.acquire(2500)
    assert slept[2:] == [pytest.approx(2.5 - BURST_S)], "hardly more after a long pause"
    Throttle(None, lambda: now[0], sleep).acquire(10**9)
    assert len(slept) == 3
