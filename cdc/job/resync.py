"""`cdc resync`: request a re-snapshot of a table, also while the pipeline runs. `schedule.copy: refresh`: of all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cdc.errors import SourceError, TableUnknown
from cdc.job.pausing import find_source_table
from cdc.job.run_status import show_requests
from cdc.job.state_location import changing
from cdc.schema import TableId
from cdc.source import Context, Snapshots, Source
from cdc.spec.compiled import compile_spec
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog
from cdc.tables.pauses import PauseReader, check_not_paused
from cdc.tables.requests import Mailbox, RequestKind


def request_resync(spec: PipelineSpec, table: str, state_dir: Path | None) -> None:
    """Store the request in the state directory.

    Rows of the table that are decided but lost by the sink are then dropped (`cdc.flow.lost`): the snapshot is newer.
    Raises NotNow if the pipeline never ran or the table is paused, TableUnknown for an unknown name, SourceError if the
    source cannot re-snapshot the table.
    """
    with changing(state_dir, spec) as state:
        leave_request(spec, table, state)
        show_requests(state)


def leave_request(spec: PipelineSpec, table: str, state: StateDir) -> None:
    """Store the request of `request_resync` in a state directory."""
    pipeline = state.ran_pipeline(source=spec.source.type)
    source: Source = spec.source.build(Context(pipeline, state.source))
    found = find_source_table(state, table)
    _check_snapshotted(source, found)
    check_not_paused(state, found)
    middle, tables = compile_spec(spec), TableLog(state.store).at(CommitLog(state.commits).last())
    sink_tables = middle.routes(found)
    members = [table for table in tables.rules if {*middle.routes(table)} & {*sink_tables}]
    if not middle.re_snapshots_all(source, members):
        _check_distinguishable(found, sink_tables, tables)
    Mailbox(state.store).add(found, RequestKind.SNAPSHOT)


def _check_snapshotted(source: Source, table: TableId) -> None:
    if source.snapshots(table) is not Snapshots.NEVER:
        return
    if source.captures(table):
        raise SourceError("this source reads a log only, it cannot re-snapshot a table", where=str(table))
    hint = "include it with the options of the source: it is snapshotted then"
    raise TableUnknown("the pipeline does not capture this table", where=str(table), hint=hint)


def _check_distinguishable(table: TableId, sink_tables: Sequence[TableId], tables: TableViews) -> None:
    """Raise SourceError if the rows of a table are mixed with those of others in a sink table without a key."""
    known, merged = tables.sink, tables.tables.merged
    for sink_table in sink_tables:
        if sink_table in merged and sink_table in known and not known[sink_table].primary_key:
            raise SourceError(
                f"its rows in {sink_table} cannot be told from those of other tables without a key",
                where=str(table),
                hint="start over with an empty --state-dir and sink table, which copies all of them",
            )


def refresh(spec: PipelineSpec, state: StateDir) -> int:
    """Request a re-snapshot of each current table that is not paused; return their number.

    Returns 0 before the first run, which snapshots all tables anyway. Raises SourceError if the source cannot be
    reached, or only reads a log.
    """
    pipeline = state.pipeline(source=spec.source.type)
    if pipeline is None:
        return 0
    source: Source = spec.source.build(Context(pipeline, state.source, state.stop_file, spec.metadata()))
    try:
        tables = list(source.tables())
        if all(source.snapshots(table) is Snapshots.NEVER for table in tables):
            raise SourceError(
                "this source reads a log only, it cannot re-snapshot tables", hint="remove schedule.copy: refresh"
            )
    finally:
        source.stop()
    paused = PauseReader(state).tables().paused
    copied = [table for table in tables if table not in paused]
    for table in copied:
        leave_request(spec, str(table), state)
    return len(copied)
