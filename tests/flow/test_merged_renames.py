"""A source table of a merged table gets another name, and its rows would have to follow it: it is copied instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_source import LiveSource
from test_moved_routes import SMALL, SPARE, WIDE, A, B, Pipeline, rows
from together import together

from cdc import events as on
from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import CreateTable, DropTable, RenameTable, TableId
from cdc.sink_columns import Coercion
from cdc.source import Snapshots
from cdc.spec.model import RouteRule
from cdc.testing import FailAt

ALL, GONE, COPY = TableId("ods", "all"), TableId("ods", "gone"), TableId("ods", "copy")
OLD_A, COPY_OF_A, OLD_B = TableId("shop", "_a_del"), TableId("shop", "_a_gho"), TableId("shop", "_b_del")
OF = {A: ALL, B: ALL, COPY_OF_A: COPY, OLD_A: GONE, OLD_B: GONE}


def routed(shard_column: str | None, shard_gone: str = "keep") -> Middle:
    more = {} if shard_column is None else {"shard_column": shard_column, "shard_gone": shard_gone}
    rules = [RouteRule(source_table=str(source), sink_table=str(sink), **more) for source, sink in OF.items()]
    return Middle(RouteTable(rules), Policy(Behavior.EVOLVE), Coercion("fail"))


def merged(folder: Path, middle: Middle) -> Pipeline:
    source = LiveSource(
        [CreateTable(A, SMALL), CreateTable(B, SMALL), rows(SMALL, 1, 2), rows(SMALL, 11, 12, table=B)],
        {
            A: rows(WIDE, 1, 2, 3, sequence=20), B: rows(SMALL, 11, 12, table=B, sequence=20),
            OLD_A: rows(SMALL, 1, 2, table=OLD_A, sequence=20), OLD_B: rows(SMALL, 11, 12, table=OLD_B, sequence=20),
        },
    )  # fmt: skip
    pipeline = Pipeline(folder, source)
    pipeline.run(middle)
    return pipeline


@together("shard, failure", [(None, None), ("shard", None), (None, FailAt.PREPARED), ("shard", FailAt.COMMITTED)])
def test_the_cut_over_of_an_online_schema_change(tmp_path: Path, shard: str | None, failure: FailAt | None) -> None:
    middle = routed(shard)
    pipeline = merged(tmp_path, middle)
    pipeline.source.add(CreateTable(COPY_OF_A, WIDE), rows(WIDE, 1, 2, table=COPY_OF_A, sequence=10))
    pipeline.source.add(RenameTable(A, OLD_A), *([failure] if failure else []), RenameTable(COPY_OF_A, A))
    pipeline.source.add(rows(WIDE, 3, sequence=12))
    pipeline.run(middle)
    assert pipeline.ids(ALL) == [1, 2, 3, 11, 12]
    assert pipeline.ids(GONE) == [1, 2]
    assert COPY not in pipeline.sink.tables
    if shard:
        assert {row["id"]: row[shard] for row in pipeline.sink.rows(ALL)}[2] == str(A)
    pipeline.source.add(DropTable(OLD_A))
    pipeline.run(middle)
    assert GONE not in pipeline.sink.tables


@together("shard, gone, left", [(None, "keep", [1, 2]), ("shard", "keep", [1, 2]), ("shard", "delete", [])])
def test_all_of_them_are_renamed(tmp_path: Path, shard: str | None, gone: str, left: list[int]) -> None:
    middle = routed(shard, gone)
    pipeline = merged(tmp_path, middle)
    pipeline.source.add(RenameTable(A, OLD_A))
    pipeline.run(middle)
    assert (pipeline.ids(GONE), pipeline.ids(ALL)) == ([1, 2], [*left, 11, 12])
    pipeline.source.add(RenameTable(B, OLD_B), rows(SMALL, 12, table=OLD_B, sequence=30))
    pipeline.run(middle)
    assert pipeline.ids(GONE) == [1, 2, 11, 12]


def test_both_names_go_to_the_table_with_the_name_in_a_column(tmp_path: Path) -> None:
    rules = [RouteRule(source_table=r"shop.\.*", sink_table=str(ALL), shard_column="shard")]
    middle = Middle(RouteTable(rules), Policy(Behavior.EVOLVE), Coercion("fail"))
    pipeline = merged(tmp_path, middle)
    pipeline.source.add(RenameTable(A, OLD_A))
    pipeline.run(middle)
    assert {row["id"]: row["shard"] for row in pipeline.sink.rows(ALL)} == {
        1: str(OLD_A), 2: str(OLD_A), 11: str(B), 12: str(B),
    }  # fmt: skip


@together("shard", [None, "shard"])
def test_two_of_them_swap_their_names_through_one_that_is_not_captured(tmp_path: Path, shard: str | None) -> None:
    """As in `RENAME TABLE a TO spare, b TO a, spare TO b`."""
    middle = routed(shard)
    pipeline = merged(tmp_path, middle)
    pipeline.source.left_out.add(SPARE)
    pipeline.source.add(RenameTable(A, SPARE), RenameTable(B, A), RenameTable(SPARE, B))
    now = pipeline.source.now
    now[A], now[B] = rows(SMALL, 11, 12, sequence=20), rows(SMALL, 1, 2, table=B, sequence=20)
    pipeline.source.add(rows(SMALL, 12, sequence=14))
    pipeline.run(middle)
    assert pipeline.ids(ALL) == [1, 2, 11, 12]
    assert pipeline.sink.tables == {ALL}
    if shard:
        origins = {row["id"]: row[shard] for row in pipeline.sink.rows(ALL)}
        assert origins == {1: str(B), 2: str(B), 11: str(A), 12: str(A)}


def test_without_a_copy_the_run_stops(tmp_path: Path) -> None:
    middle = routed(None)
    pipeline = merged(tmp_path, middle)
    pipeline.source.snapshots = lambda table: Snapshots.NEVER  # type: ignore[method-assign]
    pipeline.source.add(RenameTable(A, OLD_A), on.TableDropped(B))
    with pytest.raises(ChangeRefused, match=r"rename\.table shop\.a to shop\._a_del"):
        pipeline.run(middle)
