"""`cdc savepoint` and `cdc run --from-savepoint`. Driver, while the pipeline does not run.

A savepoint holds the state, not the sink's data. So the sink may be ahead of the savepoint that a pipeline starts from:

| sink | what happens |
|---|---|
| knows its committed batches (DuckDB) | refused if it has later batches: restore the sink's data of that time, too |
| does not | the pipeline continues under a new id, so that no batch counts as committed already: later changes are |
| | committed again. Tables with a key end up the same, tables without one get those rows twice |
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from cdc.errors import NotNow, StateError
from cdc.job.snapshot_monitor import FILE_NAME as SNAPSHOT
from cdc.job.state_location import StateLocation, alone, default_state_dir, of_this_machine, parse_location, reading
from cdc.source import Context
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.remote.compact import documents
from cdc.state.savepoint import Savepoint, read_savepoint, start_from, write_savepoint

FOLDER = "savepoints"
"""The folder of savepoints, next to the state directories."""
_PIPELINE = "pipeline.json"
_RUNS = "stop it (cdc stop FILE), make the savepoint, and run it again: it continues where it was"


def create_savepoint(spec: PipelineSpec, root: Path) -> Path:
    """Copy the state into a folder named by pipeline and time, next to the state directory; return the folder.

    Raises NotNow if the pipeline runs elsewhere, never ran, or has a snapshot or a commit in progress; StateError.
    """
    found = parse_location(root)
    if not found.url:
        _id(spec, StateDir(root))  # before the lock file creates the folder
    with alone(found, _RUNS) as state:
        pipeline, log = _committed_pipeline(spec, state, runs=False)
        now = time.time()
        when = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{int(now * 1000) % 1000:03}"
        parent = default_state_dir(spec) if found.url else root
        if spec.sink_name:  # its state is in the pipeline's folder, which has folders of sinks only
            pipelines = parent.parent.parent
            name, folder = f"{pipelines.name}-{spec.sink_name}-{when}", pipelines.parent / FOLDER
        else:
            name, folder = f"{root.name}-{when}", parent.parent / FOLDER
        target = folder / name
        savepoint = Savepoint(pipeline, spec.label, spec.source.type, spec.sink.type, log.committed(), now)
        write_savepoint(state.root, target, savepoint)
    return target


def check_savepoint(spec: PipelineSpec, root: Path) -> None:
    """Check, while the pipeline runs, whether a savepoint would be refused, before the run is stopped for it.

    Raises NotNow if nothing is committed yet, or a snapshot is in progress; StateError.
    """
    with reading(root, spec) as state:
        _committed_pipeline(spec, state, runs=True)


def _committed_pipeline(spec: PipelineSpec, state: StateDir, *, runs: bool) -> tuple[str, CommitLog]:
    """The id and the commit log of a pipeline with commits and without a snapshot in progress. Raises NotNow."""
    pipeline, log = _id(spec, state), CommitLog(state.commits)
    if log.committed() < 0:
        raise NotNow("no batch is committed yet", where=spec.label, hint="try again after the first commit")
    if not runs and log.uncommitted():
        hint = "run the pipeline until the batch is committed, then try again"
        raise NotNow("a batch is decided and not committed yet", where=spec.label, hint=hint)
    copying = (state.store.read_json(SNAPSHOT) or {}).get("tables", {})
    unfinished = sorted(table for table, fields in copying.items() if fields.get("state") != "done")
    if unfinished:
        hint = "try again when the snapshots are done"
        raise NotNow(f"tables are being snapshotted: {', '.join(unfinished[:3])}", where=spec.label, hint=hint)
    return pipeline, log


def _id(spec: PipelineSpec, state: StateDir) -> str:
    pipeline = state.pipeline(source=spec.source.type)
    if pipeline is None:
        raise NotNow("has not run yet: there is no state to save", where=spec.label, hint="start it first")
    return pipeline


def begin_from(spec: PipelineSpec, savepoint: Path, root: Path) -> str:
    """Create the state directory from a savepoint; return a message for the user. Raises StateError."""
    savepoint = of_this_machine(savepoint, "a savepoint", "copy it to this machine, and name the folder")
    found, location = read_savepoint(savepoint), parse_location(root)
    state = StateDir(root)
    sink = spec.sink.build(Context(found.pipeline, state.sink, state.stop_file))
    renamed = sink.last_committed_batch() is None
    pipeline = _upload(savepoint, location, renamed) if location.url else start_from(savepoint, root, renamed=renamed)
    if not renamed:
        return f"starting from a savepoint of {found.name} after batch {found.batch}"
    return (
        f"starting from a savepoint of {found.name} after batch {found.batch}, as {pipeline}: later changes are "
        "committed again, and tables without a key get those rows twice"
    )


def _upload(savepoint: Path, location: StateLocation, renamed: bool) -> str:
    """Upload a savepoint into an object store, atomically; return the id of the pipeline. Raises StateError."""
    with alone(location) as state, tempfile.TemporaryDirectory(prefix="cdc-savepoint-") as folder:
        if state.store.read(_PIPELINE) is not None:
            hint = "choose another --state-dir, or remove the objects of this one"
            reason = "there is a state already, and a savepoint does not replace it"
            raise StateError(reason, where=location.url, hint=hint)
        copied = Path(folder) / "state"
        pipeline = start_from(savepoint, copied, renamed=renamed)
        last = b""
        for document in documents(copied):
            if document.name == _PIPELINE:
                last = document.data or b""
            else:
                state.store.write_later(document.name, document.data or b"")
        state.store.write(_PIPELINE, last)
    return pipeline
