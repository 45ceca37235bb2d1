"""`schedule.copy: refresh`: before a run, ask for all tables of a pipeline to be re-snapshotted. Driver."""

from __future__ import annotations

from cdc.errors import SourceError
from cdc.job.resync import leave_request
from cdc.source import Context, Snapshots, Source
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir
from cdc.tables.pauses import PauseReader


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
