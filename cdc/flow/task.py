"""The prepare task: read a split, apply rules and routes to its blocks, prepare the rows in the sink. Executor.

The driver sends a split descriptor and gets a `TaskResult` back; rows stay in the executor's process.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cdc.block import ChangeBlock
from cdc.errors import CdcError
from cdc.flow.block_router import BlockRouter
from cdc.flow.middle import Middle
from cdc.flow.rule_steps import RuleSteps
from cdc.flow.task_result import ReadFigures, TaskResult, check_payloads
from cdc.process.faults import crash_point
from cdc.process.stopwatch import Phases
from cdc.process.without_pandas import hide_pandas
from cdc.sink import Sink, TaskAttempt
from cdc.source import Source, Split
from cdc.state.directory import StateDir
from cdc.state.notes import Notes
from cdc.state.store import Store
from cdc.tables.log import TableLog


def _digest(split: Split) -> str:
    """16 hex digits that identify the rows of a split."""
    described = json.dumps([split.index, split.payload, split.moment_ms], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class PrepareTask:
    """Prepares one split of one batch. Picklable: it is sent to the executors.

    `answers` stores the answers of AI models in rules, for repeated tasks. `notes` stores what the sink is about to
    prepare, and what the source reports about rows that the sink commits within the task.
    """

    source: Source
    sink: Sink
    middle: Middle
    tables: TableLog
    answers: Store | None = None
    notes: Notes | None = None

    @classmethod
    def of(cls, source: Source, sink: Sink, middle: Middle, state: StateDir) -> PrepareTask:
        """The task of a pipeline with this state directory."""
        return cls(source, sink, middle, TableLog(state.store), state.answers, state.notes)

    def warm(self) -> None:
        """Load the modules and kernels that the first task needs."""
        hide_pandas()
        self.source.warm()
        self.sink.warm()

    def __call__(
        self,
        batch: int,
        split: Split,
        attempt: int = 0,
        *,
        generation: int = 0,
        only: Collection[str] | None = None,
        repeated: bool = False,
    ) -> TaskResult:
        """Prepare a split. Retryable errors are raised, so that Spark retries the task; others are in the result.

        Args:
            attempt: distinguishes attempts of a task that may overlap.
            generation: how often the batch's rows were prepared again after the decision (`cdc.flow.lost`).
            only: names of the sink tables to prepare; None for all.
            repeated: whether this run has tried the split before.
        """
        counts: Counter[str] = Counter()
        noting = None if self.notes is None else self.notes.of_attempt(batch, split.index, generation, attempt)
        reported = list[dict[str, Any]]()
        widened = partial(self.source.widened, split) if split.again or repeated else None
        reports = None if self.notes is None else self.notes.reports.of_attempt(batch, split.index, reported, widened)
        task = TaskAttempt(batch, split.index, attempt, generation, _digest(split), split.again, noting, reports)
        figures, phases = ReadFigures(), Phases()
        started = time.monotonic()

        def count(reason: str, number: int) -> None:
            counts[reason] += number

        def blocks(opened: ExitStack) -> Iterator[ChangeBlock]:
            """Read inside `prepare`, so that the sink meets every error: other tasks of it may wait for this one."""
            router = BlockRouter(self.sink, self.middle, self.tables.at(batch).tables)
            wanted = router.select_wanted(self.source.read(split, count, reported.append))
            read = phases.of("read", self._with_positions(figures.watch(wanted)))
            name = f"batch-{batch}-part-{split.index}"
            rules = RuleSteps(self.middle.rules, split.moment_ms, count, name, attempt, answers=self.answers)
            steps = opened.enter_context(rules)
            yield from router.route(steps.apply(read), only, count)

        try:
            with ExitStack() as opened, phases.phase("prepare"):
                prepared = self.sink.prepare(task, phases.of("transform", blocks(opened)))
            check_payloads(prepared)
            crash_point("in-prepare", batch)
        except CdcError as error:
            if error.retryable:
                raise
            return TaskResult(error=error.to_json())
        read_s = time.monotonic() - started
        spent = {name: round(seconds, 4) for name, seconds in phases.seconds.items()}
        return TaskResult(
            tuple(prepared),
            dict(counts),
            figures.newest_ms,
            read_s,
            reports=tuple(reported if reports is None else reports.valid),
            read=figures.changes(),
            phases=spent,
            bytes_read=figures.bytes,
            noted="" if noting is None else noting.name,
        )

    def _with_positions(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        """The blocks with a function that turns a sequence number into a position in the log."""
        return (replace(block, position_text=self.source.position_text) for block in blocks)
