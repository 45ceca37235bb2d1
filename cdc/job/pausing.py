"""`cdc pause` and `cdc resume`: check and store the request for one table of a pipeline, running or not.

What the requests do is in `cdc.tables.requests`.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from cdc.errors import NotNow, SourceError, TableUnknown
from cdc.job.run_status import show_requests
from cdc.job.state_location import changing
from cdc.schema import TableId
from cdc.source import Context, Snapshots, Source
from cdc.spec.compiled import compile_spec
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.tables.log import ANY_BATCH, TableLog
from cdc.tables.pauses import PauseReader
from cdc.tables.requests import Mailbox, RequestKind

_AS_STATUS = "name one as `cdc status` does: database.table"


def request_pause(spec: PipelineSpec, table: str, state_dir: Path | None) -> str:
    """Store the request in the state directory; return a sentence about it.

    Raises NotNow if the pipeline never ran, SourceError for a table that is not captured, or that cannot be
    re-snapshotted afterwards.
    """
    with changing(state_dir, spec) as state:
        done = _pause_table(spec, table, state)
        show_requests(state)
    return done


def _pause_table(spec: PipelineSpec, table: str, state: StateDir) -> str:
    source = _source(spec, state)
    found, last = find_source_table(state, table), CommitLog(state.commits).last()
    if source.snapshots(found) is not Snapshots.ALWAYS:
        hint = "exclude it with the options of the source, or stop the pipeline"
        raise SourceError("it cannot be paused: its source would not re-snapshot it afterwards", where=table, hint=hint)
    merged = TableLog(state.store).at(last).tables.merged
    for sink_table in compile_spec(spec).routes(found):
        if sink_table in merged:
            hint = "they are re-snapshotted together: exclude it with tables.exclude, or stop the pipeline"
            raise SourceError(f"it cannot be paused: other tables go to {sink_table} too", where=table, hint=hint)
    if found in PauseReader(state).tables().paused:
        return f"{table} is paused already."
    Mailbox(state.store).add(found, RequestKind.PAUSE)
    return f"{table} is paused from the next batch on: its rows in the sink stay as they are."


def request_resume(spec: PipelineSpec, table: str, state_dir: Path | None) -> str:
    """Store the request; return a sentence about it. Raises as `request_pause`, NotNow if the table is not paused."""
    with changing(state_dir, spec) as state:
        done = _resume_table(spec, table, state)
        show_requests(state)
    return done


def _resume_table(spec: PipelineSpec, table: str, state: StateDir) -> str:
    source = _source(spec, state)
    pauses = PauseReader(state).tables()
    found = next((each for each in pauses.paused | pauses.resumed if str(each) == table), None)
    if found in pauses.resumed:
        return f"{table} is resumed already, and will be re-snapshotted."
    if found is None:
        paused = ", ".join(sorted(map(str, pauses.paused))) or "none"
        raise NotNow("it is not paused", where=table, hint=f"tables that are: {paused}")
    if source.snapshots(found) is not Snapshots.ALWAYS:  # checked first: a stored request would stop the next run
        hint = "revert the edit of the source's options; an excluded table is snapshotted when it is included again"
        raise SourceError("it cannot be resumed: its source does not re-snapshot it", where=table, hint=hint)
    Mailbox(state.store).add(found, RequestKind.RESUME)
    return f"{table} will be re-snapshotted, and followed again."


def find_source_table(state: StateDir, table: str) -> TableId:
    """The source table of a name, in the decided batches of the pipeline or the next one. Raises TableUnknown."""
    log = TableLog(state.store)
    decided, planned = log.at(CommitLog(state.commits).last()).rules, log.at(ANY_BATCH).rules
    found = {str(each): each for each in (*planned, *decided)}
    if table in found:
        return found[table]
    known, name = {each.casefold(): each for each in found}, table.casefold()
    same = sorted(each for each in known if each.rpartition(".")[2] == name.rpartition(".")[2])
    close = [*difflib.get_close_matches(name, sorted(known), n=3), *same]
    similar = [name] if name in known else list(dict.fromkeys(close))[:3]
    hint = f"did you mean {' or '.join(known[each] for each in similar)}?" if similar else _AS_STATUS
    raise TableUnknown("the pipeline has no such table", where=table, hint=hint)


def _source(spec: PipelineSpec, state: StateDir) -> Source:
    pipeline = state.pipeline(source=spec.source.type)
    if pipeline is None or CommitLog(state.commits).last() < 0:
        hint = "start it first, or give the --state-dir that it runs with"
        raise NotNow("no batch of a pipeline was decided here yet", where=state.store.where(), hint=hint)
    source: Source = spec.source.build(Context(pipeline, state.source))
    return source
