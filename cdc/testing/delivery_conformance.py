"""Conformance tests of delivery for sinks of every profile: exactly once, also when steps are repeated.

`SinkConformance` includes these tests; a sink without tables (a log) uses only these.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

from cdc.block import ChangeBlock
from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema
from cdc.sink import Delivery, Prepared, Sink, TaskAttempt
from cdc.testing.blocks import Row, block
from cdc.testing.sink_harness import SinkHarness

ID = Column("id", DataType(Kind.BIGINT), nullable=False)
NAME = Column("name", DataType(Kind.VARCHAR, 64))
KEYED = TableSchema((ID, NAME), ("id",))
KEYLESS = TableSchema((ID, NAME))
ORDERS, LOG = TableId("shop", "orders"), TableId("shop", "log")


def row(id_: int, name: str | None = None) -> Row:
    """Return a row of the suite's table."""
    return {"id": id_, "name": name}


class DeliveryConformance:
    """Conformance tests. A subclass defines a fixture `harness` that returns a `SinkHarness` on a new location."""

    def test_rows_become_visible_at_commit_and_not_before(self, harness: SinkHarness) -> None:
        """Prepared rows are durable and invisible, except in a sink whose tasks commit."""
        sink = harness.sink()
        prepared = prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True)
        if sink.delivery is not Delivery.COMMIT_IN_TASK:
            assert harness.rows(ORDERS) == []
        sink.commit(0, prepared)
        assert harness.rows(ORDERS) == [row(1, "a")]

    def test_committing_twice_changes_nothing(self, harness: SinkHarness) -> None:
        """The second call finds the result of the first."""
        sink = harness.sink()
        prepared = prepare(sink, 0, [keyless("+I", row(1, "a"))], create=True)
        sink.commit(0, prepared)
        sink.commit(0, prepared)
        assert harness.rows(LOG) == [row(1, "a")]

    def test_the_last_batch_replayed_after_a_restart_changes_nothing(self, harness: SinkHarness) -> None:
        """The next process knows the committed batches."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(1, "a"))], create=True))
        prepared = prepare(sink, 1, [keyless("+I", row(2, "b"))])
        sink.commit(1, prepared)
        harness.sink().commit(1, prepared)
        assert by_id(harness.rows(LOG)) == [row(1, "a"), row(2, "b")]

    def test_a_decided_batch_is_committed_by_the_next_process(self, harness: SinkHarness) -> None:
        """The handles are all that it needs."""
        prepared = prepare(harness.sink(), 0, [keyless("+I", row(1, "a"))], create=True)
        harness.sink().commit(0, prepared)
        assert harness.rows(LOG) == [row(1, "a")]

    def test_a_retried_task_leaves_one_copy(self, harness: SinkHarness) -> None:
        """Only the handles of the successful attempt count."""
        sink = harness.sink()
        half = "whole" if sink.delivery is Delivery.COMMIT_IN_TASK else "half"
        prepare(sink, 0, [keyless("+I", row(1, half))], create=True, attempt=0)
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(1, "whole"))], attempt=1))
        assert harness.rows(LOG) == [row(1, "whole")]

    def test_abort_leaves_nothing(self, harness: SinkHarness) -> None:
        """An abort may be repeated, and the batch may run again with its number; a committed task is recognized."""
        sink = harness.sink()
        if sink.delivery is Delivery.COMMIT_IN_TASK:
            for _ in range(2):
                prepared = prepare(sink, 0, [keyless("+I", row(1, "once"))], create=True)
                sink.abort(0)
            sink.commit(0, prepared)
            assert harness.rows(LOG) == [row(1, "once")]
            return
        noted: list[Any] = []
        prepare(sink, 0, [keyless("+I", row(1, "lost"))], create=True, noted=noted)
        sink.abort(0, noted)
        sink.abort(0, noted)
        assert harness.rows(LOG) == []
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(2, "kept"))]))
        assert harness.rows(LOG) == [row(2, "kept")]

    def test_a_batch_without_rows(self, harness: SinkHarness) -> None:
        """A batch may have only schema changes, or nothing at all."""
        sink = harness.sink()
        assert list(sink.prepare(TaskAttempt(0, 0, 0), iter(()))) == []
        sink.commit(0, [])
        sink.commit(1, prepare(sink, 1, [keyless("+I", row(1))], create=True))
        assert harness.rows(LOG) == [row(1)]

    def test_the_sink_and_its_handles_travel_between_processes(self, harness: SinkHarness) -> None:
        """The sink is pickled to executors, handles are stored as JSON."""
        sink = pickle.loads(pickle.dumps(harness.sink()))
        prepared = prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True)
        sent = json.loads(json.dumps([handle.to_json() for handle in prepared]))
        received = [Prepared.from_json(item, each.payload) for item, each in zip(sent, prepared, strict=True)]
        assert received == list(prepared)
        harness.sink().commit(0, received)
        assert harness.rows(ORDERS) == [row(1, "a")]

    def test_changes_are_counted_for_the_user(self, harness: SinkHarness) -> None:
        """An update counts once, not once per image."""
        changes = keyed("+I", row(1)), keyed("-U", row(1), "+U", row(1, "b")), keyed("-D", row(1, "b"))
        prepared = prepare(harness.sink(), 0, changes, create=True)
        counts = [sum(getattr(item, name) for item in prepared) for name in ("inserts", "updates", "deletes")]
        assert counts == [1, 1, 1]


def keyed(*changes: Any) -> ChangeBlock:
    """Build a block of the table with a key: kind, row, kind, row..."""
    return block(ORDERS, KEYED, list(zip(changes[::2], changes[1::2], strict=True)))


def keyless(*changes: Any) -> ChangeBlock:
    """Build a block of the table without a key."""
    return block(LOG, KEYLESS, list(zip(changes[::2], changes[1::2], strict=True)))


def prepare(
    sink: Sink,
    batch: int,
    blocks: Iterable[ChangeBlock],
    *,
    create: bool = False,
    partition: int = 0,
    attempt: int = 0,
    noted: list[Any] | None = None,
) -> Sequence[Prepared]:
    """Prepare blocks as one task, with `create` after creating the suite's tables; `noted` collects its notes."""
    if create:
        sink.apply(batch, [CreateTable(ORDERS, KEYED), CreateTable(LOG, KEYLESS)])
    noting = [].append if noted is None else noted.append
    return sink.prepare(TaskAttempt(batch, partition, attempt, noting=noting), iter(blocks))


def by_id(rows: list[Row] | None) -> list[Row]:
    """Return the rows ordered by id."""
    if rows is None:
        raise AssertionError("the table does not exist")
    return sorted(rows, key=lambda item: int(item["id"]))
