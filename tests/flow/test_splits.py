"""Splits are made once: a replay reads the parts that the first attempt read, whatever the parallelism is by then."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from together import together

from cdc.block import ChangeBlock
from cdc.errors import SinkError, StateError
from cdc.offsets import numbered
from cdc.schema import Column, CreateTable, DataType, SchemaChange, TableId, TableSchema
from cdc.sink import Prepared, Sink, TaskAttempt
from cdc.source import Offset, Split
from cdc.state.splits import SplitLog
from cdc.state.store import LocalStore
from cdc.testing import ListSource, block, images
from cdc.testing.local_pipeline import LocalPipeline

T = TableId("shop", "t")
SCHEMA = TableSchema((Column("id", DataType.parse("INT")),), primary_key=("id",))
ITEMS = (CreateTable(T, SCHEMA), *(block(T, SCHEMA, [("+I", {"id": n})], sequence=n) for n in range(1, 9)))
START, END = numbered({"item": 0}, 0), numbered({"item": 9}, 1)


class Fenced(Sink):
    """As a sink whose prepared rows cannot be committed by another process: each task commits its own, with a fence
    (batch and partition). A task that is done already writes nothing. The first life loses `dies_at`."""

    def __init__(self, dies_at: int | None = None) -> None:
        self.fences: set[tuple[int, int]] = set()
        self.ids: list[int] = []
        self.dies_at = dies_at

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Nothing to do."""

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        found = [int(row["id"]) for _, row in images(list(blocks))]
        if task.partition == self.dies_at:
            raise SinkError("the server is gone")
        if (task.batch, task.partition) not in self.fences:
            self.fences.add((task.batch, task.partition))
            self.ids += found
        return [Prepared(T, task.partition, None, inserts=len(found))]

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Done in the tasks."""

    def abort(self, batch: int, noted: Sequence[object] = ()) -> None:
        """What a task has committed stays."""


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3), (2, 5)])
def test_a_sink_that_fences_by_task_gets_every_row_once(tmp_path: Path, before: int, after: int) -> None:
    sink = Fenced(dies_at=before - 1)
    pipeline = LocalPipeline(ListSource(ITEMS), sink, tmp_path, START, lambda: sink)
    with pytest.raises(SinkError):
        pipeline.batch(START, END, before)
    sink.dies_at = None
    again = LocalPipeline(ListSource(ITEMS), sink, tmp_path, START, lambda: sink)  # other cores, a new process
    again.batch(START, END, after)
    again.finish(1, END)
    assert sorted(sink.ids) == list(range(1, 9))
    assert len(sink.fences) == before


def stored(root: Path, parallelism: int, end: Offset = END) -> Sequence[Split]:
    return SplitLog(LocalStore(root / "splits")).splits(ListSource(ITEMS), START, end, parallelism)


def test_splits_are_on_disk_before_anybody_has_them_and_go_with_the_commit(tmp_path: Path) -> None:
    first = stored(tmp_path, 3)
    assert json.loads((tmp_path / "splits" / "0.json").read_text())["splits"] == [[s.index, s.payload] for s in first]
    again = stored(tmp_path, 1)
    assert again == first
    assert [{split.again for split in each} for each in (first, again)] == [{False}, {True}]
    SplitLog(LocalStore(tmp_path / "splits")).prune(-1)
    assert stored(tmp_path, 1) == first
    SplitLog(LocalStore(tmp_path / "splits")).prune(0)
    assert len(stored(tmp_path, 1)) == 1


def test_a_batch_that_is_planned_again_is_cut_again(tmp_path: Path) -> None:
    stored(tmp_path, 3)
    shorter = numbered({"item": 4}, 1)
    assert [split.payload for split in stored(tmp_path, 1, shorter)] == [[0, 4]]
    assert [split.payload for split in stored(tmp_path, 3, shorter)] == [[0, 4]]


@together("content", ["", "[]", "{}", '{"start": 1}'])
def test_a_damaged_file_stops_the_run(tmp_path: Path, content: str) -> None:
    stored(tmp_path, 3)
    (tmp_path / "splits" / "0.json").write_text(content)
    with pytest.raises(StateError, match=r"0\.json: cannot be read"):
        stored(tmp_path, 3)


def test_a_finished_pipeline_keeps_none(tmp_path: Path) -> None:
    sink = Fenced()
    pipeline = LocalPipeline(ListSource(ITEMS), sink, tmp_path, START, lambda: sink)
    pipeline.batch(START, END, 2)
    pipeline.finish(1, END)
    assert list((tmp_path / "splits").iterdir()) == []
