"""Routes that are edited between two runs: tables go elsewhere with all their rows, and nothing else moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from live_source import LiveSource
from tiers import EXHAUSTIVE
from transform_rules import text

from cdc.errors import ChangeRefused, EditRefused, EngineError
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import (
    AddColumn,
    Column,
    CreateTable,
    DataType,
    DropTable,
    RenameTable,
    TableId,
    TableSchema,
    TruncateTable,
)
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
