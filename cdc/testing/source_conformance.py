"""Conformance tests for sources. Subclass `SourceConformance` and define a `harness` fixture."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import pytest

from cdc import events as on
from cdc.block import ChangeBlock
from cdc.schema import AddColumn, CreateTable, SchemaChange, TableId
from cdc.source import Limits, Offset, Source, Split
from cdc.testing.blocks import Row, images


class SourceHarness(Protocol):
    """A source's log for the suite. Each call is one committed transaction on the table (id BIGINT key, name)."""

    table: TableId

    def source(self) -> Source:
        """Create a source object on the same log and state directory, which starts at the log's beginning."""

    def create(self) -> None:
        """Create the table."""

    def insert(self, *rows: tuple[int, str | None]) -> None:
        """Insert rows in one transaction."""

    def update(self, id_: int, old: str, new: str) -> None:
        """Change the name of one row."""

    def delete(self, id_: int, old: str) -> None:
        """Delete one row."""

    def add_column(self, name: str) -> None:
        """Add a text column, NULL in existing rows. Rows inserted later have NULL in it too."""


@dataclass(frozen=True)
class ReadBatch:
    """A batch as the engine would get it."""

    start: Offset
    end: Offset
    changes: tuple[SchemaChange, ...]
    blocks: tuple[ChangeBlock, ...]

    @property
    def images(self) -> list[tuple[str, Row]]:
        """Row images in log order."""
        return images(self.blocks)


class SourceConformance:
    """Conformance tests of a source. A subclass defines a fixture `harness`: a `SourceHarness` with an empty log."""

    def test_resumes_after_the_last_row(self, harness: SourceHarness) -> None:
        """No row is lost or read twice."""
        harness.create()
        harness.insert((1, "a"), (2, "b"))
        first = drain(harness.source())
        harness.insert((3, "c"))
        rest = drain(harness.source(), first[-1].end)
        assert all_images(first) == [inserted(1, "a"), inserted(2, "b")]
        assert all_images(rest) == [inserted(3, "c")]

    def test_nothing_new_leaves_the_offset_where_it_is(self, harness: SourceHarness) -> None:
        """An unchanged offset means that nothing arrived."""
        harness.create()
        harness.insert((1, "a"))
        end = drain(harness.source())[-1].end
        source = harness.source()
        source.stop_at_current()
        assert source.latest_offset(end, None, 0.0) == end
        source.stop()

    def test_reads_one_range_twice_alike(self, harness: SourceHarness) -> None:
        """A failed batch is read again, by a new process, with other splits."""
        harness.create()
        for number in range(20):
            harness.insert((number, f"row {number}"))
        batches = drain(harness.source())
        for batch in batches:
            again = read(harness.source(), batch.start, batch.end, parallelism=3)
            assert again.images == batch.images
            assert again.changes == batch.changes

    def test_small_batches_give_the_same_rows(self, harness: SourceHarness) -> None:
        """Limits only decide where batches end."""
        harness.create()
        for number in range(10):
            harness.insert((2 * number, "even"), (2 * number + 1, "odd"))
        batches = drain(harness.source(), limits=Limits(max_bytes=1 << 30, max_rows=4))
        assert len(batches) > 1
        assert all_images(batches) == [inserted(number, "odd" if number % 2 else "even") for number in range(20)]

    def test_a_transaction_is_never_cut(self, harness: SourceHarness) -> None:
        """Limits are soft: a batch has at least one transaction."""
        harness.create()
        harness.insert(*((number, "x") for number in range(10)))
        harness.insert((10, "y"))
        sizes = [len(batch.images) for batch in drain(harness.source(), limits=Limits(max_bytes=1, max_rows=1))]
        assert [size for size in sizes if size] == [10, 1]

    def test_before_and_after_images(self, harness: SourceHarness) -> None:
        """An update is a pair, the before image first."""
        harness.create()
        harness.insert((1, "a"))
        harness.update(1, "a", "b")
        harness.delete(1, "b")
        assert all_images(drain(harness.source())) == [
            inserted(1, "a"),
            ("-U", {"id": 1, "name": "a"}),
            ("+U", {"id": 1, "name": "b"}),
            ("-D", {"id": 1, "name": "b"}),
        ]

    def test_a_schema_change_between_rows(self, harness: SourceHarness) -> None:
        """Rows before and after it are never in one batch."""
        harness.create()
        harness.insert((1, "a"))
        harness.add_column("note")
        harness.insert((2, "b"))
        batches = drain(harness.source())
        for batch in batches:
            assert len({block.schema for block in batch.blocks}) <= 1, "a batch has one schema per table"
        changed = [any(isinstance(item, AddColumn) for item in batch.changes) for batch in batches].index(True)
        assert all_images(batches[:changed]) == [inserted(1, "a")]
        assert all_images(batches[changed:]) == [("+I", {"id": 2, "name": "b", "note": None})]

    def test_schema_changes_come_with_the_table_they_change(self, harness: SourceHarness) -> None:
        """A table begins with its creation."""
        harness.create()
        harness.insert((1, "a"))
        changes = [change for batch in drain(harness.source()) for change in batch.changes]
        created = [change for change in changes if isinstance(change, CreateTable)]
        assert [change.table for change in created] == [harness.table]
        assert created[0].schema.names == ("id", "name")
        assert created[0].schema.primary_key == ("id",)

    def test_rows_are_in_order(self, harness: SourceHarness) -> None:
        """(sequence, row) is strictly increasing."""
        harness.create()
        for number in range(5):
            harness.insert((2 * number, "x"), (2 * number + 1, "y"))
        positions = [
            position
            for batch in drain(harness.source())
            for block in batch.blocks
            for position in zip(block.sequence.to_pylist(), block.row.to_pylist(), strict=True)
        ]
        assert len(positions) == 10
        assert all(left < right for left, right in pairwise(positions))

    def test_tables_are_known_before_the_first_row(self, harness: SourceHarness) -> None:
        """`cdc plan` needs them."""
        harness.create()
        schema = harness.source().tables()[harness.table]
        assert schema.names == ("id", "name")

    def test_a_replay_by_a_new_process_reads_the_stored_splits(self, harness: SourceHarness) -> None:
        """Splits are made once: their content does not depend on the later number of tasks."""
        harness.create()
        for number in range(20):
            harness.insert((number, f"row {number}"))
        planner = harness.source()
        at = planner.initial_offset()
        planner.stop_at_current()
        while (end := planner.latest_offset(at, None, 0.0)) != at:
            splits = list(planner.splits(at, end, 3))
            parts = [images(list(read_split(planner, split))) for split in splits]
            again = harness.source()
            again.splits(at, end, 1)
            assert [images(list(read_split(again, stored(split)))) for split in splits] == parts
            at = end
        planner.stop()

    def test_a_row_can_be_looked_up_in_the_log(self, harness: SourceHarness) -> None:
        """Where the source has position texts: a distinct one per transaction."""
        source = harness.source()
        if type(source).position_text is Source.position_text:
            pytest.skip("this source has no position texts")
        harness.create()
        for number in range(3):
            harness.insert((number, "x"))
        sequences = [int(at) for batch in drain(source) for block in batch.blocks for at in block.sequence.to_pylist()]
        assert len({source.position_text(at) for at in sequences}) == 3
        assert all(source.position_text(at) for at in sequences)

    def test_offsets_splits_and_the_source_travel_between_processes(self, harness: SourceHarness) -> None:
        """Offsets and splits are stored as JSON; the source is pickled."""
        harness.create()
        harness.insert((1, "a"))
        source: Source = pickle.loads(pickle.dumps(harness.source()))
        for batch in drain(source):
            assert json.loads(json.dumps(batch.start)) == batch.start
            splits = list(harness.source().splits(batch.start, batch.end, 1))
            assert [stored(split) for split in splits] == splits
            blocks = [block for split in splits for block in read_split(harness.source(), split)]
            assert images(blocks) == batch.images


def inserted(id_: int, name: str) -> tuple[str, dict[str, Any]]:
    """Return the image of an inserted row of the suite's table."""
    return "+I", {"id": id_, "name": name}


def all_images(batches: Sequence[ReadBatch]) -> list[tuple[str, Row]]:
    """Return the row images of all batches."""
    return [image for batch in batches for image in batch.images]


def drain(source: Source, start: Offset | None = None, limits: Limits | None = None) -> list[ReadBatch]:
    """Read everything up to the current end of the log, batch after batch."""
    at = source.initial_offset() if start is None else start
    source.stop_at_current()
    batches: list[ReadBatch] = []
    while (end := source.latest_offset(at, limits, 0.0)) != at:
        batches.append(read(source, at, end))
        at = end
    source.stop()
    return batches


def read(source: Source, start: Offset, end: Offset, parallelism: int = 1) -> ReadBatch:
    """Read one range as a batch."""
    changes = tuple(on.changes(source.events(start, end)))
    reports: list[dict[str, Any]] = []
    splits = source.splits(start, end, parallelism)
    blocks = tuple(block for split in splits for block in source.read(split, _ignore, reports.append))
    source.store_reports(reports)
    return ReadBatch(start, end, changes, blocks)


def read_split(source: Source, split: Split) -> Iterator[ChangeBlock]:
    """Return the blocks of one split, without its counts and reports."""
    return source.read(split, _ignore, lambda report: None)


def stored(split: Split) -> Split:
    """Return the split as it is restored for a replay."""
    return Split(split.index, json.loads(json.dumps(split.payload)))


def _ignore(reason: str, number: int) -> None:
    """Do nothing: counts are not tested."""
