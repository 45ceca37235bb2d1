"""`cdc savepoint` and `cdc run --from-savepoint`. Driver, while nothing runs.

A savepoint holds the state, not the sink's data. So a pipeline that starts from one finds a sink that may have gone on:

| sink | what happens |
|---|---|
| knows which batches it has (DuckDB) | it is refused when it has later ones: put its data of that time back, too |
| does not | the pipeline goes on under a new id, so that nothing passes for done: what was committed after it is |
| | committed once more. Tables with a key come out the same, others get those rows twice |
"""

from __future__ import annotations

import time
from pathlib import Path

from cdc.errors import NotNow
from cdc.job.copying import FILE_NAME as SNAPSHOT
from cdc.job.lock import RunLock
from cdc.sink import Remembers
from cdc.source import Context
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.savepoint import Savepoint, about, keep, start_from

FOLDER = "savepoints"
"""Beside the state directories."""


def make_savepoint(spec: PipelineSpec, root: Path, target: Path | None = None) -> Path:
    """Keep a copy of the state; its folder, `target` or one beside the state directory with name and time.

    Raises NotNow when the pipeline runs elsewhere, has not run, or is in the middle of a copy or a commit; StateError.
    """
    state = StateDir(root)
    pipeline = state.pipeline(source=spec.source.type)
    if pipeline is None:
        raise NotNow("has not run yet: there is nothing to keep", where=spec.name, hint="start it first")
    lock = RunLock(root)
    lock.acquire()
    try:
        log = CommitLog(state.commits)
        if log.committed() < 0:
            raise NotNow("no batch is committed yet", where=spec.name, hint="ask again once there is one")
        if log.uncommitted():
            hint = "let it run until that is through, then ask again"
            raise NotNow("a batch is decided and not committed yet", where=spec.name, hint=hint)
        copying = (state.store.read_json(SNAPSHOT) or {}).get("tables", {})
        unfinished = sorted(table for table, fields in copying.items() if fields.get("state") != "done")
        if unfinished:
            hint = "ask again once they are copied"
            raise NotNow(f"tables are being copied: {', '.join(unfinished[:3])}", where=spec.name, hint=hint)
        now = time.time()
        name = f"{root.name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{int(now * 1000) % 1000:03}"
        target = target or root.parent / FOLDER / name
        keep(root, target, Savepoint(pipeline, spec.name, spec.source.type, spec.sink.type, log.committed(), now))
    finally:
        lock.release()
    return target


def begin_from(spec: PipelineSpec, savepoint: Path, root: Path) -> str:
    """Make the state directory from a savepoint; what the user should know. Raises StateError."""
    found = about(savepoint)
    state = StateDir(root)
    sink = spec.sink.build(Context(found.pipeline, state.sink, state.stop_file))
    renamed = not isinstance(sink, Remembers)
    pipeline = start_from(savepoint, root, renamed=renamed)
    if not renamed:
        return f"starting from a savepoint of {found.name} behind batch {found.batch}"
    return (
        f"starting from a savepoint of {found.name} behind batch {found.batch}, as {pipeline}: what came after it "
        "is committed once more, and tables without a key get those rows twice"
    )
