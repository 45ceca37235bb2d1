"""Routes that are edited between two runs: tables go elsewhere with all their rows, and nothing else moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from live_source import LiveSource
from tiers import EXHAUSTIVE
from together import together
from transform_rules import text

from cdc import events as on
from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, EditRefused, EngineError, SinkError
from cdc.evolution.apply import apply_changes
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink import Prepared, TaskAttempt
from cdc.sink_columns import Coercion
from cdc.spec.model import RouteRule
from cdc.testing import FailAt, ListSink, block, run_in_memory
from cdc.transform.rules import Rules
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts

A, B, SPARE = (TableId("shop", name) for name in ("a", "b", "spare"))
OLD, NEW, OTHER = (TableId("ods", name) for name in ("old", "new", "other"))
ID = Column("id", DataType.parse("INT"), nullable=False)
NOTE = Column("note", DataType.parse("STRING"))
SMALL = TableSchema((ID,), ("id",))
WIDE = TableSchema((ID, NOTE), ("id",))


def to(*targets: tuple[TableId, TableId], behavior: str = "evolve") -> Middle:
    rules = [RouteRule(source_table=str(source), sink_table=str(sink)) for source, sink in targets]
    return Middle(RouteTable(rules), Policy(Behavior(behavior)), Coercion("fail"))


def rows(schema: TableSchema, *numbers: int, table: TableId = A, sequence: int = 1) -> Any:
    return block(table, schema, [("+I", {"id": number}) for number in numbers], sequence=sequence)


class Pipeline:
    """A pipeline whose file is edited between its runs."""

    def __init__(self, folder: Path, source: LiveSource) -> None:
        self.folder, self.source, self.sink = folder, source, ListSink()
        self._start: Any = None
        self._batches = 0
        self.done: Any = None

    def run(self, middle: Middle) -> None:
        self.done = run_in_memory(
            self.source, self.sink, middle=middle, state=self.folder, start=self._start, first_batch=self._batches,
            limits=None,
        )  # fmt: skip
        self._start, self._batches = self.done.offset, self._batches + self.done.batches

    def ids(self, table: TableId) -> list[int]:
        return sorted(row["id"] for row in self.sink.rows(table))


@pytest.fixture(params=["evolve", "lenient", pytest.param("try_evolve", marks=EXHAUSTIVE)])
def behavior(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def moving(tmp_path: Path, behavior: str) -> Pipeline:
    """One that has run with its table in OLD, rows 1 and 2; row 3 comes when it goes to another one, 2 leaves."""
    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1, 2)], {A: rows(SMALL, 1, 3, sequence=9)})
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(to((A, OLD), behavior=behavior))
    source.add(rows(SMALL, 3, sequence=2), block(A, SMALL, [("-D", {"id": 2})], sequence=3))
    return pipeline


def test_a_table_that_goes_elsewhere_is_whole_there(moving: Pipeline, behavior: str) -> None:
    moving.run(to((A, NEW), behavior=behavior))
    assert moving.ids(NEW) == [1, 3]
    assert moving.ids(OLD) == [1, 2]
    assert moving.done.reasons["route.moved ods.new"] == 1


def test_it_can_be_moved_back(moving: Pipeline, behavior: str) -> None:
    moving.run(to((A, NEW), behavior=behavior))
    moving.source.add(rows(SMALL, 4, sequence=4))
    moving.source.now[A] = rows(SMALL, 1, 3, 4, sequence=20)
    moving.run(to((A, OLD), behavior=behavior))
    assert moving.ids(OLD) == [1, 3, 4]
    assert moving.ids(NEW) == [1, 3]


@pytest.mark.parametrize("failure", list(FailAt))
def test_a_crash_on_the_way_changes_nothing(moving: Pipeline, behavior: str, failure: FailAt) -> None:
    moving.source.add(failure)
    moving.run(to((A, NEW), behavior=behavior))
    assert moving.ids(NEW) == [1, 3]
    assert len(moving.source.requests) == 1


def test_a_second_place_leaves_the_first_as_it_is(moving: Pipeline, behavior: str) -> None:
    moving.run(to((A, OLD), (A, NEW), behavior=behavior))
    assert moving.ids(OLD) == moving.ids(NEW) == [1, 3] or behavior == "lenient"
    assert moving.ids(NEW) == [1, 3]


def test_changes_of_a_table_that_waits_come_with_its_copy(moving: Pipeline, behavior: str) -> None:
    moving.source.add(AddColumn(A, NOTE), rows(WIDE, 5, sequence=5))
    moving.source.now[A] = rows(WIDE, 1, 3, 5, sequence=20)
    moving.run(to((A, NEW), behavior=behavior))
    assert moving.ids(NEW) == [1, 3, 5]
    assert all(set(row) == {"id", "note"} for row in moving.sink.rows(NEW))


def test_a_table_that_is_renamed_while_it_waits_is_copied_under_its_new_name(tmp_path: Path) -> None:
    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1, 2)], {B: rows(SMALL, 1, 2, 3, table=B, sequence=9)})
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(to((A, OLD), (B, OLD)))
    source.now[A] = source.now[B]
    source.add(RenameTable(A, B), rows(SMALL, 3, table=B, sequence=2))
    pipeline.run(to((A, NEW), (B, NEW)))
    assert pipeline.ids(NEW) == [1, 2, 3]
    assert list(source.requests.values()) == [B]


def test_a_table_that_is_dropped_while_it_waits_needs_no_copy_any_more(tmp_path: Path) -> None:
    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], {})
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(to((A, OLD)))
    source.add(DropTable(A), CreateTable(A, WIDE), rows(WIDE, 7, sequence=5))
    pipeline.run(to((A, NEW)))
    assert (pipeline.ids(NEW), source.requests) == ([7], {})


def test_a_table_that_joins_others_is_written_among_them(moving: Pipeline, tmp_path: Path) -> None:
    moving.source.add(CreateTable(B, WIDE), rows(WIDE, 100, table=B, sequence=4))
    moving.run(to((A, OLD), (B, NEW)))
    moving.source.add(TruncateTable(A), rows(SMALL, 9, sequence=6))
    moving.source.now[A] = rows(SMALL, 9, sequence=20)
    moving.run(to((A, NEW), (B, NEW)))
    assert moving.ids(NEW) == [9, 100]
    assert moving.done.reasons.keys() == {"route.moved ods.new", "route.moved ods.old"}


def test_a_source_that_does_not_copy_stops_before_anything_is_done(moving: Pipeline, behavior: str) -> None:
    moving.source.allowed = False
    with pytest.raises(
        ChangeRefused, match="its rows go to another table of the sink, and its source does not re-snapshot"
    ):
        moving.run(to((A, NEW), behavior=behavior))
    assert moving.sink.tables == {OLD}
    moving.run(to((A, OLD), behavior=behavior))  # taken back
    assert moving.ids(OLD) == [1, 3]


def test_another_shard_column_is_refused_with_both_names(moving: Pipeline) -> None:
    rule = RouteRule(source_table=str(A), sink_table=str(OLD), shard_column="origin")
    edited = Middle(RouteTable([rule]), Policy(Behavior.EVOLVE), Coercion("fail"))
    with pytest.raises(EditRefused, match=r"the shard-column of shop\.a was none and is origin now"):
        moving.run(edited)


def test_tables_go_elsewhere_as_the_rules_that_are_edited_with_the_routes_make_them(tmp_path: Path) -> None:
    """The table's name is in the key: by a shard column, by a rule, and by a shard column again."""
    source = LiveSource(
        [CreateTable(A, SMALL), CreateTable(B, SMALL), rows(SMALL, 1), rows(SMALL, 1, table=B, sequence=2)],
        {A: rows(SMALL, 1, sequence=9), B: rows(SMALL, 1, table=B, sequence=9)},
    )
    pipeline = Pipeline(tmp_path, source)
    made = RuleTexts(projection=text(r"\*, __table_name__ AS origin"), primary_keys=text("origin, id"))
    named = Rules([RuleSource("transform[0]", r"shop.\.*", made)], RuleSettings())

    def sharded(sink: TableId) -> Middle:
        rule = RouteRule(source_table=r"shop.\.*", sink_table=str(sink), shard_column="origin")
        return Middle(RouteTable([rule]), Policy(Behavior.EVOLVE), Coercion("fail"))

    edited = (sharded(OLD), replace(to((A, NEW), (B, NEW)), rules=named), sharded(OTHER))
    for number, middle in enumerate(edited):
        source.add(rows(SMALL, 1, sequence=3 + number))
        pipeline.run(middle)
    for table, origins in ((OLD, ["shop.a", "shop.b"]), (NEW, ["a", "b"]), (OTHER, ["shop.a", "shop.b"])):
        found = sorted((row["origin"], row["id"]) for row in pipeline.sink.rows(table))
        assert found == [(name, 1) for name in origins]


def test_a_table_that_is_left_out_at_the_time_does_not_stand_in_the_way(moving: Pipeline, behavior: str) -> None:
    moving.source.allowed = False  # type: ignore[method-assign]
    moving.source.left_out.add(A)
    moving.source._items = moving.source._items[:2]  # no rows of it come
    moving.source.add(CreateTable(B, SMALL), rows(SMALL, 7, table=B, sequence=4))
    moving.run(to((A, NEW), (B, OTHER), behavior=behavior))
    assert (moving.ids(OTHER), moving.source.requests) == ([7], {})
    moving.source.add(DropTable(A), CreateTable(A, SMALL), rows(SMALL, 8, sequence=30))  # as it is taken in again
    moving.run(to((A, NEW), (B, OTHER), behavior=behavior))
    assert moving.ids(NEW) == [8]


def test_a_table_taken_in_again_before_a_batch_without_it_is_decided_is_named_with_a_way_out(
    moving: Pipeline, behavior: str
) -> None:
    """A source reads the batch by the edited file, which does not begin the table anew there."""
    moving.source.left_out.add(A)
    moving.source._items = moving.source._items[:2]  # no rows of it come
    moving.source.add(CreateTable(B, SMALL))
    moving.run(to((A, OLD), behavior=behavior))
    moving.source.left_out.clear()
    moving.source.add(rows(SMALL, 5, sequence=20))
    with pytest.raises(EngineError, match=r"state is detached.* once with the table left out \(tables\.exclude\)"):
        moving.run(to((A, OLD), behavior=behavior))


class Away(ListSink):
    """Takes no row as long as it is away."""

    away = False

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        if self.away:
            raise SinkError("is away")
        return super().prepare(task, blocks)

    def interrupt(self, pipeline: Pipeline, middle: Middle) -> None:
        """Run a batch whose schema changes are carried out, and that is not decided."""
        self.away = True
        with pytest.raises(SinkError, match="is away"):
            pipeline.run(middle)
        self.away = False


SWAP = [RenameTable(A, SPARE), RenameTable(B, A), RenameTable(SPARE, B)]


@together(
    "renames, edited, left",
    [
        ([RenameTable(A, SPARE)], to((A, NEW), (SPARE, NEW)), {A: [1], B: [2], NEW: [1, 7]}),
        ([RenameTable(A, SPARE)], to(behavior="ignore"), {A: [1], B: [2], SPARE: [7]}),
        (SWAP, to(behavior="ignore"), {A: [1], B: [2, 7], SPARE: []}),
        (SWAP, to(), {A: [2], B: [1, 7]}),
    ],
)
def test_a_rename_that_was_carried_out_and_is_not_planned_any_more_is_taken_back(
    tmp_path: Path, renames: list[SchemaChange], edited: Middle, left: dict[TableId, list[int]]
) -> None:
    """The run stopped after it, and the file was edited before the batch was decided."""
    first = [CreateTable(A, SMALL), CreateTable(B, SMALL), rows(SMALL, 1), rows(SMALL, 2, table=B)]
    last = renames[-1].new_table
    now = {table: rows(SMALL, 1, 7, table=table, sequence=9) for table in (last, A)}
    pipeline = Pipeline(tmp_path, source := LiveSource(first, now))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(*renames, rows(SMALL, 7, table=last, sequence=3))
    sink.interrupt(pipeline, to())
    assert A not in sink.tables or len(renames) > 1
    pipeline.run(edited)
    assert {table: pipeline.ids(table) for table in sink.tables} == left


@pytest.mark.parametrize(
    "change", [DropColumn(A, "note"), RenameColumn(A, "note", "text")], ids=lambda change: type(change).__name__
)
def test_a_column_that_was_taken_away_and_stays_by_the_edited_file_is_added_again(
    tmp_path: Path, change: SchemaChange
) -> None:
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, WIDE), rows(WIDE, 1)], {}))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    after = apply_changes({A: WIDE}, [change])[A]
    source.add(change, rows(after, 2, sequence=3))
    sink.interrupt(pipeline, to())
    pipeline.run(to(behavior="lenient"))
    assert pipeline.ids(A) == [1, 2]
    assert "note" in sink.rows(A)[-1]


def test_one_that_cannot_be_taken_back_refuses_the_edit(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], {}))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(RenameTable(A, B), rows(SMALL, 7, table=B, sequence=3))
    sink.interrupt(pipeline, to())
    sink.apply(99, [CreateTable(A, WIDE)])  # by somebody else
    with pytest.raises(EditRefused, match=r"renamed to shop\.b in a batch that is not decided"):
        pipeline.run(to(behavior="ignore"))
    pipeline.run(to())
    assert pipeline.ids(B) == [1, 7]


def test_a_table_that_the_batch_has_made_under_the_old_name_goes_when_that_is_taken_back(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], {}))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(RenameTable(A, B), CreateTable(A, WIDE), RenameTable(A, SPARE), rows(WIDE, 7, table=SPARE, sequence=3))
    sink.interrupt(pipeline, to())
    pipeline.run(to((B, NEW), (SPARE, OTHER)))
    assert (pipeline.ids(NEW), pipeline.ids(OTHER)) == ([1], [7])
    assert sink.tables == {NEW, OTHER}


@together("columns", [r"\*, id + 1 AS more", r"\*, 'a' AS more"])
@together(
    "changes, left",
    [
        ([CreateTable(SPARE, SMALL), RenameTable(SPARE, B)], {A: [1], B: [7]}),
        ([RenameTable(A, SPARE), CreateTable(A, SMALL), RenameTable(A, B), RenameTable(SPARE, A)], {A: [1], B: [7]}),
        ([CreateTable(SPARE, SMALL), RenameTable(SPARE, NEW), DropTable(NEW), CreateTable(B, SMALL)], {A: [1], B: [7]}),
    ],
)
def test_a_table_that_the_batch_has_made_and_renamed_gets_the_columns_of_the_edited_rules(
    tmp_path: Path, changes: list[SchemaChange], left: dict[TableId, list[int]], columns: str
) -> None:
    made = RuleTexts(projection=text(columns))
    ruled = replace(to(), rules=Rules([RuleSource("transform[0]", r"shop.[bs]\.*", made)], RuleSettings()))
    now = {A: rows(SMALL, 1, sequence=9), B: rows(SMALL, 7, table=B, sequence=9)}
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], now))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(*changes, rows(SMALL, 7, table=B, sequence=3))
    sink.interrupt(pipeline, to())
    pipeline.run(ruled)
    assert {table: pipeline.ids(table) for table in (A, B)} == left
    assert "more" in sink.rows(B)[0]
    assert sink.tables - {SPARE} == {A, B}


@together("created", [[A], [B], [A, B], []])
def test_a_rename_whose_table_the_batch_has_dropped_since_is_not_undone_with_a_new_table(
    tmp_path: Path, created: list[TableId]
) -> None:
    """The rows are gone from the sink, and the edited file is to keep them."""
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], {}))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(RenameTable(A, B), DropTable(B))
    source.add(*(CreateTable(table, SMALL) for table in created))
    source.add(*(rows(SMALL, 7, table=table, sequence=3) for table in created))
    sink.interrupt(pipeline, to())
    with pytest.raises(EditRefused, match=r"no such rename any more, and it was dropped there, with its rows"):
        pipeline.run(to(behavior="ignore"))
    pipeline.run(to())
    assert {table: pipeline.ids(table) for table in sink.tables} == {table: [7] for table in created}


@together(
    "changes",
    [
        [DropColumn(A, "note"), RenameTable(A, B)],
        [RenameTable(A, B), DropColumn(B, "note")],
        [RenameTable(A, SPARE), DropColumn(SPARE, "note"), RenameTable(SPARE, B)],
        [DropColumn(A, "note"), RenameTable(A, B), CreateTable(A, WIDE)],
    ],
)
def test_a_column_that_was_taken_away_comes_back_to_the_table_under_its_new_name(
    tmp_path: Path, changes: list[SchemaChange]
) -> None:
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, WIDE), rows(WIDE, 1)], {}))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(*changes, rows(SMALL, 7, table=B, sequence=3))
    sink.interrupt(pipeline, to())
    pipeline.run(to(behavior="lenient"))
    assert sink.tables == ({A, B} if CreateTable(A, WIDE) in changes else {B})
    assert [(row["id"], row["note"]) for row in sink.rows(B)] == [(1, None), (7, None)]


def test_a_shadow_table_whose_table_the_batch_has_renamed_already_does_not_begin_again(tmp_path: Path) -> None:
    now = {B: rows(SMALL, 1, 7, table=B, sequence=9)}
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], now))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(on.SnapshotBegun(A))
    pipeline.run(to())
    source.add(on.SnapshotVoid(A), RenameTable(A, B), CreateTable(SPARE, SMALL), rows(SMALL, 7, table=B, sequence=3))
    sink.interrupt(pipeline, to())
    pipeline.run(to((SPARE, OTHER)))
    assert sink.tables - {SPARE} == {B, OTHER}
    assert pipeline.ids(B) == [1, 7]


def test_a_column_that_was_narrowed_is_widened_again(tmp_path: Path) -> None:
    """Later values would not fit, after their batch is decided."""
    note, ten = WIDE.columns[1], replace(WIDE.columns[1], type=DataType.parse("VARCHAR(10)"))
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, WIDE), rows(WIDE, 1)], {}))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    narrow = TableSchema((ID, ten), ("id",))
    source.add(AlterColumnType(A, ten, note), RenameTable(A, B), rows(narrow, 7, table=B, sequence=3))
    sink.interrupt(pipeline, to())
    pipeline.run(to(behavior="lenient"))
    assert sink._schemas[B].column("note").type == note.type
    assert pipeline.ids(B) == [1, 7]


def test_a_table_that_was_dropped_is_created_again_where_another_one_goes_there(tmp_path: Path) -> None:
    now = {B: rows(SMALL, 3, table=B, sequence=9)}
    source = LiveSource([CreateTable(A, SMALL), CreateTable(B, SMALL), rows(SMALL, 1)], now)
    pipeline = Pipeline(tmp_path, source)
    pipeline.sink = sink = Away()
    pipeline.run(to((A, OLD), (B, NEW)))
    source.add(DropTable(A), rows(SMALL, 3, table=B, sequence=3))
    sink.interrupt(pipeline, to((A, OLD), (B, NEW)))
    pipeline.run(to((A, OLD), (B, OLD)))
    assert pipeline.ids(OLD) == [3]
