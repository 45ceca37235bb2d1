"""`cdc savepoint` and `cdc run --from-savepoint`. Driver, while nothing runs.

A savepoint holds the state, not the sink's data. So a pipeline that starts from one finds a sink that may have gone on:

| sink | what happens |
|---|---|
| knows which batches it has (DuckDB) | it is refused when it has later ones: put its data of that time back, too |
| does not | the pipeline goes on under a new id, so that nothing passes for done: what was committed after it is |
| | committed once more. Tables with a key come out the same, others get those rows twice |
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from cdc.errors import NotNow, StateError
from cdc.job.copying import FILE_NAME as SNAPSHOT
from cdc.job.state_location import StateLocation, alone, default_state_dir, of_this_machine, parse_location, reading
from cdc.source import Context
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.remote.compact import documents
from cdc.state.savepoint import Savepoint, about, keep, start_from

FOLDER = "savepoints"
"""Beside the state directories."""
_PIPELINE = "pipeline.json"


def create_savepoint(spec: PipelineSpec, root: Path) -> Path:
    """Keep a copy of the state; its folder is beside the state directory, with name and time.

    Raises NotNow when the pipeline runs elsewhere, has not run, or is in the middle of a copy or a commit; StateError.
    """
    found = parse_location(root)
    if not found.url:
        _id(spec, StateDir(root))  # before a lock file makes a folder
    with alone(found) as state:
        pipeline, log = _committed_pipeline(spec, state, runs=False)
        now = time.time()
        when = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{int(now * 1000) % 1000:03}"
        beside = default_state_dir(spec) if found.url else root
        if spec.sink_name:  # its folder is in that of the pipeline, which has a folder for each sink and no other
            pipelines = beside.parent.parent
            name, folder = f"{pipelines.name}-{spec.sink_name}-{when}", pipelines.parent / FOLDER
        else:
            name, folder = f"{root.name}-{when}", beside.parent / FOLDER
        target = folder / name
        savepoint = Savepoint(pipeline, spec.label, spec.source.type, spec.sink.type, log.committed(), now)
        keep(state.root, target, savepoint)
    return target


def check_savepoint(spec: PipelineSpec, root: Path) -> None:
    """Look, beside its run, whether a savepoint would be refused: then the run need not end for it.

    Raises NotNow when the pipeline has committed nothing yet, or is in the middle of a copy; StateError.
    """
    with reading(root, spec) as state:
        _committed_pipeline(spec, state, runs=True)


def _committed_pipeline(spec: PipelineSpec, state: StateDir, *, runs: bool) -> tuple[str, CommitLog]:
    """The id and the commits of a pipeline that has committed some, and copies nothing. Raises NotNow."""
    pipeline, log = _id(spec, state), CommitLog(state.commits)
    if log.committed() < 0:
        raise NotNow("no batch is committed yet", where=spec.label, hint="ask again once there is one")
    if not runs and log.uncommitted():
        hint = "let it run until that is through, then ask again"
        raise NotNow("a batch is decided and not committed yet", where=spec.label, hint=hint)
    copying = (state.store.read_json(SNAPSHOT) or {}).get("tables", {})
    unfinished = sorted(table for table, fields in copying.items() if fields.get("state") != "done")
    if unfinished:
        hint = "ask again once they are copied"
        raise NotNow(f"tables are being copied: {', '.join(unfinished[:3])}", where=spec.label, hint=hint)
    return pipeline, log


def _id(spec: PipelineSpec, state: StateDir) -> str:
    pipeline = state.pipeline(source=spec.source.type)
    if pipeline is None:
        raise NotNow("has not run yet: there is nothing to keep", where=spec.label, hint="start it first")
    return pipeline


def begin_from(spec: PipelineSpec, savepoint: Path, root: Path) -> str:
    """Make the state directory from a savepoint; what the user should know. Raises StateError."""
    savepoint = of_this_machine(savepoint, "a savepoint", "copy it to this machine, and name the folder")
    found, location = about(savepoint), parse_location(root)
    state = StateDir(root)
    sink = spec.sink.build(Context(found.pipeline, state.sink, state.stop_file))
    renamed = sink.last_committed_batch() is None
    pipeline = _upload(savepoint, location, renamed) if location.url else start_from(savepoint, root, renamed=renamed)
    if not renamed:
        return f"starting from a savepoint of {found.name} after batch {found.batch}"
    return (
        f"starting from a savepoint of {found.name} after batch {found.batch}, as {pipeline}: what came after it "
        "is committed once more, and tables without a key get those rows twice"
    )


def _upload(savepoint: Path, location: StateLocation, renamed: bool) -> str:
    """Put a savepoint into an object store, in one step; the id of the pipeline. Raises StateError."""
    with alone(location) as state, tempfile.TemporaryDirectory(prefix="cdc-savepoint-") as folder:
        if state.store.read(_PIPELINE) is not None:
            hint = "choose another --state-dir, or remove the objects of this one"
            reason = "there is a state already, which a savepoint does not replace"
            raise StateError(reason, where=location.url, hint=hint)
        made = Path(folder) / "state"
        pipeline = start_from(savepoint, made, renamed=renamed)
        last = b""
        for document in documents(made):
            if document.name == _PIPELINE:
                last = document.data or b""
            else:
                state.store.write_later(document.name, document.data or b"")
        state.store.write(_PIPELINE, last)
    return pipeline
