"""`cdc resync`: ask a pipeline, running or not, to snapshot one table again; `schedule.copy: refresh`: all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cdc.errors import SourceError, TableUnknown
from cdc.job.pausing import find_source_table
from cdc.job.seen import show_requests
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
    """Leave the request in the state directory. Raises NotNow when the pipeline never ran or the table is paused,
    TableUnknown for a name that is none of its tables, SourceError when its source cannot re-snapshot the table.

    What is decided and was given up by the sink is then let go for this table (`cdc.flow.lost`): the snapshot is later.
    """
    with changing(state_dir, spec) as state:
        leave_request(spec, table, state)
        show_requests(state)


def leave_request(spec: PipelineSpec, table: str, state: StateDir) -> None:
    """Leave the request of `request_resync` in a state directory."""
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
    hint = "take it in again with the options of the source: it is snapshotted then"
    raise TableUnknown("the pipeline does not capture this table", where=str(table), hint=hint)


def _check_distinguishable(table: TableId, sink_tables: Sequence[TableId], tables: TableViews) -> None:
    """Raise SourceError when the rows of a table are among those of others, and nothing tells them apart."""
    known, merged = tables.sink, tables.tables.merged
    for sink_table in sink_tables:
        if sink_table in merged and sink_table in known and not known[sink_table].primary_key:
            raise SourceError(
                f"its rows in {sink_table} cannot be told from those of other tables without a key",
                where=str(table),
                hint="start over with an empty --state-dir and sink table, which copies all of them",
            )


def refresh(spec: PipelineSpec, state: StateDir) -> int:
    """Ask for each table that the source has now and is not paused; how many. None before the first run, which copies
    them anyway.

    Raises SourceError when the source cannot be reached, or reads a log only.
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
