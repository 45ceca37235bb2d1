"""Decided rows that the sink gave up: what is read again, what is let go, what stops the run and says the way out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc.block import ChangeBlock
from cdc.errors import LoadsLost, PositionLost, SinkUnavailable
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.lost import LostLoads
from cdc.flow.middle import Middle
from cdc.flow.task import PrepareTask
from cdc.offsets import numbered
from cdc.retry import RetryPolicy
from cdc.route import RouteTable
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from cdc.sink import Prepared
from cdc.source import Count, Report, Snapshots, Split
from cdc.spec.model import RouteRule
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.state.splits import SplitLog
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog
from cdc.tables.requests import Mailbox, RequestKind
from cdc.tables.states import PairState, TableState
from cdc.testing import ListSink, ListSource, block

SCHEMA = TableSchema((Column("id", DataType.parse("INT")),), primary_key=("id",))
A, B = TableId("shop", "a"), TableId("shop", "b")
ITEMS = (
    CreateTable(A, SCHEMA),
    CreateTable(B, SCHEMA),
    block(A, SCHEMA, [("+I", {"id": 1})], sequence=1),
    block(B, SCHEMA, [("+I", {"id": 2})], sequence=2),
    block(A, SCHEMA, [("+I", {"id": 3})], sequence=3),
    block(B, SCHEMA, [("+I", {"id": 4})], sequence=4),
)
RETRY = RetryPolicy(timeout_s=0.0)
LIVE = PairState(TableState.LIVE)


TO_LAKE = Middle(RouteTable([RouteRule(source_table=r"\.*.\.*", sink_table="lake.<>", replace_symbol="<>")]))


def to_lake(table: TableId) -> TableId:
    return TableId("lake", table.table)


class Copying(ListSource):
    """A list whose tables can be snapshotted again."""

    def snapshots(self, table: TableId) -> Snapshots:
        return Snapshots.ALWAYS


class Purged(Copying):
    """A list that cannot be read a second time."""

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        raise PositionLost("the log does not hold it any more", where="log:4")


class Copied(Copying):
    """A list whose rows come with a report, as those of a copy do."""

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        report({"chunk": 1})
        return super().read(split, count, report)


class World:
    """A state directory in which batch 0 is decided: three parts, the middle ones with rows of both tables."""

    def __init__(self, folder: Path, source: ListSource) -> None:
        self.sink, self.state = ListSink(), StateDir(folder)
        self.sink.apply(0, [CreateTable(to_lake(table), SCHEMA) for table in (A, B)])
        self.state.open(name="p", source="list")
        self.state.store_initial_offset(numbered({"item": 0}, 0))
        self.log = CommitLog(self.state.commits)
        start, end = numbered({"item": 0}, 0), numbered({"item": len(ITEMS)}, 1)
        splits = SplitLog(self.state.splits).splits(source, start, end, 3)
        entries = self.write({(A, to_lake(A)): LIVE, (B, to_lake(B)): LIVE})
        first = PrepareTask(ListSource(ITEMS), self.sink, TO_LAKE, TableLog(self.state.store))
        handles = [handle for split in splits for handle in first(0, split).prepared]
        self.decision = Decision(0, start, end, tuple(handles), tables=entries)
        self.log.decide(self.decision)
        self.lost = LostLoads(replace(first, source=source), self.state, RETRY)

    def write(self, pairs: dict[tuple[TableId, TableId], PairState]) -> int:
        """The tables after the batch."""
        tables, sinks = {A: SCHEMA, B: SCHEMA}, {table: SCHEMA for _, table in pairs}
        return TableLog(self.state.store).write(0, TableViews(tables, tables, sinks, pairs))

    def request(self, *tables: TableId) -> None:
        """As `cdc resync`."""
        for table in tables:
            Mailbox(self.state.store).add(table, RequestKind.SNAPSHOT)

    def parts(self, decision: Decision) -> list[tuple[str, int]]:
        return sorted((str(item.table), item.partition) for item in decision.prepared)


def lost(tables: dict[str, int], *uncertain: str) -> LoadsLost:
    return LoadsLost(
        "the server gave them up", where="lake", hint="keep them longer", tables=tables, uncertain=uncertain
    )


ALL = [("lake.a", 1), ("lake.a", 2), ("lake.b", 1), ("lake.b", 2)]


def test_only_the_lost_parts_of_the_lost_tables_are_prepared_again(tmp_path: Path) -> None:
    world = World(tmp_path, Copying(ITEMS))
    assert world.parts(world.decision) == ALL
    new = world.lost.decide_without(world.decision, lost({"lake.a": 2}))
    assert world.parts(new) == ALL
    assert new.generation == 1
    changed = [item for item in new.prepared if item not in world.decision.prepared]
    assert {(str(item.table), item.partition) for item in changed} <= {("lake.a", 2)}
    assert world.log.get(0) == new
    world.sink.apply(0, [CreateTable(to_lake(A), SCHEMA), CreateTable(to_lake(B), SCHEMA)])
    world.sink.commit(0, new.prepared)
    assert world.sink.rows(to_lake(A)) == [{"id": 1}, {"id": 3}]
    assert world.sink.rows(to_lake(B)) == [{"id": 2}, {"id": 4}]


@pytest.mark.parametrize(
    ("source", "why"), [(Purged, "the log does not hold it any more"), (Copied, "they are from a snapshot")]
)
def test_what_cannot_be_read_again_stops_the_run_and_names_the_source_table(
    source: type[ListSource], why: str, tmp_path: Path
) -> None:
    world = World(tmp_path, source(ITEMS))
    with pytest.raises(LoadsLost, match=why) as caught:
        world.lost.decide_without(world.decision, lost({"lake.a": 1}))
    assert "`cdc resync FILE shop.a`" in caught.value.hint
    assert "shop.b" not in caught.value.hint
    assert "keep them longer" in caught.value.hint
    assert "commits/" not in str(caught.value)
    assert world.log.get(0) == world.decision


def test_a_table_that_may_be_in_is_not_read_again(tmp_path: Path) -> None:
    world = World(tmp_path, Copying(ITEMS))
    with pytest.raises(LoadsLost, match="are not written again") as caught:
        world.lost.decide_without(world.decision, lost({}, "lake.b"))
    assert "`cdc resync FILE shop.b`" in caught.value.hint


def test_the_other_lost_tables_are_read_again_first(tmp_path: Path) -> None:
    world = World(tmp_path, Copying(ITEMS))
    new = world.lost.decide_without(world.decision, lost({"lake.a": 1}, "lake.b"))
    assert world.parts(new) == ALL
    with pytest.raises(LoadsLost, match="are not written again"):
        world.lost.decide_without(new, lost({}, "lake.b"))


@pytest.mark.parametrize("error", [lost({"lake.a": 2}), lost({}, "lake.a")])
def test_a_copy_that_was_asked_for_lets_go_of_the_rows(error: LoadsLost, tmp_path: Path) -> None:
    world = World(tmp_path, Purged(ITEMS))
    world.request(A)
    new = world.lost.decide_without(world.decision, error)
    assert [part for part in world.parts(new) if part[0] == "lake.b"] == ALL[2:]
    assert ("lake.a", 2) not in world.parts(new)
    assert world.log.get(0) == new


def test_a_request_that_a_batch_has_taken_in_lets_go_of_the_rows_before_its_snapshot(tmp_path: Path) -> None:
    world = World(tmp_path, Purged(ITEMS))
    world.write({(A, to_lake(A)): PairState(TableState.REQUESTED, 0), (B, to_lake(B)): LIVE})
    assert ("lake.a", 2) not in world.parts(world.lost.decide_without(world.decision, lost({"lake.a": 2})))


def test_a_snapshot_that_began_before_does_not_hold_the_rows(tmp_path: Path) -> None:
    world = World(tmp_path, Purged(ITEMS))
    world.write({(A, to_lake(A)): PairState(TableState.SHADOW, 0), (B, to_lake(B)): LIVE})
    with pytest.raises(LoadsLost, match="cannot be read again"):
        world.lost.decide_without(world.decision, lost({"lake.a": 1}))


def test_rows_of_a_table_that_several_go_to_are_let_go_once_all_are_copied(tmp_path: Path) -> None:
    world = World(tmp_path, Purged(ITEMS))
    merged = to_lake(A)
    rules = [RouteRule(source_table=r"shop.\.*", sink_table=str(merged))]
    middle = replace(TO_LAKE, routes=RouteTable(rules), policy=Policy(Behavior.LENIENT))
    world.lost = LostLoads(replace(world.lost._task, middle=middle), world.state, RETRY)
    world.write({(A, merged): LIVE, (B, merged): LIVE})
    with pytest.raises(LoadsLost) as caught:
        world.lost.decide_without(world.decision, lost({}, str(merged)))
    assert f"`cdc resync FILE {A}`, `cdc resync FILE {B}`;" in caught.value.hint
    world.request(A)
    with pytest.raises(LoadsLost):
        world.lost.decide_without(world.decision, lost({}, str(merged)))
    world.request(B)
    new = world.lost.decide_without(world.decision, lost({}, str(merged)))
    assert [part for part in world.parts(new) if part in ALL[:2]] == []


def test_a_sink_that_is_away_is_not_a_reason_to_let_go(tmp_path: Path) -> None:
    world = World(tmp_path, Copying(ITEMS))

    def away(*args: object) -> list[Prepared]:
        raise SinkUnavailable("away")

    world.sink.prepare = away  # type: ignore[method-assign]
    with pytest.raises(SinkUnavailable):
        world.lost.decide_without(world.decision, lost({"lake.a": 1}))
    assert world.log.get(0) == world.decision
