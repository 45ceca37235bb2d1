"""The table of a pipeline's metrics: each with its kind, description, labels and reader.

Names use the field's terms and include the unit. ALIASES are the names of Flink CDC's metrics, so that dashboards for
it keep working.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from cdc.status.file import LiveStatus
from cdc.status.model import StatusDocument

Values = Iterable[tuple[tuple[str, ...], float | None]]
"""Label values after `pipeline`, and a number; None where unknown."""

STATES = (
    "starting", "running", "stopping", "waiting", "scheduled", "stopped", "finished", "ended", "failed", "lost",
    "invalid",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `read` returns its values; values that are None are omitted. `labels` follow `pipeline`.

    `moves` means that its values change even when the document does not.
    """

    name: str
    kind: Literal["gauge", "counter"]
    text: str
    read: Callable[[LiveStatus], Values]
    labels: tuple[str, ...] = ()
    moves: bool = False


def _one(read: Callable[[StatusDocument], float | None]) -> Callable[[LiveStatus], Values]:
    def values(seen: LiveStatus) -> Values:
        yield (), read(seen.status)

    return values


def _copy_states(seen: LiveStatus) -> Values:
    states = Counter(table.copy.state for table in seen.status.tables if table.copy is not None)
    return [((state,), float(states[state])) for state in ("waiting", "copying", "done")]


def _copies(status: StatusDocument, *states: str) -> float:
    return float(sum(table.copy is not None and table.copy.state in states for table in status.tables))


def _chunks(status: StatusDocument) -> tuple[float, float]:
    copies = [table.copy for table in status.tables if table.copy is not None]
    return float(sum(copy.chunks for copy in copies)), float(sum(copy.planned_chunks for copy in copies))


def _counts_by_reason(seen: LiveStatus) -> Iterator[tuple[tuple[str, ...], float]]:
    """Sum counts by kind of reason: with the location, there would be a series per column."""
    kinds: Counter[str] = Counter()
    for reason, number in seen.status.counts.items():
        kinds[reason.partition(" ")[0]] += number
    return (((kind,), float(number)) for kind, number in sorted(kinds.items()))


def _outcomes(seen: LiveStatus) -> Values:
    schema = seen.status.schema
    numbers = {"applied": schema.applied, "held-back": schema.held_back, "refused": schema.refused}
    return [((name,), float(number)) for name, number in {**numbers, "failed": schema.failed}.items()]


def _kinds(seen: LiveStatus) -> Values:
    totals = seen.status.totals
    return [(("insert",), totals.inserts), (("update",), totals.updates), (("delete",), totals.deletes)]


def _last_commit(status: StatusDocument) -> float | None:
    return status.batches[-1].committed_s if status.batches else None


FAMILIES: tuple[Family, ...] = (
    Family(
        "cdc_up", "gauge", "0 when the pipeline needs attention: failed, lost, failing repeatedly, invalid file.",
        lambda seen: [((), float(seen.up))],
    ),
    Family(
        "cdc_state", "gauge", "1 for the pipeline's current state, 0 for the others.",
        lambda seen: [((state,), float(seen.state == state)) for state in STATES], ("state",),
    ),
    Family(
        "cdc_info", "gauge", "Always 1; the labels are the connectors.",
        lambda seen: [((seen.status.source, seen.status.sink), 1.0)], ("source", "sink"),
    ),
    Family(
        "cdc_lag_seconds", "gauge", "Age of the oldest change that is not in the sink; 0 when there is none.",
        _one(lambda status: status.lag.seconds),
    ),
    Family(
        "cdc_lag_bytes", "gauge", "Bytes from the last batch to the end of the source's log.",
        _one(lambda status: status.lag.bytes),
    ),
    Family(
        "cdc_lag_transactions", "gauge", "Transactions from the last batch to the end of the source's log.",
        _one(lambda status: status.lag.transactions),
    ),
    Family(
        "cdc_last_commit_timestamp_seconds", "gauge", "When the last batch was committed, seconds since 1970.",
        _one(_last_commit),
    ),
    Family(
        "cdc_start_timestamp_seconds", "gauge", "When the run began, seconds since 1970.",
        _one(lambda status: status.started_s or None),
    ),
    Family("cdc_rows_read_total", "counter", "Changes read from the source.", _one(lambda status: status.read)),
    Family("cdc_rows_written_total", "counter", "Rows committed in the sink, by kind.", _kinds, ("kind",)),
    Family("cdc_batches_total", "counter", "Batches committed.", _one(lambda status: status.batches_total)),
    Family(
        "cdc_batch_duration_seconds", "gauge", "How long the last batch took, from its start to its commit.",
        _one(lambda status: status.batches[-1].duration_s if status.batches else None),
    ),
    Family(
        "cdc_batch_phase_seconds_total", "counter", "Seconds of batches by phase.",
        lambda seen: [((name,), seconds) for name, seconds in seen.status.phases.items()], ("phase",),
    ),
    Family("cdc_schema_changes_total", "counter", "Schema changes by outcome.", _outcomes, ("outcome",)),
    Family(
        "cdc_counted_total", "counter", "Values and rows changed or skipped on purpose, by kind of reason.",
        _counts_by_reason, ("reason",),
    ),
    Family(
        "cdc_dead_letters_total", "counter", "Rows written to dead letters.",
        _one(lambda status: status.dead_letters),
    ),
    Family("cdc_errors", "gauge", "Errors in the status document.", _one(lambda s: len(s.errors))),
    Family("cdc_runs_total", "counter", "Starts of the pipeline.", _one(lambda status: status.runs)),
    Family(
        "cdc_restarts_total", "counter", "Starts after a failure or crash, and of the query after a lost process.",
        _one(lambda status: status.restarts),
    ),
    Family("cdc_tables", "gauge", "Known tables of source and sink.", _one(lambda s: len(s.tables))),
    Family(
        "cdc_tables_paused", "gauge", "Source tables that are paused, or resumed but not re-snapshotted yet.",
        _one(lambda status: len(status.paused) + len(status.resumed)),
    ),
    Family("cdc_tables_copied", "gauge", "Tables by the state of their copy.", _copy_states, ("state",)),
    Family(
        "cdc_copy_rows", "gauge", "Rows copied, of all tables.",
        _one(lambda status: sum(table.copy.rows for table in status.tables if table.copy is not None)),
    ),
    Family(
        "cdc_copy_estimated_rows", "gauge", "Estimated number of rows of the tables with a copy.",
        _one(lambda status: sum(table.copy.estimated_rows for table in status.tables if table.copy is not None)),
    ),
)  # fmt: skip

_OPERATOR, _ENUMERATOR = "flink_taskmanager_job_task_operator_", "flink_jobmanager_job_operator_coordinator_enumerator_"

_SCHEMA_BEHAVIORS = ("ignore", "lenient", "try_evolve", "evolve", "exception")


def _behavior(status: StatusDocument) -> float | None:
    behavior = status.schema.behavior.split(" ")[0].split(",")[0].replace("-", "_")
    return float(_SCHEMA_BEHAVIORS.index(behavior)) if behavior in _SCHEMA_BEHAVIORS else None


def _snapshot_times(status: StatusDocument) -> tuple[float | None, float | None]:
    """Return when the first copy of this run began and the last one ended; None before, and for earlier copies."""
    copies = [table.copy for table in status.tables if table.copy is not None]
    started = [copy.started_s for copy in copies if copy.started_s]
    done = copies and all(copy.state == "done" for copy in copies)
    ended = max(copy.updated_s for copy in copies) if done else 0.0
    return (min(started) if started else None), ended or None


def _idle_s(status: StatusDocument) -> float | None:
    """Return the seconds since a batch with rows was committed."""
    last = max((batch.committed_s for batch in status.batches if batch.rows), default=None)
    return None if last is None else max(0.0, time.time() - last)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


ALIASES: tuple[Family, ...] = (
    Family(
        _OPERATOR + "currentEmitEventTimeLag", "gauge", "As cdc_lag_seconds, in milliseconds; -1 in a snapshot.",
        _one(lambda status: -1.0 if status.lag.seconds is None else _ms(status.lag.seconds)),
    ),
    Family(_OPERATOR + "numRecordsIn", "gauge", "As cdc_rows_read_total.", _one(lambda status: status.read)),
    Family(_OPERATOR + "numRecordsOut", "gauge", "As cdc_rows_written_total.", _one(lambda s: s.totals.rows)),
    Family(
        _OPERATOR + "numSchemaChangeEvents", "gauge", "All schema changes.",
        _one(lambda s: s.schema.applied + s.schema.held_back + s.schema.refused + s.schema.failed),
    ),
    Family(
        _OPERATOR + "numFinishedSchemaChangeEvents", "gauge", "Those applied.", _one(lambda s: s.schema.applied)
    ),
    Family(_OPERATOR + "numFailedSchemaChangeEvents", "gauge", "Those failed.", _one(lambda s: s.schema.failed)),
    Family(
        _OPERATOR + "numIgnoredSchemaChangeEvents", "gauge", "Those held back, or refused by the sink.",
        _one(lambda status: status.schema.held_back + status.schema.refused),
    ),
    Family(_OPERATOR + "schemaChangeBehavior", "gauge", "0 ignore, 1 lenient, 2 try_evolve, 3 evolve, 4 exception.",
           _one(_behavior)),
    Family(
        _OPERATOR + "sourceIdleTime", "gauge", "Milliseconds since a batch with rows was committed.",
        _one(lambda status: _ms(_idle_s(status))), moves=True,
    ),
    Family(
        _ENUMERATOR + "isSnapshotting", "gauge", "1 while tables are copied.",
        _one(lambda status: float(_copies(status, "waiting", "copying") > 0)),
    ),
    Family(
        _ENUMERATOR + "snapshotStartTime", "gauge", "When the first copy began, milliseconds since 1970.",
        _one(lambda status: _ms(_snapshot_times(status)[0])),
    ),
    Family(
        _ENUMERATOR + "snapshotEndTime", "gauge", "When the last copy was done, milliseconds since 1970.",
        _one(lambda status: _ms(_snapshot_times(status)[1])),
    ),
    Family(
        _ENUMERATOR + "isStreamReading", "gauge", "1 while the log is read: from the start, concurrently with copies.",
        lambda seen: [((), float(seen.alive))],
    ),
    Family(_ENUMERATOR + "numTablesSnapshotted", "gauge", "Tables copied.", _one(lambda s: _copies(s, "done"))),
    Family(
        _ENUMERATOR + "numTablesRemaining", "gauge", "Tables still to be copied.",
        _one(lambda status: _copies(status, "waiting", "copying")),
    ),
    Family(
        _ENUMERATOR + "numSnapshotSplitsProcessed", "gauge", "Chunks copied.", _one(lambda s: _chunks(s)[0])
    ),
    Family(
        _ENUMERATOR + "numSnapshotSplitsRemaining", "gauge", "Chunks planned and not copied.",
        _one(lambda status: _chunks(status)[1] - _chunks(status)[0]),
    ),
    Family(_ENUMERATOR + "numSnapshotSplitsFinished", "gauge", "Chunks copied.", _one(lambda s: _chunks(s)[0])),
)  # fmt: skip

TABLE_FAMILIES: tuple[Family, ...] = (
    Family(
        "cdc_table_rows_read_total", "counter", "Changes read from a source table.",
        lambda seen: [((table.table,), table.read) for table in seen.status.tables], ("table",),
    ),
    Family(
        "cdc_table_rows_written_total", "counter", "Rows committed in a sink table.",
        lambda seen: [((table.table,), table.written.rows) for table in seen.status.tables], ("table",),
    ),
    Family(
        "cdc_table_copy_rows", "gauge", "Rows of a table copied.",
        lambda seen: [((t.table,), t.copy.rows if t.copy else None) for t in seen.status.tables], ("table",),
    ),
    Family(
        "cdc_table_copy_estimated_rows", "gauge", "Estimated number of rows of a table with a copy.",
        lambda seen: [((t.table,), t.copy.estimated_rows if t.copy else None) for t in seen.status.tables], ("table",),
    ),
)  # fmt: skip
"""Metrics with a series per table; `Collected` limits their number."""
