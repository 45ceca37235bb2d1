"""Segments into batches: one schema a table, limits, what is joined, where a batch is cut into parts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cdc.schema import TableId
from cdc.source import Limits
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import (
    ANONYMOUS,
    LEAST_SPLIT_BYTES,
    Segment,
    SegmentQueue,
    cut_points,
    end_offset,
    splits_of,
)
from connectors.mysql.server.positions import LogPosition

T, U, V = (TableId("shop", name) for name in "tuv")
NO_LIMIT = None
UUID = "11111111-2222-3333-4444-555555555555"


def segment(position: int, *tables: TableId, changed: Sequence[TableId] = (), **given: Any) -> Segment:
    fields: dict[str, Any] = {"bytes": 100, "rows": 10, **given}
    return Segment("binlog.000001", position, tables=frozenset(tables), changed=frozenset(changed), **fields)


def batches(*segments: Segment, limits: Limits | None = NO_LIMIT) -> list[list[Segment]]:
    queue = SegmentQueue()
    for item in segments:
        queue.put(item)
    out: list[list[Segment]] = []
    while batch := queue.poll(limits):
        out.append(batch)
    assert queue.bytes == 0
    return out


def positions(found: list[list[Segment]]) -> list[list[int]]:
    return [[item.position for item in batch] for batch in found]


def test_a_batch_ends_before_a_change_of_a_table_that_has_rows_in_it() -> None:
    found = batches(segment(1, T), segment(2, U), segment(3, T, changed=[T]), segment(4, T))
    assert positions(found) == [[1, 2], [3, 4]]


def test_a_change_of_a_table_without_rows_in_the_batch_does_not_end_it() -> None:
    found = batches(segment(1, T), segment(2, U, changed=[U]), segment(3, T, U), segment(4, V, changed=[V, U]))
    assert positions(found) == [[1, 2, 3], [4]]


def test_changes_one_after_the_other_share_a_batch() -> None:
    found = batches(segment(1, changed=[T]), segment(2, changed=[T]), segment(3, T, changed=[T]), segment(4, T))
    assert positions(found) == [[1, 2, 3, 4]]


def test_no_table_ever_has_rows_before_a_change_of_it_in_a_batch() -> None:
    chance = random.Random(11)
    for _ in range(200):
        tables = [T, U, V]
        log = [
            segment(
                position, *chance.sample(tables, chance.randrange(4)),
                changed=chance.sample(tables, chance.choice([0, 0, 1, 2])), bytes=chance.randrange(1, 300),
            )
            for position in range(20)
        ]  # fmt: skip
        limits = Limits(chance.choice([1, 500, 1 << 30]), 1 << 30)
        found = batches(*log, limits=limits)
        for batch in found:
            seen: set[TableId] = set()
            for item in batch:
                assert seen.isdisjoint(item.changed)
                seen |= item.tables
            assert len(batch) == 1 or sum(item.bytes for item in batch) <= limits.max_bytes
        assert found[-1][-1].position == 19
        assert sum(item.bytes for batch in found for item in batch) == sum(item.bytes for item in log)


def test_limits_end_a_batch_and_one_segment_may_exceed_them() -> None:
    small = [segment(1, T), segment(2, T), segment(3, T, bytes=1000), segment(4, T)]
    assert positions(batches(*small, limits=Limits(200, 1000))) == [[1, 2], [3], [4]]
    assert positions(batches(*small, limits=Limits(1 << 40, 25))) == [[1, 2], [3, 4]]


def test_what_concerns_no_captured_table_is_joined() -> None:
    queue = SegmentQueue()
    for position in range(1, 101):
        queue.put(segment(position, gtids=((UUID, position, position),)))
    assert (len(queue), queue.bytes, queue.relevant) == (1, 10_000, False)
    queue.put(segment(101, T))
    assert (len(queue), queue.relevant) == (2, True)
    queue.put(segment(102))
    assert len(queue) == 3
    batch = queue.poll(None)
    assert [item.position for item in batch] == [100, 101, 102]
    assert len(batch[0].gtids) == 100


def test_a_segment_that_waits_alone_and_is_relevant_says_so() -> None:
    queue = SegmentQueue()
    assert not queue.relevant
    queue.put(segment(1, changed=[T]))
    assert queue.relevant


def test_the_end_offset_adds_up_the_gtids() -> None:
    start = MySqlOffset(LogPosition("binlog.000001"), f"{UUID}:1-5", server="s")
    done = [segment(7, T, gtids=((UUID, 6, 7),), schemas=1), segment(9, T, gtids=((UUID, 8, 8),), schemas=2)]
    assert end_offset(start, done) == MySqlOffset(LogPosition("binlog.000001", 9), f"{UUID}:1-8", 2, "s")
    assert end_offset(replace(start, gtids=""), done).gtids == f"{UUID}:6-8"  # a fresh server's empty set is known
    assert end_offset(replace(start, gtids=None), done).gtids is None  # a server without GTIDs
    maria = [segment(7, T, gtids=((0, 1, 12), (1, 1, 3)))]
    assert end_offset(replace(start, gtids="0-1-11"), maria).gtids == "0-1-12,1-1-3"
    assert end_offset(start, [segment(8)]).gtids == start.gtids
    nameless = [*done, segment(11, T, gtids=(ANONYMOUS,))]
    assert end_offset(start, nameless).gtids is None  # from here on no GTID set says what is done


def test_each_part_of_a_batch_has_its_gtids() -> None:
    start = MySqlOffset(LogPosition("binlog.000001"), f"{UUID}:1-5", server="s")
    size = LEAST_SPLIT_BYTES
    batch = [segment(10 * n, T, bytes=size, gtids=((UUID, 5 + n, 5 + n),)) for n in range(1, 5)]
    end = end_offset(start, batch)
    parts = [split.payload for split in splits_of(batch, start, end, 2)]
    assert [(part.start.position, part.end.position, part.after, part.upto, part.server) for part in parts] == [
        (4, 20, f"{UUID}:1-5", f"{UUID}:1-7", "s"), (20, 40, f"{UUID}:1-7", f"{UUID}:1-9", "s"),
    ]  # fmt: skip
    (whole,) = splits_of(None, start, end, 2)
    assert (whole.payload.after, whole.payload.upto) == (f"{UUID}:1-5", f"{UUID}:1-9")
    moved = replace(start, position=LogPosition("binlog.000007"), server="t")
    assert splits_of(None, start, moved, 2) == []  # it only moves


def test_log_before_the_first_rows_is_not_read() -> None:
    """The server's files up to there may be purged, as by FLUSH and PURGE BINARY LOGS behind a reader that waits."""
    start = MySqlOffset(LogPosition("binlog.000001", 500), f"{UUID}:1-5", server="s")
    new_file, rows = LogPosition("binlog.000002", 157), LogPosition("binlog.000002", 900)
    batch = [
        Segment(new_file.file, new_file.position, gtids=((UUID, 6, 6),)),
        Segment(rows.file, rows.position, 700, 1, frozenset({T}), gtids=((UUID, 7, 7),)),
    ]
    (read,) = (split.payload for split in splits_of(batch, start, end_offset(start, batch), 2))
    assert (read.start, read.end, read.after, read.upto) == (new_file, rows, f"{UUID}:1-6", f"{UUID}:1-7")


def sizes(batch: Sequence[Segment], ends: Sequence[Segment]) -> list[int]:
    out: list[int] = []
    size = 0
    for item in batch:
        size += item.bytes
        if item in ends:
            out.append(size)
            size = 0
    return out


def test_a_big_batch_is_cut_into_parts_of_about_one_size() -> None:
    batch = [segment(position, T, bytes=10) for position in range(1000)]
    ends = cut_points(batch, 4, 100)
    assert ends[-1] is batch[-1]
    assert sizes(batch, ends) == [2500] * 4


def test_a_small_batch_stays_in_one_part() -> None:
    batch = [segment(position, T) for position in range(10)]
    assert cut_points(batch, 8, 1 << 20) == [batch[-1]]
    assert cut_points(batch, 8, 400) == [batch[4], batch[9]]
    assert cut_points(batch[:1], 8, 1) == batch[:1]


def test_one_huge_segment_does_not_make_empty_parts() -> None:
    batch = [segment(1, T, bytes=10_000), *(segment(position, T, bytes=10) for position in range(2, 12))]
    ends = cut_points(batch, 4, 10)
    assert len(ends) <= 4
    assert ends[0] is batch[0]
    assert all(size > 0 for size in sizes(batch, ends))
    assert sum(sizes(batch, ends)) == sum(item.bytes for item in batch)
