"""A table that several go to is re-snapshotted with all of them: nothing stays that is gone from one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from live_source import LOG, ROWS, SNAPSHOT_LOG, LiveSource
from test_moved_routes import ID, NOTE, SMALL, WIDE, A, B, Pipeline, rows, to
from together import together

from cdc import events as on
from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.derive import Derivation
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    CreateShadow,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink_columns import Coercion
from cdc.source import Snapshots
from cdc.spec.model import RouteRule
from cdc.state.store import LocalStore
from cdc.tables.log import TableLog
from cdc.tables.machine import batch_outcome
from cdc.tables.orders import open_orders
from cdc.tables.states import PairState, SinkState, Tables, TableState
from cdc.tables.table_map import Circumstances
from cdc.testing import FailAt, block

C, ALL, OTHER = TableId("shop", "c"), TableId("ods", "all"), TableId("ods", "other")
KEYLESS = TableSchema((replace(ID, nullable=True),))
MORE = replace(NOTE, name="more", default="d")
TOGETHER = to((A, ALL), (B, ALL), (C, ALL))


def copied(table: TableId, *numbers: int, schema: TableSchema = SMALL, sequence: int = 9) -> list[Any]:
    return [on.SnapshotBegun(table), *over(table, *numbers, schema=schema, sequence=sequence), on.SnapshotDone(table)]


def over(table: TableId, *numbers: int, schema: TableSchema = SMALL, sequence: int = 9) -> list[Any]:
    return [replace(rows(schema, *numbers, table=table, sequence=sequence), streams=ROWS)]


def both(table: TableId, *numbers: int, sequence: int = 9) -> list[Any]:
    """Rows of the log while the table is copied."""
    found = rows(SMALL, *numbers, table=table, sequence=sequence)
    return [replace(found, streams=LOG), replace(found, streams=SNAPSHOT_LOG)]


def merged(folder: Path, schema: TableSchema = SMALL, middle: Middle = TOGETHER) -> Pipeline:
    """A has 1 and 2, B has 11 and 12; of both the second is gone when they are copied, and nothing tells it."""
    source = LiveSource(
        [CreateTable(A, schema), CreateTable(B, schema), rows(schema, 1, 2), rows(schema, 11, 12, table=B)],
        {A: rows(schema, 1, sequence=20), B: rows(schema, 11, table=B, sequence=20)},
    )
    pipeline = Pipeline(folder, source)
    pipeline.run(middle)
    assert pipeline.ids(ALL) == [1, 2, 11, 12]
    return pipeline


def but(*tables: TableId) -> Callable[[TableId], Snapshots]:
    """All tables but these are snapshotted."""
    return lambda table: Snapshots.NEVER if table in tables else Snapshots.ALWAYS


def asked(pipeline: Pipeline) -> list[TableId]:
    return sorted(pipeline.source.requests.values())


@pytest.mark.parametrize("schema", [SMALL, KEYLESS])
def test_rows_that_are_gone_from_a_table_go_with_its_copy(tmp_path: Path, schema: TableSchema) -> None:
    pipeline = merged(tmp_path, schema)
    pipeline.source.add(*copied(A, 1, schema=schema))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 11]
    assert (asked(pipeline), pipeline.sink.tables) == ([B], {ALL})
    assert not pipeline.done.reasons
    pipeline.source.add(rows(schema, 3, sequence=30), rows(schema, 13, table=B, sequence=31))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 3, 11, 13]


def test_rows_of_the_log_are_in_the_table_and_in_its_copy(tmp_path: Path) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.add(
        on.SnapshotBegun(A), *over(A, 1), *both(A, 3, sequence=10), rows(SMALL, 13, table=B, sequence=11),
        on.SnapshotDone(A), rows(SMALL, 4, sequence=12),
    )  # fmt: skip
    pipeline.source.now[B] = rows(SMALL, 11, 13, table=B, sequence=20)
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 3, 4, 11, 13]


@pytest.mark.parametrize("whole", [True, False], ids=["among others", "alone"])
def test_a_shadow_goes_with_the_table_that_the_source_follows_no_further(tmp_path: Path, whole: bool) -> None:
    pipeline = merged(tmp_path) if whole else single(tmp_path)
    pipeline.source.order = lambda orders: None  # type: ignore[method-assign]
    pipeline.source.add(on.SnapshotBegun(A), *over(A, 1), on.CaptureEnded(A, "it is left"))
    pipeline.run(TOGETHER if whole else to())
    target = ALL if whole else A
    if whole:  # the others' rows come with theirs
        pipeline.source.add(*copied(B, 11))
        pipeline.run(TOGETHER)
    assert pipeline.sink.tables == {target}
    assert pipeline.ids(target) == ([11] if whole else [1, 2])


def single(folder: Path) -> Pipeline:
    pipeline = Pipeline(folder, LiveSource([CreateTable(A, SMALL), rows(SMALL, 1, 2)], {}))
    pipeline.run(to())
    return pipeline


@pytest.mark.parametrize("failure", list(FailAt))
def test_a_crash_on_the_way_changes_nothing(tmp_path: Path, failure: FailAt) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.add(on.SnapshotBegun(A), *over(A, 1), failure, on.SnapshotDone(A))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 11]


def test_readers_find_the_table_as_it_is_until_all_are_whole(tmp_path: Path) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.now[B] = rows(SMALL, table=B)
    pipeline.source.order = lambda orders: None  # type: ignore[method-assign]
    pipeline.source.add(*copied(A, 1), rows(SMALL, 5, sequence=21))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 2, 5, 11, 12]
    pipeline.source.add(*copied(B, 11))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 5, 11]


@together(
    "items, now, wanted",
    [
        pytest.param(copied(A, 1), [1, 11], [B], id="copied twice at once"),
        pytest.param([on.SnapshotVoid(A), rows(SMALL, 1, sequence=22)], [1, 11], [B], id="starts over"),
        pytest.param([TruncateTable(A), rows(SMALL, 7, sequence=22)], [7, 11], [B], id="truncated"),
        pytest.param([DropTable(A)], [11], [B], id="dropped"),
        pytest.param([AddColumn(A, NOTE), rows(WIDE, 5, sequence=22)], [1, 11], [A, B], id="altered"),
        pytest.param([CreateTable(C, SMALL), rows(SMALL, 21, table=C)], [1, 11, 21], [B], id="joined by a new one"),
        pytest.param([CreateTable(C, WIDE), rows(WIDE, 21, table=C)], [1, 11, 21], [A, B], id="by a wider one"),
        pytest.param([RenameTable(A, C), rows(SMALL, 3, table=C, sequence=22)], [1, 3, 11], [B], id="renamed"),
    ],
)
def test_what_happens_to_one_of_them_meanwhile(
    tmp_path: Path, items: Sequence[Any], now: list[int], wanted: list[TableId]
) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.add(on.SnapshotBegun(A), *over(A, 1), on.SnapshotDone(A), *items)
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == now
    assert set(asked(pipeline)) == set(wanted)
    assert pipeline.sink.tables == {ALL}


def test_a_first_snapshot_that_begins_again_leaves_nothing_behind(tmp_path: Path) -> None:
    created = on.TableCreated(A, CreateTable(A, SMALL), by_snapshot=True)
    source = LiveSource(
        [created, CreateTable(B, SMALL), *over(A, 1, 2), rows(SMALL, 11, 12, table=B)],
        {A: rows(SMALL, 1, sequence=20), B: rows(SMALL, 11, table=B, sequence=20)},
    )
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 2, 11, 12]
    source.add(on.SnapshotVoid(A), *copied(A, 1))
    pipeline.run(TOGETHER)
    assert (pipeline.ids(ALL), asked(pipeline)) == ([1, 11], [B])


def test_a_table_that_is_captured_again_leaves_nothing_of_the_time_before() -> None:
    table = RouteTable([RouteRule(source_table=r"shop.\.*", sink_table=str(ALL))])
    changes = on.events([DropTable(A), CreateTable(A, SMALL)])  # in one batch: nobody has followed it for a time
    pairs = {(A, ALL): PairState(TableState.LIVE), (B, ALL): PairState(TableState.LIVE)}
    before = Tables({A: SMALL, B: SMALL}, {ALL: SMALL}, pairs, {ALL: SinkState(merged=True)}, table.to_json())
    found = batch_outcome(Circumstances(table, Policy(Behavior.EVOLVE)), before, changes)
    assert found.operations == (CreateShadow(ALL),)
    assert found.after.state((A, ALL)) is TableState.LIVE
    assert found.after.state((B, ALL)) is TableState.REQUESTED


@pytest.mark.parametrize("between", ["nothing", "a restart", *FailAt])
def test_a_table_that_is_dropped_and_created_leaves_nothing_of_the_time_before(
    tmp_path: Path, between: FailAt | str
) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.now[B] = rows(SMALL, 11, 12, 13, table=B, sequence=20)
    pipeline.source.add(DropTable(A), rows(SMALL, 13, table=B))
    if isinstance(between, FailAt):
        pipeline.source.add(between)
    if between != "nothing":
        pipeline.run(TOGETHER)
        assert pipeline.ids(ALL) == [1, 2, 11, 12, 13]
    pipeline.source.add(CreateTable(A, SMALL), rows(SMALL, 5, sequence=30))
    pipeline.run(TOGETHER)
    assert (pipeline.ids(ALL), pipeline.sink.tables) == ([5, 11, 12, 13], {ALL})
    assert asked(pipeline) == [B]
    pipeline.source.add(rows(SMALL, 6, sequence=31), rows(SMALL, 14, table=B, sequence=32))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [5, 6, 11, 12, 13, 14]


@together(
    "behavior, merged, left",
    [(Behavior.EVOLVE, True, {A}), (Behavior.EVOLVE, False, set()), (Behavior.LENIENT, True, set())],
)
def test_dropped_tables_are_remembered_only_where_their_rows_would_be_in_the_way(
    behavior: Behavior, merged: bool, left: set[TableId]
) -> None:
    table = RouteTable([RouteRule(source_table=r"shop.\.*", sink_table=str(ALL))])
    pairs, states = {(A, ALL): PairState(TableState.LIVE)}, {ALL: SinkState(merged=merged)}
    before = Tables({A: SMALL}, {ALL: SMALL}, pairs, states, table.to_json())
    found = batch_outcome(Circumstances(table, Policy(behavior)), before, [on.TableDropped(A)])
    assert found.after.sink_state(ALL).stale == left


def test_one_that_goes_elsewhere_and_comes_back_leaves_nothing_of_the_time_before(tmp_path: Path) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.add(rows(SMALL, 1, sequence=2))
    pipeline.run(to((A, OTHER), (B, ALL)))
    assert pipeline.ids(ALL) == [1, 2, 11, 12]
    pipeline.source.add(rows(SMALL, 1, sequence=22))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 11]
    assert pipeline.sink.tables == {ALL, OTHER}


def test_one_that_is_not_captured_any_more_is_not_waited_for(tmp_path: Path) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.order = lambda orders: None  # type: ignore[method-assign]
    pipeline.source.add(*copied(A, 1))
    pipeline.run(TOGETHER)
    pipeline.source.left_out.add(B)
    pipeline.source.add(rows(SMALL, 3, sequence=30))
    pipeline.run(TOGETHER)
    assert (pipeline.ids(ALL), pipeline.sink.tables) == ([1, 3], {ALL})


def test_where_one_is_not_copied_rows_stay_and_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.snapshots = but(B)  # type: ignore[method-assign]
    pipeline.source.add(*copied(A, 1))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 2, 11, 12]
    assert pipeline.done.reasons["held-back snapshot.overwrites ods.all"] == 1
    assert "those gone from it stay, as shop.b cannot be copied with it" in caplog.text


def test_lenient_takes_no_row_away(tmp_path: Path) -> None:
    lenient = to((A, ALL), (B, ALL), behavior="lenient")
    pipeline = merged(tmp_path, middle=lenient)
    pipeline.source.add(*copied(A, 1))
    pipeline.run(lenient)
    assert (pipeline.ids(ALL), asked(pipeline)) == ([1, 2, 11, 12], [])


def test_the_shard_column_tells_equal_keys_apart_in_the_copy_too(tmp_path: Path) -> None:
    rule = RouteRule(source_table=r"shop.\.*", sink_table=str(ALL), shard_column="origin")
    middle = Middle(RouteTable([rule]), Policy(Behavior.EVOLVE), Coercion("fail"))
    pipeline = merged(tmp_path, middle=middle)
    pipeline.source.now[B] = rows(SMALL, 1, 11, table=B, sequence=20)
    pipeline.source.add(rows(SMALL, 1, table=B), *copied(A, 1))
    pipeline.run(middle)
    found = sorted((row["id"], row["origin"]) for row in pipeline.sink.rows(ALL))
    assert found == [(1, "shop.a"), (1, "shop.b"), (11, "shop.b")]


@together("gone", [TruncateTable(A), DropTable(A)])
@together("failure", [None, *FailAt])
def test_the_rows_of_a_shard_that_is_gone_go_where_the_route_says_so(
    tmp_path: Path, gone: TruncateTable | DropTable, failure: FailAt | None
) -> None:
    rule = RouteRule(source_table=r"shop.\.*", sink_table=str(ALL), shard_column="origin", shard_gone="delete")
    middle = Middle(RouteTable([rule]), Policy(Behavior.EVOLVE), Coercion("fail"))
    pipeline = merged(tmp_path, middle=middle)
    pipeline.source.now[B] = rows(SMALL, 1, 11, 12, table=B, sequence=20)
    pipeline.source.add(rows(SMALL, 1, table=B), gone, *([] if failure is None else [failure]))
    pipeline.source.add(CreateTable(A, SMALL), rows(SMALL, 5, sequence=30)) if isinstance(gone, DropTable) else None
    pipeline.source.add(rows(SMALL, 6, sequence=31))
    pipeline.run(middle)
    new = [(5, "shop.a")] if isinstance(gone, DropTable) else []
    found = sorted((row["id"], row["origin"]) for row in pipeline.sink.rows(ALL))
    assert found == sorted([(1, "shop.b"), (6, "shop.a"), (11, "shop.b"), (12, "shop.b"), *new])


def test_the_rows_of_the_last_shard_go_with_it(tmp_path: Path) -> None:
    rule = RouteRule(source_table=r"shop.\.*", sink_table=str(ALL), shard_column="origin", shard_gone="delete")
    middle = Middle(RouteTable([rule]), Policy(Behavior.EVOLVE), Coercion("fail"))
    pipeline = merged(tmp_path, middle=middle)
    pipeline.source.add(DropTable(B), TruncateTable(A))
    pipeline.run(middle)
    assert pipeline.ids(ALL) == []


def test_a_route_that_moves_in_the_middle_of_a_copy_leaves_no_copy_behind(tmp_path: Path) -> None:
    alone = to((A, ALL), (B, OTHER))
    source = LiveSource([CreateTable(A, SMALL), rows(SMALL, 1, 2), on.SnapshotBegun(A), *over(A, 1)], {})
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(alone)
    assert len(pipeline.sink.tables) == 2
    source.now[A] = rows(SMALL, 1, sequence=20)
    source.add(rows(SMALL, 1, sequence=10))
    pipeline.run(to((A, OTHER)))
    assert (pipeline.sink.tables, pipeline.ids(OTHER)) == ({ALL, OTHER}, [1])


def test_a_table_that_others_join_in_the_middle_of_its_copy_is_copied_with_them(tmp_path: Path) -> None:
    source = LiveSource([CreateTable(A, SMALL), CreateTable(B, WIDE), rows(SMALL, 1, 2), rows(WIDE, 11, table=B)], {})
    pipeline = Pipeline(tmp_path, source)
    source.add(on.SnapshotBegun(A), *over(A, 1))
    pipeline.run(to((A, ALL), (B, OTHER)))
    source.now = {A: rows(SMALL, 1, sequence=20), B: rows(WIDE, 11, table=B, sequence=20)}
    source.add(*both(A, 3), on.SnapshotDone(A))
    source.now[A] = rows(SMALL, 1, 3, sequence=20)
    pipeline.run(TOGETHER)
    assert (pipeline.sink.tables, pipeline.ids(ALL)) == ({ALL, OTHER}, [1, 3, 11])


@together(
    "change, schema",
    [
        (DropColumn(A, "note"), KEYLESS),
        (RenameColumn(A, "note", "text"), TableSchema((*KEYLESS.columns, replace(NOTE, name="text")))),
        (AddColumn(A, MORE), TableSchema((*KEYLESS.columns, NOTE, MORE))),
    ],
)
def test_without_a_key_all_are_copied_where_rows_would_keep_other_values(
    tmp_path: Path, change: SchemaChange, schema: TableSchema
) -> None:
    """A delete of B's row finds it, although a default came to it, and one of A's, although it has a further column."""
    noted = TableSchema((*KEYLESS.columns, NOTE))
    was = [("+I", {"id": 1, "note": "x"}), ("+I", {"id": 2, "note": "x"})]
    source = LiveSource(
        [
            CreateTable(A, noted),
            CreateTable(B, noted),
            block(A, noted, was, sequence=1),
            block(B, noted, was, sequence=2),
        ],
        {A: block(A, schema, [], sequence=20), B: block(B, noted, was[:1], sequence=20)},
    )
    pipeline = Pipeline(tmp_path, source)
    pipeline.run(TOGETHER)
    source.add(change, block(B, noted, [("-D", was[1][1])], sequence=3))
    pipeline.run(TOGETHER)
    assert (asked(pipeline), pipeline.ids(ALL)) == ([A, B], [1])
    source.add(block(B, noted, [("-D", was[0][1])], sequence=30))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == []


def test_a_deleted_row_is_deleted_in_the_copy_too(tmp_path: Path) -> None:
    pipeline = merged(tmp_path)
    pipeline.source.add(*copied(A, 1, 2), block(A, SMALL, [("-D", {"id": 2})], sequence=22))
    pipeline.run(TOGETHER)
    assert pipeline.ids(ALL) == [1, 11]


@pytest.mark.parametrize("way", ["taken in again", "left out too"])
def test_without_a_key_a_copy_waits_for_those_that_are_left_out(tmp_path: Path, way: str) -> None:
    """What the error names works."""
    pipeline = merged(tmp_path, KEYLESS)
    source = pipeline.source
    source.snapshots = but(B)  # type: ignore[method-assign]
    source.add(*copied(A, 1, schema=KEYLESS))
    with pytest.raises(ChangeRefused, match=r"take shop.b in again, all are copied then; or leave this one out"):
        pipeline.run(TOGETHER)
    if way == "taken in again":
        del source.snapshots  # type: ignore[method-assign]
        pipeline.run(TOGETHER)
        assert pipeline.ids(ALL) == [1, 11]
    else:
        source._items = source._items[:-3]
        source.add(rows(KEYLESS, 13, table=B, sequence=30))
        pipeline.run(TOGETHER)
        assert pipeline.ids(ALL) == [1, 2, 11, 12, 13]


def test_a_batch_that_was_carried_out_and_runs_again_by_an_edited_file_ends_no_copy(tmp_path: Path) -> None:
    """The run before may have let it take its place, or may have recreated it, empty."""

    def run(middle: Middle, batch: int, entries: int, *items: Any) -> tuple[int, list[Any], Sequence[TableId]]:
        tables, source = TableLog(LocalStore(tmp_path)), LiveSource([], {})
        chain = Derivation(middle, source, LocalStore(tmp_path), shadows=True, holds_rows=lambda table: False)
        chain.begin(batch, entries)
        told = [item if isinstance(item, on.SourceEvent) else on.event(item) for item in items]
        made = [replace(change, statement=None) for change in chain.derive(batch, told).operations]
        return chain.entries, made, [*open_orders(tables.at(batch).tables)]

    same, edited = to((A, ALL)), to((A, ALL), (B, OTHER))
    before, *_ = run(same, 0, 0, CreateTable(A, SMALL), CreateTable(B, SMALL), on.SnapshotBegun(A))
    for _ in range(2):
        assert run(same, 1, before, on.SnapshotDone(A))[1] == [SwapShadow(ALL)]
    for middle in (edited, edited, same):
        state, changes, wanted = run(middle, 1, before, on.SnapshotDone(A))
        assert CreateShadow(ALL) in changes
        assert SwapShadow(ALL) not in changes
        assert A in wanted
    state, changes, _ = run(same, 2, state, on.SnapshotBegun(A))
    assert changes == [CreateShadow(ALL)]
    assert run(same, 3, state, on.SnapshotDone(A))[1] == [SwapShadow(ALL)]
