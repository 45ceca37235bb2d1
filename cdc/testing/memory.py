"""A pipeline run in this process, without Spark: the same protocol of a batch, crashes and restarts included."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc.schema import SchemaChange, TableId
from cdc.sink import Prepared, Sink, Task
from cdc.source import Learns, Limits, Offset, Releases, Source, close
from cdc.testing.list_source import FailAt, ListSource


@dataclass
class Run:
    """What a run did: batches, the schema changes applied, changes counted, the source's counted reasons, its end."""

    batches: int = 0
    changes: list[SchemaChange] = field(default_factory=list)
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    offset: Offset = field(default_factory=dict)


class _Crash(Exception):
    """The process died here."""


def run_in_memory(
    source: Source,
    sink: Sink,
    *,
    limits: Limits | None = None,
    parallelism: int = 1,
    start: Offset | None = None,
    first_batch: int = 0,
    restarted: Callable[[], Sink] | None = None,
) -> Run:
    """Read the source to its end, batch after batch: apply, prepare, decide, commit.

    A `FailAt` in a `ListSource` kills the run at that step of its batch, once; then it goes on as after a restart, with
    the sink that `restarted` makes (the same object when not given). `start` and `first_batch` continue a run.
    """
    runner = _Runner(source, sink, parallelism, restarted or (lambda: sink))
    at = source.initial_offset() if start is None else start
    batch = first_batch
    while (end := source.latest_offset(at, limits, 0.0)) != at:
        runner.batch(batch, at, end)
        at, batch = end, batch + 1
    close(source)
    runner.run.offset = at
    return runner.run


class _Runner:
    def __init__(self, source: Source, sink: Sink, parallelism: int, restarted: Callable[[], Sink]) -> None:
        self._source, self._sink, self._restarted = source, sink, restarted
        self._parallelism = parallelism
        self._decisions: dict[int, str] = {}
        self._reports: dict[int, list[dict[str, Any]]] = {}
        self.run = Run()

    def batch(self, batch: int, start: Offset, end: Offset) -> None:
        """One batch, tried again after each crash that its input asks for."""
        failures = self._source.failures(start, end) if isinstance(self._source, ListSource) else []
        for failure in (*failures, None):
            try:
                self._attempt(batch, start, end, failure)
            except _Crash:
                self._sink = self._restarted()
                if batch not in self._decisions:
                    self._sink.abort(batch)
        self._count(_decoded(self._decisions[batch]))

    def _attempt(self, batch: int, start: Offset, end: Offset, failure: FailAt | None) -> None:
        if batch not in self._decisions:
            changes = self._source.schema_changes(start, end)
            if changes:
                self._sink.apply(batch, changes)
            prepared = self._prepare(batch, start, end)
            _crash(failure, FailAt.PREPARED)
            self._decisions[batch] = json.dumps([asdict(handle) for handle in prepared])
            self.run.changes.extend(changes)
        _crash(failure, FailAt.DECIDED)
        if isinstance(self._source, Learns):
            self._source.decided(self._reports[batch])
        self._sink.commit(batch, _decoded(self._decisions[batch]))
        _crash(failure, FailAt.COMMITTED)
        if isinstance(self._source, Releases):
            self._source.commit(end)

    def _prepare(self, batch: int, start: Offset, end: Offset) -> list[Prepared]:
        prepared: list[Prepared] = []
        reports: list[dict[str, Any]] = []
        for split in self._source.splits(start, end, self._parallelism):
            blocks = self._source.read(split, self._count_reason, reports.append)
            prepared.extend(self._sink.prepare(Task(batch, split.index, attempt=0), blocks))
        self._reports[batch] = reports
        return prepared

    def _count_reason(self, reason: str, number: int) -> None:
        self.run.reasons[reason] += number

    def _count(self, prepared: Sequence[Prepared]) -> None:
        self.run.batches += 1
        self.run.inserts += sum(handle.inserts for handle in prepared)
        self.run.updates += sum(handle.updates for handle in prepared)
        self.run.deletes += sum(handle.deletes for handle in prepared)


def _crash(failure: FailAt | None, step: FailAt) -> None:
    if failure is step:
        raise _Crash


def _decoded(text: str) -> list[Prepared]:
    """Handles as they come out of the decision file."""
    handles = [Prepared(**{**item, "table": TableId(**item["table"])}) for item in json.loads(text)]
    return sorted(handles, key=lambda handle: handle.partition)
