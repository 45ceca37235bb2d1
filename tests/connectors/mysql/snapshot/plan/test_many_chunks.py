"""What a batch costs when twenty thousand chunks are planned: by what is new, not by what there is. No server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cdc.schema import TableId
from cdc.state import append_log
from cdc.state.store import LocalStore
from connectors.mysql.snapshot.chunk import Begin, Chunk, Entry, Watermark
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan
from connectors.mysql.snapshot.plan.table_snapshots import TableSnapshot, TableSnapshots

T = TableId("shop", "t")
MANY = 20_000


def chunk(number: int, **more: Any) -> Chunk:
    return Chunk(number, T, ("id",), (number,), (number + 1,), collations=(None,), **more)


def mark(number: int, *, done: bool = True) -> Watermark:
    return Watermark(number, done, 1000 + number, "binlog.000001", 4, 5)


@cache
def planned() -> list[Entry]:
    return [Begin(T, "initial"), *(chunk(number) for number in range(1, MANY + 1))]


class CountedMarks(Mapping[int, Watermark]):
    """Watermarks that count how often one is looked up."""

    def __init__(self, marks: dict[int, Watermark]) -> None:
        self.marks, self.asked = marks, 0

    def __getitem__(self, number: int) -> Watermark:
        self.asked += 1
        return self.marks[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self.marks)

    def __len__(self) -> int:
        return len(self.marks)


def all_questions(snapshot: TableSnapshot, before: int, marks: Mapping[int, Watermark]) -> tuple[Any, ...]:
    """What the planning of one batch asks."""
    return (
        snapshot.is_done(before, marks), snapshot.highest(before, marks),
        [c.number for c in snapshot.waiting(before, marks)],
        [c.number for c in snapshot.unknown(before, marks)], snapshot.is_finished(before, marks, 0),
        list(snapshot.planned_since(before)),
    )  # fmt: skip


def test_a_batch_looks_at_the_chunks_that_are_new() -> None:
    snapshots = TableSnapshots()
    for entry in planned():
        snapshots.apply(entry)
    snapshot, marks = snapshots.tables[T], CountedMarks({number: mark(number) for number in range(1, MANY + 1)})
    all_questions(snapshot, MANY + 1, marks)
    marks.asked = 0
    for number in range(MANY + 1, MANY + 9):
        snapshots.apply(chunk(number))
    assert all_questions(snapshot, MANY + 1, marks)[-1] == list(range(MANY + 8, MANY, -1))
    marks.marks |= {number: mark(number, done=number != MANY + 3) for number in range(MANY + 1, MANY + 9)}
    waiting = [MANY + 3]
    assert all_questions(snapshot, MANY + 9, marks) == (False, marks.marks[MANY + 8], waiting, [], False, [])
    assert marks.asked < 100


def test_answers_do_not_depend_on_what_was_asked_before() -> None:
    """A replayed batch asks about fewer entries, another process has other watermarks."""
    marks = {1: mark(1), 2: mark(2, done=False), 3: mark(3), 5: mark(5)}
    entries = [*planned()[:4], chunk(4, replaces=2), chunk(5, last=True), chunk(6, replaces=4)]
    asked, more = TableSnapshots(), {**marks, 4: mark(4, done=False), 6: mark(6)}
    for count, entry in enumerate(entries, start=1):
        asked.apply(entry)
        for before, known in ((count, marks), (2, marks), (count, more), (count - 1, more), (1, more)):
            fresh = TableSnapshots()
            for earlier in entries[:count]:
                fresh.apply(earlier)
            if any(c.number < before and c.number not in known for c in fresh.tables[T].chunks):
                continue
            assert all_questions(asked.tables[T], before, known) == all_questions(fresh.tables[T], before, known)
    assert asked.tables[T].is_done(7, more)
    assert not asked.tables[T].is_done(6, more)


@pytest.mark.slow
def test_the_plan_is_read_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ChunkPlan(LocalStore(tmp_path)).append(planned())
    opened = 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal opened
        opened += 1
        return open(*args, **options)

    monkeypatch.setattr(append_log, "open", counted, raising=False)
    plan = ChunkPlan(LocalStore(tmp_path))
    assert len(plan.snapshots(len(planned()))[T].chunks) == MANY
    assert 0 < opened < 10
