"""One table is paused and resumed while the pipeline goes on: nothing is lost or doubled, whatever comes in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from live_source import ROWS, LiveSource
from test_moved_routes import ID, NEW, NOTE, OLD, SMALL, WIDE, rows, to
from test_rule_stage import STRING, rules

from cdc import events as on
from cdc.errors import SpecError, TransformError
from cdc.flow.middle import Middle
from cdc.schema import (
    AddColumn,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameTable,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.pauses import PauseReader
from cdc.tables.requests import Mailbox, RequestKind
from cdc.tables.states import TableState
from cdc.testing import FailAt, ListSink, block, run_in_memory

A, B, C = TableId("shop", "a"), TableId("shop", "b"), TableId("shop", "c")
SAME = to()
LENIENT = to(behavior="lenient")


class Pipeline:
    """One that has run with the rows 1 and 2 in A, and 1 in B."""

    def __init__(self, folder: Path, middle: Middle = SAME, schema: TableSchema = SMALL) -> None:
        self.state, self.middle, self.sink = StateDir(folder), middle, ListSink()
        first = [CreateTable(A, schema), CreateTable(B, SMALL), rows(schema, 1, 2), rows(SMALL, 1, table=B)]
        self.source = LiveSource(first, {})
        self._start: Any = None
        self._batches = 0
        self.run()

    def run(self, *items: Any) -> None:
        """Go on with these items, and with the copies that they lead to."""
        self.source.add(*items)
        done = run_in_memory(
            self.source, self.sink, middle=self.middle, state=self.state, start=self._start, first_batch=self._batches
        )
        self._start, self._batches = done.offset, self._batches + done.batches

    def pause(self, table: TableId = A) -> None:
        Mailbox(self.state.store).add(table, RequestKind.PAUSE)

    def resume(self, table: TableId = A, **copied: Any) -> None:
        self.source.now[table] = copied["now"]
        Mailbox(self.state.store).add(table, RequestKind.RESUME)

    def ids(self, table: TableId = A) -> list[int]:
        return sorted(row["id"] for row in self.sink.rows(table))

    @property
    def held(self) -> tuple[set[TableId], set[TableId]]:
        found = PauseReader(self.state).tables()
        return set(found.paused), set(found.resumed)


def late(*numbers: int, table: TableId = A, schema: TableSchema = SMALL, sequence: int = 5) -> Any:
    return rows(schema, *numbers, table=table, sequence=sequence)


@pytest.mark.parametrize("middle", [SAME, LENIENT, to(behavior="try_evolve")])
def test_a_paused_table_stays_as_it_is_and_a_resumed_one_is_whole(tmp_path: Path, middle: Middle) -> None:
    pipeline = Pipeline(tmp_path, middle)
    pipeline.pause()
    pipeline.run(late(3), late(2, table=B), block(A, SMALL, [("-D", {"id": 1})], sequence=6))
    assert (pipeline.ids(), pipeline.ids(B)) == ([1, 2], [1, 2])
    assert pipeline.held == ({A}, set())
    pipeline.run(late(4, sequence=7), late(3, table=B, sequence=8))
    assert (pipeline.ids(), pipeline.ids(B)) == ([1, 2], [1, 2, 3])
    pipeline.resume(now=late(2, 3, 4, sequence=20))
    pipeline.run(late(4, table=B, sequence=9))
    pipeline.run(late(5, sequence=21))
    gone = [1] if middle is LENIENT else []
    assert (pipeline.ids(), pipeline.ids(B)) == ([*gone, 2, 3, 4, 5], [1, 2, 3, 4])
    assert pipeline.held == (set(), set())
    assert Mailbox(pipeline.state.store).open() == []


@pytest.mark.parametrize("failure", list(FailAt))
def test_a_crash_on_the_way_changes_nothing(tmp_path: Path, failure: FailAt) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.pause()
    pipeline.run(late(3), failure, late(2, table=B))
    assert (pipeline.ids(), pipeline.ids(B)) == ([1, 2], [1, 2])
    pipeline.resume(now=late(1, 2, 3, sequence=20))
    pipeline.run(late(3, table=B, sequence=9), failure)
    pipeline.run()
    assert (pipeline.ids(), pipeline.ids(B)) == ([1, 2, 3], [1, 2, 3])
    assert len(pipeline.source.requests) == 1


def test_schema_changes_and_a_truncation_of_a_paused_table_come_with_its_copy(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.pause()
    pipeline.run(AddColumn(A, NOTE), late(3, schema=WIDE), TruncateTable(A), late(4, schema=WIDE, sequence=6))
    assert pipeline.ids() == [1, 2]
    assert set(pipeline.sink.rows(A)[0]) == {"id"}
    pipeline.resume(now=rows(WIDE, 4, sequence=20))
    pipeline.run(late(9, table=B))
    assert pipeline.ids() == [4]
    assert set(pipeline.sink.rows(A)[0]) == {"id", "note"}


def test_a_paused_table_that_is_renamed_is_paused_under_its_new_name(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.pause()
    pipeline.run(RenameTable(A, C), late(3, table=C))
    assert pipeline.ids(C) == [1, 2]
    assert pipeline.held == ({C}, set())
    pipeline.resume(C, now=late(1, 2, 3, table=C, sequence=20))
    pipeline.run(late(9, table=B))
    assert pipeline.ids(C) == [1, 2, 3]


def test_what_was_asked_for_last_counts_when_a_crash_undoes_the_removal_of_what_came_before(tmp_path: Path) -> None:
    now = [1000.0, 1000.5, 900.0]
    requests = Mailbox(StateDir(tmp_path).store, lambda: now.pop(0))
    pause = requests.add(A, RequestKind.PAUSE)
    (file,) = (tmp_path / "requests").iterdir()
    kept = file.read_bytes()
    requests.remove([pause])
    resume = requests.add(A, RequestKind.RESUME)
    file.write_bytes(kept)  # a store that had not got the removal
    assert requests.open() == [pause, resume]
    again = requests.add(A, RequestKind.PAUSE)  # by a clock that went back
    assert requests.open() == [pause, resume, again]


def test_a_paused_table_that_is_dropped_is_forgotten_and_one_of_its_name_is_followed(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.pause()
    pipeline.run(late(3))
    pipeline.run(DropTable(A), CreateTable(A, SMALL), late(7, sequence=9))
    assert pipeline.ids() == [7]
    assert pipeline.held == (set(), set())


def test_a_copy_under_way_is_let_go_and_starts_over_when_the_table_is_resumed(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.source.now[A] = late(1, 2, 3, sequence=20)
    pipeline.pause()
    pipeline.source.begin(A, "somebody")
    pipeline.run()
    assert pipeline.ids() == [1, 2]
    assert pipeline.held == ({A}, set())
    pipeline.resume(now=late(1, 3, sequence=30))
    pipeline.run(late(9, table=B, sequence=31))
    assert pipeline.ids() == [1, 3]


def test_the_last_word_counts(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    for _ in range(12):
        pipeline.pause()
        pipeline.resume(now=late(1, 2, sequence=20))
    pipeline.pause()
    assert pipeline.held == ({A}, set())
    pipeline.run(late(3))
    assert pipeline.ids() == [1, 2]
    assert pipeline.held == ({A}, set())
    assert pipeline.source.requests == {}


def test_one_of_several_tables_of_a_sink_table_goes_on(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, to((A, NEW), (B, NEW)))
    pipeline.pause(B)
    pipeline.run(late(3, table=B), late(4))
    assert pipeline.ids(NEW) == [1, 2, 3, 4]
    assert pipeline.held == (set(), set())


def test_a_table_that_is_joined_by_another_while_it_is_paused_is_whole_with_it(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, to((A, NEW), (B, OLD), (C, NEW)))
    pipeline.pause()
    pipeline.run(late(3), CreateTable(C, SMALL), late(7, table=C, sequence=6))
    assert pipeline.ids(NEW) == [1, 2, 7]
    pipeline.source.now[C] = late(7, table=C, sequence=20)
    pipeline.source.begin(C, "somebody")
    pipeline.run()
    assert pipeline.ids(NEW) == [1, 2, 7]
    pipeline.resume(now=late(2, 3, sequence=30))
    pipeline.run(late(9, table=B, sequence=31))
    assert pipeline.ids(NEW) == [2, 3, 7]
    assert pipeline.held == (set(), set())


def test_the_copy_that_is_under_way_when_a_table_is_paused_never_takes_its_place(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.run(on.SnapshotBegun(A), replace(late(2, sequence=20), streams=ROWS))
    pipeline.pause()
    pipeline.run(late(2, table=B))
    pipeline.run(replace(late(3, sequence=21), streams=ROWS), on.SnapshotDone(A))
    assert pipeline.ids() == [1, 2]
    pipeline.resume(now=late(2, 3, sequence=30))
    pipeline.run(late(9, table=B, sequence=31))
    assert pipeline.ids() == [2, 3]


def test_a_paused_table_that_goes_elsewhere_stays_paused_there(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.pause()
    pipeline.run(late(3))
    pipeline.middle = to((A, NEW))
    pipeline.run(late(4, sequence=6))
    assert (pipeline.ids(), pipeline.ids(NEW)) == ([1, 2], [])
    pipeline.resume(now=late(1, 2, 3, 4, sequence=20))
    pipeline.run(late(9, table=B, sequence=8))
    assert pipeline.ids(NEW) == [1, 2, 3, 4]


def test_no_rule_and_no_sink_meets_a_row_of_a_paused_table(tmp_path: Path) -> None:
    """Not even one that would stop the pipeline, as a table that nobody knows of would."""
    other = TableSchema((ID, Column("x", DataType.parse("BOOLEAN"))), ("id",))
    pipeline = Pipeline(tmp_path)
    pipeline.pause()
    pipeline.run(late(3, schema=other), late(2, table=B))
    assert pipeline.ids(B) == [1, 2]


DOUBLED = replace(SAME, rules=rules(("shop.a", {"projection": "id, note, LENGTH(note) AS size"})))


def noted(*numbers: int, schema: TableSchema = WIDE, sequence: int = 5) -> Any:
    names = set(schema.names)
    images = [("+I", {name: value for name, value in (("id", n), ("note", "x" * n)) if name in names}) for n in numbers]
    return block(A, schema, images, sequence=sequence)


def of_rules(folder: Path) -> Pipeline:
    """One whose rule names the column `note` of A."""
    pipeline = Pipeline(folder, DOUBLED, WIDE)
    pipeline.run(noted(3))
    return pipeline


def test_a_change_that_the_rule_does_not_fit_is_held_while_the_table_is_paused(tmp_path: Path) -> None:
    """Also where the pipeline has stopped with it, which a pause then mends."""
    pipeline = of_rules(tmp_path)
    with pytest.raises(TransformError, match="dropped the column note, which the rule names"):
        pipeline.run(DropColumn(A, "note"))
    pipeline.pause()
    pipeline.run(late(4, sequence=7), late(2, table=B))
    pipeline.run(AddColumn(A, Column("more", STRING)), late(3, table=B, sequence=9))
    assert (pipeline.ids(), pipeline.ids(B)) == ([1, 2, 3], [1, 2, 3])
    assert set(pipeline.sink.rows(A)[0]) == {"id", "note", "size"}

    again = TableSchema((*SMALL.columns, Column("more", STRING), NOTE), ("id",))
    pipeline.run(AddColumn(A, NOTE))
    pipeline.resume(now=noted(1, 2, 4, schema=again, sequence=20))
    pipeline.run(late(4, table=B, sequence=21))
    assert sorted(row["size"] for row in pipeline.sink.rows(A)) == [1, 2, 4]


def test_a_rule_that_does_not_fit_stops_the_run_once_the_table_is_resumed_until_it_is_edited(tmp_path: Path) -> None:
    pipeline = of_rules(tmp_path)
    pipeline.pause()
    pipeline.run(DropColumn(A, "note"), late(2, table=B))
    pipeline.resume(now=late(1, 4, sequence=20))
    with pytest.raises(SpecError, match="note"):
        pipeline.run(late(3, table=B, sequence=8))
    pipeline.middle = replace(SAME, rules=rules(("shop.a", {"projection": "id, id * 2 AS twice"})))
    pipeline.run()
    assert sorted((row["id"], row["twice"]) for row in pipeline.sink.rows(A)) == [(1, 2), (4, 8)]
    assert pipeline.ids(B) == [1, 2, 3]


@pytest.mark.parametrize("failure", list(FailAt))
def test_a_paused_table_that_the_rule_does_not_fit_keeps_its_pause_under_another_name(
    tmp_path: Path, failure: FailAt
) -> None:
    pipeline = of_rules(tmp_path)
    pipeline.pause()
    pipeline.run(DropColumn(A, "note"), failure, RenameTable(A, C), late(7, table=C, sequence=9))
    assert (pipeline.ids(C), pipeline.held) == ([1, 2, 3], ({C}, set()))


def test_a_table_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.pause(C)
    pipeline.resume(C, now=late(1, table=C))
    before = TableLog(pipeline.state.store).at(99).tables
    pipeline.run(late(3))
    after = TableLog(pipeline.state.store).at(99).tables
    assert after.in_state(TableState.PAUSED) == before.in_state(TableState.PAUSED) == frozenset()
    assert pipeline.ids() == [1, 2, 3]


def test_an_idle_pipeline_takes_a_request_in_at_once(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.pause()
    pipeline.run()
    assert (pipeline.held, Mailbox(pipeline.state.store).is_empty()) == (({A}, set()), True)
    pipeline.resume(now=late(1, 2, 3, sequence=20))
    pipeline.run()
    assert (pipeline.ids(), pipeline.held) == ([1, 2, 3], (set(), set()))


@pytest.mark.parametrize("failure", list(FailAt))
def test_a_crash_in_an_empty_batch_changes_nothing(tmp_path: Path, failure: FailAt) -> None:
    pipeline = Pipeline(tmp_path)
    pipeline.pause()
    pipeline.source.failures = lambda start, end: [failure]  # type: ignore[method-assign]
    pipeline.run()
    assert pipeline.held == ({A}, set())
