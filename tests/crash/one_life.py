"""A pipeline's process without Spark, to be killed: `python one_life.py FOLDER` reads to the present end of the log.

Batches are written down before they begin, as Spark's offset log has them, and one that was not decided is run again
with the same offsets, in a process that never planned it. `DIE_AT="7 after 1"` is its last call (`killed_calls`),
`DIE_AT="7 lost 2"` are two that fail (`failed_calls`): a run that ends with that has the exit code `FAILED`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from random import Random

from failed_calls import FAULTS, Fault, is_tolerated
from killed_calls import Doom

from cdc.offsets import numbered, source_offset
from cdc.options import SinkOptions, SourceOptions
from cdc.source import Context, Limits, Offset
from cdc.spec.check import check_file
from cdc.spec.compiled import compile_spec
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.durable import write_file
from cdc.testing.local_pipeline import LocalPipeline

FAILED = 75
_LIMITS = Limits(1 << 20, 300)


def main() -> None:
    """One life. Exit code 0 at the end of the log."""
    told: list[str] = []
    folder = Path(sys.argv[1])
    spec = check_file(str(folder / "pipeline.yaml")).spec
    if at := os.environ.get("DIE_AT"):
        number, moment, width = at.split()
        kind = Fault if moment in FAULTS else Doom
        kind(int(number), moment, width=int(width), report=told.append).settle([])
    try:
        _live(folder, spec)
    except Exception as error:
        if not told or not is_tolerated(error):
            raise
        print(told, error, file=sys.stderr)
        raise SystemExit(FAILED) from error


def _live(folder: Path, spec: PipelineSpec) -> None:
    assert isinstance(spec.source, SourceOptions)
    assert isinstance(spec.sink, SinkOptions)
    state, planned = StateDir(folder / "state"), folder / "planned.json"
    pipeline_id, name = state.open(name=spec.label, source=spec.source.type), spec.source.type
    source = spec.source.build(Context(pipeline_id, state.source, metadata=spec.metadata()))
    context, build = Context(pipeline_id, state.sink), spec.sink.build
    source.stop_at_current()
    log = CommitLog(state.commits)
    decision = log.get(log.last())
    again: tuple[Offset, Offset] | None = None
    first = folder / "first.json"
    if not first.exists():
        write_file(first, json.dumps(source.initial_offset()).encode())
    at, batch = json.loads(first.read_text()), 0
    if decision is not None:
        at, batch = source_offset(decision.end), decision.batch + 1
    if planned.exists():
        number, begin, end = json.loads(planned.read_text())
        again = (begin, end) if number == batch else None
    pipeline = LocalPipeline(
        source, build(context), state, numbered(at, batch), lambda: build(context), compile_spec(spec), name=name
    )  # fmt: skip
    if decision is not None:
        for each in (*log.uncommitted(), decision):  # a crash may have come before the commit of two
            pipeline.plan(each.start, each.end)
    pipeline.recover()
    random = Random(os.getpid())
    print("ready", flush=True)
    try:
        while True:
            end = pipeline.latest(at, batch, _LIMITS) if again is None else again[1]
            if end == at:
                break
            again = None
            write_file(planned, json.dumps([batch, at, end]).encode())
            pipeline.batch(numbered(at, batch), numbered(end, batch + 1), random.randint(1, 3))
            source.commit(end)
            at, batch = end, batch + 1
    finally:
        pipeline.wait()
        source.stop()
    pipeline.finish(batch, at)


if __name__ == "__main__":
    main()
