"""Lives of tables in which two things come together: paused and renamed, excluded while a shadow table fills, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from live_source import LOG, ROWS, SNAPSHOT_LOG, LiveSource
from test_moved_routes import NEW, OLD, SMALL, A, B, Pipeline, rows, to
from together import together

from cdc import events as on
from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropTable,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink_columns import Coercion
from cdc.spec.model import RouteRule
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.requests import Mailbox, RequestKind
from cdc.tables.states import TableState
from cdc.testing import FailAt, ListSink, block

C, ALL = TableId("shop", "c"), TableId("ods", "all")
SAME = to()


def new(table: TableId, *numbers: int, sequence: int = 9, schema: TableSchema = SMALL) -> Any:
    """Rows that a re-snapshot reads."""
    return replace(rows(schema, *numbers, table=table, sequence=sequence), streams=ROWS)


def log(table: TableId, *numbers: int, sequence: int = 10) -> list[Any]:
    """Rows of the log while a re-snapshot runs."""
    found = rows(SMALL, *numbers, table=table, sequence=sequence)
    return [replace(found, streams=LOG), replace(found, streams=SNAPSHOT_LOG)]


def single(folder: Path, middle: Middle = SAME) -> Pipeline:
    """A has the rows 1 and 2; 2 is gone from the source since, and the log does not tell."""
    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1, 2)], {A: rows(SMALL, 1, sequence=20)})
    pipeline = Pipeline(folder, source)
    pipeline.run(middle)
    return pipeline


def states(pipeline: Pipeline) -> dict[tuple[TableId, TableId], TableState]:
    tables = TableLog(StateDir(pipeline.folder).store).at(99).tables
    return {pair: record.state for pair, record in tables.pairs.items()}


def ask(pipeline: Pipeline, table: TableId, kind: RequestKind) -> None:
    Mailbox(StateDir(pipeline.folder).store).add(table, kind)


def test_a_resumed_table_that_is_renamed_before_its_snapshot_begins_goes_on_under_the_new_name(tmp_path: Path) -> None:
    pipeline = single(tmp_path)
    ask(pipeline, A, RequestKind.PAUSE)
    pipeline.source.add(rows(SMALL, 3, sequence=2))
    pipeline.run(SAME)
    pipeline.source.now[B] = rows(SMALL, 1, 3, table=B, sequence=20)
    add, pipeline.source.add = pipeline.source.add, lambda *items: None  # type: ignore[method-assign]
    ask(pipeline, A, RequestKind.RESUME)
    add(rows(SMALL, 4, table=A, sequence=3))  # the source has not begun it yet
    pipeline.run(SAME)
    assert states(pipeline)[A, A] is TableState.RESUMED
    pipeline.source.add = add  # type: ignore[method-assign]
    pipeline.source.add(RenameTable(A, B))
    pipeline.run(SAME)
    assert states(pipeline)[B, B] is TableState.LIVE
    assert (pipeline.ids(B), pipeline.sink.tables) == ([1, 3], {B})


@together("failure", [None, *FailAt])
def test_a_table_that_is_excluded_while_its_shadow_table_fills_stays_as_it_is(
    tmp_path: Path, failure: FailAt | None
) -> None:
    pipeline = single(tmp_path)
    pipeline.source.add(CreateTable(B, SMALL), on.SnapshotBegun(A), new(A, 1), *log(A, 3))
    pipeline.run(SAME)
    assert len(pipeline.sink.tables) == 3
    pipeline.source.left_out.add(A)
    pipeline.source.add(rows(SMALL, 7, table=B, sequence=30), *filter(None, [failure]))
    pipeline.run(SAME)
    assert states(pipeline)[A, A] is TableState.DETACHED
    assert (pipeline.sink.tables, pipeline.ids(A), pipeline.ids(B)) == ({A, B}, [1, 2, 3], [7])


@pytest.mark.parametrize("again", [False, True], ids=["goes on", "begins again"])
def test_a_policy_that_is_edited_while_a_shadow_table_fills_loses_no_row(tmp_path: Path, again: bool) -> None:
    pipeline = single(tmp_path)
    pipeline.source.add(on.SnapshotBegun(A), new(A, 1))
    pipeline.run(SAME)
    lenient = to(behavior="lenient")
    more = [on.SnapshotVoid(A), on.SnapshotBegun(A), new(A, 1, 3, sequence=12)] if again else log(A, 3)
    pipeline.source.add(*more, *log(A, 4, sequence=13), on.SnapshotDone(A), rows(SMALL, 5, sequence=30))
    pipeline.run(lenient)
    assert set(pipeline.ids(A)) >= {1, 3, 4, 5}
    assert pipeline.sink.tables == {A}


class Stubborn(ListSink):
    """Refuses operations of one kind, and says that a re-snapshot would have them after it."""

    def __init__(self, kind: type[SchemaChange]) -> None:
        super().__init__()
        self.kind = kind

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        for change in changes:
            if isinstance(change, self.kind):
                raise ChangeRefused("not now", where=str(change.table), resnapshot_helps=True)
        super().apply(batch, changes)


@pytest.mark.parametrize("kind", [CreateShadow, SwapShadow])
def test_a_refused_shadow_operation_stops_the_run_and_orders_no_snapshot_without_end(
    tmp_path: Path, kind: type[SchemaChange]
) -> None:
    pipeline = single(tmp_path)
    pipeline.sink, before = Stubborn(kind), pipeline.sink
    vars(pipeline.sink).update(vars(before) | {"kind": kind})
    pipeline.source.add(on.SnapshotBegun(A), new(A, 1), on.SnapshotDone(A))
    with pytest.raises(ChangeRefused, match="not now"):
        pipeline.run(SAME)
    assert pipeline.source.requests == {}


@pytest.mark.parametrize("resumed", [False, True], ids=["paused", "resumed"])
def test_a_paused_table_gets_a_name_whose_sink_table_refuses_its_columns(tmp_path: Path, resumed: bool) -> None:
    """The operation is of the sink table that stays there; the snapshot after the pause brings the columns."""
    wide, lenient = (
        TableSchema((*SMALL.columns, Column("note", DataType.parse("STRING"))), ("id",)),
        to(behavior="lenient"),
    )
    source = LiveSource([CreateTable(A, SMALL), CreateTable(B, wide), rows(SMALL, 1)], {})
    pipeline = Pipeline(tmp_path, source)
    pipeline.sink = Stubborn(AddColumn)
    pipeline.run(lenient)
    source.now[A] = rows(wide, 7, sequence=20)
    ask(pipeline, B, RequestKind.PAUSE)
    if resumed:
        ask(pipeline, B, RequestKind.RESUME)
    source.add(DropTable(A), RenameTable(B, A))
    pipeline.run(lenient)
    assert states(pipeline)[A, A] is TableState.PAUSED or resumed
    ask(pipeline, A, RequestKind.RESUME)
    source.add(rows(wide, 8, sequence=3))
    pipeline.run(lenient)
    assert 7 in pipeline.ids(A)


def test_a_table_that_is_paused_in_its_first_snapshot_is_whole_once_it_is_resumed(tmp_path: Path) -> None:
    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], {A: rows(SMALL, 1, 2, 3, sequence=20)})
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(SAME)
    ask(pipeline, A, RequestKind.PAUSE)
    source.add(rows(SMALL, 2, sequence=2))  # its other chunk
    pipeline.run(SAME)
    assert pipeline.ids(A) == [1]
    ask(pipeline, A, RequestKind.RESUME)
    source.add(rows(SMALL, 3, sequence=3))
    pipeline.run(SAME)
    assert pipeline.ids(A) == [1, 2, 3]


def test_a_snapshot_that_begins_again_while_the_table_is_written_over_brings_all_rows(tmp_path: Path) -> None:
    lenient = to(behavior="lenient")
    pipeline = single(tmp_path, lenient)
    pipeline.source.add(on.SnapshotBegun(A), new(A, 1), *log(A, 3))
    pipeline.run(lenient)
    assert states(pipeline)[A, A] is TableState.OVERWRITE
    pipeline.source.add(on.SnapshotVoid(A), on.SnapshotBegun(A), new(A, 1, 4, sequence=12), on.SnapshotDone(A))
    pipeline.source.add(rows(SMALL, 5, sequence=30))
    pipeline.run(lenient)
    assert states(pipeline)[A, A] is TableState.LIVE
    assert pipeline.ids(A) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("leaves", [A, B], ids=["the one that is read", "the one that waits"])
def test_a_route_that_leaves_a_merged_table_in_the_middle_of_its_re_snapshot(tmp_path: Path, leaves: TableId) -> None:
    merged = to((A, ALL), (B, ALL), (C, ALL))
    tables = [A, B, C]
    source = LiveSource(
        [item for n, t in enumerate(tables) for item in (CreateTable(t, SMALL), rows(SMALL, n * 10, table=t))],
        {t: rows(SMALL, n * 10, table=t, sequence=20) for n, t in enumerate(tables)},
    )
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(merged)
    order, source.order = source.order, lambda orders: None  # type: ignore[method-assign]
    source.add(on.SnapshotBegun(A), new(A, 0))
    pipeline.run(merged)
    source.order = order  # type: ignore[method-assign]
    begun = [] if leaves == A else [on.SnapshotDone(A)]
    for table in (B, C):
        begun += [on.SnapshotBegun(table), new(table, tables.index(table) * 10, sequence=12), on.SnapshotDone(table)]
    source.add(*begun)
    pipeline.run(to(*((table, NEW if table == leaves else ALL) for table in tables)))
    stays = [n * 10 for n, table in enumerate(tables) if table != leaves]
    assert pipeline.ids(NEW) == [tables.index(leaves) * 10]
    assert pipeline.ids(ALL) == stays
    assert pipeline.sink.tables == {ALL, NEW}


def test_a_table_that_the_sink_refuses_to_create_is_counted_also_while_it_is_snapshotted_again(tmp_path: Path) -> None:
    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], {})
    pipeline = Pipeline(tmp_path, source)
    pipeline.sink = Stubborn(CreateTable)
    pipeline.run(to(behavior="try_evolve"))
    assert states(pipeline)[A, A] is TableState.MISSING
    source.add(on.SnapshotBegun(A), new(A, 1), *log(A, 2), on.SnapshotDone(A), rows(SMALL, 3, sequence=30))
    pipeline.run(to(behavior="try_evolve"))
    assert pipeline.sink.tables == set()
    assert pipeline.done.reasons["no-table-in-sink shop.a"] == 4


def test_a_table_that_is_dropped_and_comes_in_again_in_one_batch_is_not_taken_for_one_of_somebody_else(
    tmp_path: Path,
) -> None:
    class Asked(ListSink):
        def holds_rows(self, table: TableId) -> bool:
            return bool(table in self.tables and self.rows(table))

    keyless = TableSchema(SMALL.columns)
    pipeline = Pipeline(tmp_path, LiveSource([CreateTable(A, keyless), rows(keyless, 1)], {}))
    pipeline.sink = Asked()
    pipeline.run(SAME)
    created = on.TableCreated(A, CreateTable(A, keyless), by_snapshot=True)
    pipeline.source.add(on.CaptureEnded(A, "renamed"), on.TableDropped(A), created, new(A, 7, schema=keyless))
    pipeline.run(SAME)
    assert pipeline.ids(A) == [7]


def test_a_missing_table_that_is_renamed_is_created_and_told_to_lack_its_rows(tmp_path: Path) -> None:
    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1)], {})
    pipeline = Pipeline(tmp_path, source)
    pipeline.sink = Stubborn(CreateTable)
    pipeline.run(to(behavior="try_evolve"))
    pipeline.sink = ListSink()
    source.add(RenameTable(A, B), rows(SMALL, 2, table=B, sequence=3))
    pipeline.run(to(behavior="try_evolve"))
    assert pipeline.ids(B) == [2]
    assert pipeline.done.reasons["held-back rename.table shop.b"] == 1


def test_a_route_that_moves_to_a_table_which_may_not_be_created(tmp_path: Path) -> None:
    def left_out(*targets: tuple[TableId, TableId]) -> Middle:
        rules = [RouteRule(source_table=str(source), sink_table=str(sink)) for source, sink in targets]
        return Middle(RouteTable(rules), Policy(Behavior.EVOLVE, exclude=("create.table",)), Coercion("fail"))

    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1, 2)], {A: rows(SMALL, 1, 3, sequence=20)})
    pipeline = Pipeline(tmp_path, source)
    pipeline.sink.apply(0, [CreateTable(OLD, SMALL), CreateTable(NEW, SMALL)])  # somebody has made them
    pipeline.run(left_out((A, OLD)))
    source.add(rows(SMALL, 3, sequence=3))
    pipeline.run(left_out((A, NEW)))
    assert (pipeline.ids(OLD), pipeline.ids(NEW)) == ([1, 2], [1, 3])


def test_one_source_table_in_two_sink_tables_of_which_one_has_others(tmp_path: Path) -> None:
    both = to((A, NEW), (A, ALL), (B, ALL))
    source = LiveSource(
        [CreateTable(A, SMALL), CreateTable(B, SMALL), rows(SMALL, 1, 2), rows(SMALL, 11, table=B)],
        {A: rows(SMALL, 1, sequence=20), B: rows(SMALL, 11, table=B, sequence=20)},
    )
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(both)
    assert (pipeline.ids(NEW), pipeline.ids(ALL)) == ([1, 2], [1, 2, 11])
    source.add(
        on.SnapshotBegun(A),
        new(A, 1),
        *log(A, 3),
        on.SnapshotDone(A),
        block(A, SMALL, [("-D", {"id": 3})], sequence=30),
    )
    pipeline.run(both)
    assert (pipeline.ids(NEW), pipeline.ids(ALL)) == ([1], [1, 11])
    assert pipeline.sink.tables == {NEW, ALL}


@pytest.mark.parametrize("uncertain", [False, True], ids=["follows the log", "frozen"])
def test_a_truncated_table_needs_no_snapshot_any_more(tmp_path: Path, uncertain: bool) -> None:
    """The log has all rows from there; a live table that was frozen is snapshotted again, as it has other columns."""
    pipeline = single(tmp_path)
    pipeline.source.now[A] = rows(SMALL, 7, 8, sequence=40)
    gap = [on.RowsUncertain(A, on.Uncertain("the log is lost"), gap=True)] if uncertain else []
    pipeline.source.add(*gap, on.SnapshotBegun(A), new(A, 1), TruncateTable(A), rows(SMALL, 7, sequence=30))
    pipeline.run(SAME)
    pipeline.source.add(rows(SMALL, 8, sequence=31))
    pipeline.run(SAME)
    assert (pipeline.ids(A), pipeline.sink.tables) == ([7, 8], {A})
    assert len(pipeline.source.requests) == (1 if uncertain else 0)


def test_a_paused_table_that_is_excluded_stays_paused(tmp_path: Path) -> None:
    pipeline = single(tmp_path)
    ask(pipeline, A, RequestKind.PAUSE)
    pipeline.source.add(CreateTable(B, SMALL), rows(SMALL, 3, sequence=2))
    pipeline.run(SAME)
    pipeline.source.left_out.add(A)
    pipeline.source.add(rows(SMALL, 7, table=B, sequence=3))
    pipeline.run(SAME)
    assert states(pipeline)[A, A] is TableState.PAUSED
    pipeline.source.left_out.clear()
    ask(pipeline, A, RequestKind.RESUME)
    pipeline.source.add(rows(SMALL, 8, table=B, sequence=4))
    pipeline.run(SAME)
    assert pipeline.ids(A) == [1]
