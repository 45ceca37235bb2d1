"""The task of an executor with a split: read it, apply rules and routes to the blocks, prepare them in the sink.

Only split descriptors go to it and `TaskResult`s come back; the rows stay in its process.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cdc.block import ChangeBlock, RowKind, Stream
from cdc.errors import CdcError, EngineError, SinkError, from_json
from cdc.evolution.merge import fits_exactly, same_key
from cdc.faults import reached
from cdc.flow.copying import blocks_for, gathered_tables
from cdc.flow.gather import gathered
from cdc.flow.middle import Middle
from cdc.flow.rule_steps import RuleSteps
from cdc.flow.shard import with_source
from cdc.schema import TableId, TableSchema
from cdc.sink import MOST_PAYLOAD, Prepared, Sink, TaskAttempt
from cdc.source import Count, Source, Split
from cdc.state.directory import StateDir
from cdc.state.notes import Notes
from cdc.state.store import Store
from cdc.tables.log import TableLog
from cdc.tables.router import targets
from cdc.tables.states import NO_MEMBER, Tables, TableState
from cdc.timing import Phases
from cdc.without_pandas import keep_pandas_out


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of one split. `newest_ms` is the latest source commit time in it (0: no rows); `read_s` how long.

    `reports` is what the source's reader had to tell (see `Source.decided`). `read` is how many changes it read, by
    source table, `bytes_read` how large they were as columns, and `phases` where the seconds went: read, decode,
    transform, prepare. `noted` is the name of what the attempt has noted (`cdc.state.notes`), empty for nothing.
    """

    prepared: tuple[Prepared, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    newest_ms: int = 0
    read_s: float = 0.0
    error: str = ""
    reports: tuple[dict[str, Any], ...] = ()
    read: dict[str, int] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    bytes_read: int = 0
    noted: str = ""

    def to_row(self) -> tuple[str, bytes]:
        """A line of JSON, and the payloads of all handles one behind the other: `from_row` reads both back."""
        plain = replace(self, prepared=())
        handles = [{**handle.to_json(), "payload": len(handle.payload)} for handle in self.prepared]
        return json.dumps({**asdict(plain), "prepared": handles}), b"".join(each.payload for each in self.prepared)

    @classmethod
    def from_row(cls, text: str, payloads: bytes) -> TaskResult:
        """The result that `to_row` gave."""
        fields = json.loads(text)
        prepared, at = list[Prepared](), 0
        for handle in fields.pop("prepared"):
            size = handle.pop("payload")
            prepared.append(Prepared.from_json(handle, bytes(payloads[at : at + size])))
            at += size
        return cls(prepared=tuple(prepared), reports=tuple(fields.pop("reports")), **fields)

    def raise_error(self) -> None:
        """Raise the error that stopped the task, if one did."""
        if self.error:
            raise from_json(self.error)


def check_payloads(prepared: Sequence[Prepared]) -> None:
    """Raise SinkError when a task hands more bytes to the driver than it may."""
    total = sum(len(handle.payload) for handle in prepared)
    if total > MOST_PAYLOAD:
        largest = max(prepared, key=lambda handle: len(handle.payload))
        raise SinkError(
            f"the commit payload of {largest.table} has {len(largest.payload)} bytes, all of this task {total}; "
            f"{MOST_PAYLOAD} may go to the driver",
            where=str(largest.table),
            hint="let a batch be smaller, or write fewer and larger files a task",
        )


def _digest(split: Split) -> str:
    """16 hex digits that stand for the rows of a split."""
    told = json.dumps([split.index, split.payload, split.moment_ms], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


_NOT_FOLLOWED = NO_MEMBER | {TableState.MISSING}
"""States whose rows are counted, or stop the run."""


@dataclass(frozen=True, slots=True)
class PrepareTask:
    """Prepares one split of one batch. Picklable: it travels to the executors.

    `answers` keeps what AI models of the rules have answered, for a task that runs again; `notes` what the sink notes.
    """

    source: Source
    sink: Sink
    middle: Middle
    tables: TableLog
    answers: Store | None = None
    notes: Notes | None = None

    @classmethod
    def of(cls, source: Source, sink: Sink, middle: Middle, state: StateDir) -> PrepareTask:
        """The task of a pipeline whose state is in a directory."""
        return cls(source, sink, middle, TableLog(state.store), state.answers, state.notes)

    def warm(self) -> None:
        """Load what the first task needs."""
        keep_pandas_out()
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
    ) -> TaskResult:
        """Errors that a second try would meet again are in the result; retryable ones are raised for the next try.

        `attempt` tells tries that may overlap apart. A batch whose rows are prepared anew has a `generation`, and may
        be about sink tables of these names `only`.
        """
        counts: Counter[str] = Counter()
        noting = None if self.notes is None else self.notes.of_attempt(batch, split.index, generation, attempt)
        task = TaskAttempt(batch, split.index, attempt, generation, _digest(split), split.again, noting)
        seen, reports, phases = _Seen(), list[dict[str, Any]](), Phases()
        started = time.monotonic()

        def count(reason: str, number: int) -> None:
            counts[reason] += number

        try:
            blocks_read = seen.watch(self._wanted(batch, self.source.read(split, count, reports.append)))
            read = phases.of("read", self._placed(blocks_read))
            name = f"batch-{batch}-part-{split.index}"
            with RuleSteps(self.middle.rules, split.moment_ms, count, name, attempt, answers=self.answers) as steps:
                routed = self._routed(batch, steps.applied(read), only, count)
                blocks = phases.of(
                    "transform", gathered(routed, gathered_tables(self.sink, self.tables.at(batch).tables.merged))
                )
                with phases.phase("prepare"):
                    prepared = self.sink.prepare(task, blocks)
            check_payloads(prepared)
            reached("in-prepare", batch)
        except CdcError as error:
            if error.retryable:
                raise
            return TaskResult(error=error.to_json())
        read_s = time.monotonic() - started
        spent = {name: round(seconds, 4) for name, seconds in phases.seconds.items()}
        return TaskResult(
            tuple(prepared),
            dict(counts),
            seen.newest_ms,
            read_s,
            reports=tuple(reports),
            read=seen.changes(),
            phases=spent,
            bytes_read=seen.bytes,
            noted="" if noting is None else noting.name,
        )

    def _wanted(self, batch: int, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        """The blocks without those that no table of the sink gets, such as those of paused tables: no rule meets their
        rows."""
        tables = self.tables.at(batch).tables
        wanted: dict[tuple[TableId, frozenset[Stream]], bool] = {}
        for block in blocks:
            key = block.table, block.streams
            if key not in wanted:
                wanted[key] = self._is_wanted(tables, *key)
            if wanted[key]:
                yield block

    def _is_wanted(self, tables: Tables, source: TableId, streams: frozenset[Stream]) -> bool:
        """Whether a table of the sink gets rows of these streams; of one that is not followed the run is told later."""
        for target in self.middle.routes.targets(source):
            state, shadowed = tables.state((source, target.table)), tables.sink_state(target.table).shadowed
            if state in _NOT_FOLLOWED or targets(state, streams, shadowed=shadowed):
                return True
        return False

    def _placed(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        """The blocks with what turns a sequence into a place of the log."""
        return (replace(block, position_text=self.source.position_text) for block in blocks)

    def _routed(
        self, batch: int, blocks: Iterator[ChangeBlock], only: Collection[str] | None, count: Count
    ) -> Iterator[ChangeBlock]:
        """The blocks as the sink sees them: for each sink table of theirs one, with its columns."""
        tables = self.tables.at(batch).tables
        for block in blocks:
            for target in self.middle.routes.targets(block.table):
                state, sink_state = tables.state((block.table, target.table)), tables.sink_state(target.table)
                known = tables.sinks.get(target.table)
                if known is None:
                    if state is TableState.MISSING:
                        count(f"no-table-in-sink {target.table}", len(block))
                    elif only is None or str(target.table) in only:  # a run in memory may go on without its state
                        yield replace(with_source(block, target), table=target.table)
                    continue
                if state in NO_MEMBER:
                    raise _not_followed(block.table, target.table, state)
                named = blocks_for(self.sink, replace(block, table=target.table), state, shadowed=sink_state.shadowed)
                places = [each.table for each in named if only is None or str(each.table) in only]
                if not places:
                    continue
                routed = replace(with_source(block, target), table=target.table)
                exact = self.middle.policy.exact and not sink_state.merged
                fitted, fits = routed, None
                for place in places:
                    schema = known if place == target.table else sink_state.shadow or known
                    if schema is not fits:
                        _check_columns(routed, schema, exact=exact)
                        fitted, fits = self.middle.coercion(routed, schema, count), schema
                    yield replace(fitted, table=place)


def _not_followed(source: TableId, table: TableId, state: TableState) -> EngineError:
    return EngineError(
        f"rows of {source} came, which is {state} there",
        where=str(table),
        hint="the source's log and the state directory are of different pipelines, or this is a defect: report it",
    )


def _check_columns(block: ChangeBlock, known: TableSchema, *, exact: bool) -> None:
    """Raise EngineError when a routed block has another key than the sink's table, or other columns though `exact`."""
    if fits_exactly(block.schema, known) if exact else (known is block.schema or same_key(known, block.schema)):
        return
    hint = "the source's log and the state directory are of different pipelines, or this is a defect: report it"
    if same_key(known, block.schema):
        hint = (
            "was a schema change left out under another schema.change.behavior? Go on with that (try_evolve), or "
            "start anew with an empty --state-dir and sink table"
        )
    raise EngineError(
        f"rows with the columns {', '.join(block.schema.names)} and the key {block.schema.primary_key} do not fit "
        f"the sink's table, which has {', '.join(known.names)} and the key {known.primary_key}",
        where=str(block.table),
        hint=hint,
    )


class _Seen:
    """The latest source commit time in a stream of blocks, and how many changes it had by table."""

    def __init__(self) -> None:
        self.newest_ms = self.bytes = 0
        self._changes: Counter[TableId] = Counter()

    def watch(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        for block in blocks:
            if len(block):
                last: Any = block.timestamps_ms[len(block) - 1]
                self.newest_ms = max(self.newest_ms, last.as_py())
                self.bytes += block.rows.nbytes
                self._changes[block.table] += int(np.count_nonzero(block.kinds.to_numpy() != RowKind.UPDATE_BEFORE))
            yield block

    def changes(self) -> dict[str, int]:
        return {str(table): number for table, number in self._changes.items()}
