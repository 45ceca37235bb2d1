"""A batch whose schema changes are carried out is interrupted, and repeated with an edited pipeline file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from live_source import LiveSource
from test_moved_routes import ID, NEW, OLD, OTHER, SMALL, SPARE, WIDE, A, B, Pipeline, rows, to
from together import together
from transform_rules import text

from cdc import events as on
from cdc.block import ChangeBlock
from cdc.errors import EditRefused, SinkError
from cdc.evolution.apply import apply_changes
from cdc.flow.middle import Middle
from cdc.schema import (
    AlterColumnType,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.sink import Prepared, TaskAttempt
from cdc.testing import ListSink
from cdc.transform.rules import Rules
from cdc.transform.texts import RuleSettings, RuleSource, RuleTexts


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


def ruled(pattern: str, projection: str) -> Middle:
    """A file with a rule."""
    made = RuleTexts(projection=text(projection))
    return replace(to(), rules=Rules([RuleSource("transform[0]", pattern, made)], RuleSettings()))


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


def test_a_column_that_was_taken_away_and_is_made_by_the_edited_file_gets_its_values_again(tmp_path: Path) -> None:
    """The edit that dropped the column is reverted before its batch is decided."""
    now = {A: rows(SMALL, 1, 2, sequence=9)}
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], now))
    pipeline.sink = sink = Away()
    pipeline.run(ruled(r"shop.\.*", r"\*, id + 1 AS more"))
    source.add(rows(SMALL, 2, sequence=3))
    sink.interrupt(pipeline, to())
    assert [*sink.rows(A)[0]] == ["id"]
    pipeline.run(ruled(r"shop.\.*", r"\*, id + 1 AS more"))
    assert sorted((row["id"], row["more"]) for row in sink.rows(A)) == [(1, 2), (2, 3)]


def test_a_key_that_was_altered_and_is_none_by_the_edited_file_is_as_before(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], {}))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(rows(SMALL, 2, sequence=3))
    made = RuleTexts(projection=text(r"\*, id + 1 AS more"), primary_keys=text("id, more"))
    sink.interrupt(pipeline, replace(to(), rules=Rules([RuleSource("transform[0]", "shop.a", made)], RuleSettings())))
    pipeline.run(ruled(r"shop.\.*", r"\*, id + 1 AS more"))
    assert pipeline.ids(A) == [1, 2]
    assert sink._schemas[A].primary_key == ("id",)


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


class Breaking(ListSink):
    """Does not rename a table as long as it is broken."""

    broken = False

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        if self.broken and any(isinstance(change, RenameTable) for change in changes):
            raise SinkError("is broken")
        super().apply(batch, changes)


def test_a_table_that_was_not_renamed_yet_gets_the_columns_of_the_edited_rules(tmp_path: Path) -> None:
    """The run was killed between the creation and the rename."""
    pipeline = Pipeline(tmp_path, source := LiveSource([], {B: rows(SMALL, 7, table=B, sequence=9)}))
    pipeline.sink = sink = Breaking()
    source.add(CreateTable(SPARE, SMALL), RenameTable(SPARE, B), rows(SMALL, 7, table=B, sequence=3))
    sink.broken = True
    with pytest.raises(SinkError, match="is broken"):
        pipeline.run(to())
    sink.broken = False
    pipeline.run(ruled(r"shop.[bs]\.*", r"\*, id + 1 AS more"))
    assert (sink.tables, sink.rows(B)) == ({B}, [{"id": 7, "more": 8}])


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
    now = {A: rows(SMALL, 1, sequence=9), B: rows(SMALL, 7, table=B, sequence=9)}
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], now))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(*changes, rows(SMALL, 7, table=B, sequence=3))
    sink.interrupt(pipeline, to())
    pipeline.run(ruled(r"shop.[bs]\.*", columns))
    assert {table: pipeline.ids(table) for table in (A, B)} == left
    assert "more" in sink.rows(B)[0]
    assert sink.tables - {SPARE} == {A, B}


def test_a_column_that_the_batch_has_added_and_dropped_is_added_again_where_it_stays(tmp_path: Path) -> None:
    """The rule of the old name has it; that of the new name has it by the edited file."""

    now = {B: rows(SMALL, 1, 7, table=B, sequence=9)}
    pipeline = Pipeline(tmp_path, source := LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], now))
    pipeline.sink = sink = Away()
    pipeline.run(to())
    source.add(RenameTable(A, B), rows(SMALL, 7, table=B, sequence=3))
    sink.interrupt(pipeline, ruled("shop.a", r"\*, id + 1 AS more"))
    pipeline.run(ruled(r"shop.\.*", r"\*, id + 1 AS more"))
    assert sink.rows(B)[-1] == {"id": 7, "more": 8}


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
