"""`cdc run`: compile a checked pipeline into one structured-streaming query. Driver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from cdc.errors import CdcError
from cdc.job.control import RunControl
from cdc.job.json_log import JsonLog
from cdc.job.lock import RunLock
from cdc.job.log_records import log_records, log_records_here
from cdc.job.outlets import recording_of
from cdc.job.pipeline_run import PipelineRun
from cdc.job.refresh import refresh
from cdc.job.report import Reporter
from cdc.job.run_settings import LockedState, Mode, Output
from cdc.job.spark.own import own_settings
from cdc.job.spark.session import chosen_master
from cdc.job.state_location import state_location
from cdc.retry import RetryPolicy
from cdc.spec.compiled import compiled
from cdc.spec.model import PipelineSpec
from cdc.state.durable import NO_ROOM, state_error
from cdc.status.model import StatusDocument


def run(
    spec: PipelineSpec,
    *,
    until_caught_up: bool = False,
    master: str | None = None,
    state_dir: Path | None = None,
    log_format: str = "text",
    background: bool = False,
    control: RunControl | None = None,
    events: Path | None = None,
    seen: Callable[[StatusDocument], None] | None = None,
) -> int:
    """Run a pipeline until it is stopped, caught up (when asked, or when the source is bounded), or failed.

    `background` reads with half the cores when the pipeline does not say how many: what a server on this machine does
    for us is at no lower priority than what it does for others. The rest of it is `cdc.background`.
    `control` is for a run in a thread of somebody else's process: `cdc.api`. `events` is a file that gets a line for
    each event; `seen` is told of each new status document, in the thread of the run (`cdc.status`).

    Returns 0. Raises CdcError with the exit code of what failed; everything committed until then stays committed, and
    the next run with the same state directory continues there.
    """
    control = control or RunControl()
    if control.shared is not None and spec.pipeline.spark != control.shared.settings:
        raise own_settings(spec)
    reporter = Reporter(log_format, out=control.log, err=control.log, sink=spec.sink_name)
    json_log = JsonLog(reporter.line, wanted=log_format == "json" and control.shared is None)
    found = state_location(state_dir, spec)
    lock = RunLock(found.root)
    lock.acquire()
    retry = RetryPolicy(spec.pipeline.retry_timeout_s, stopping=control.stop.is_set, waiting=control.progress.waiting)
    try:
        with contextlib.ExitStack() as stack:
            of_run = log_records if control.shared is None else log_records_here
            stack.enter_context(of_run(reporter.line))
            stack.enter_context(json_log.of_python())
            state = stack.enter_context(found.held(retry, reporter.line))
            pipeline = state.open(name=spec.label, source=spec.source.type)
            state.clear_control()
            master = chosen_master(master) if control.shared is None else control.shared.master
            mode = Mode(master, until_caught_up or spec.pipeline.bounded, background)
            if spec.pipeline.schedule is not None and spec.pipeline.schedule_copy == "refresh" and not control.again:
                refresh(spec, state)
            middle = compiled(spec, pipeline)
            recorded = recording_of(spec, middle, pipeline, state, reporter, mode, control, events, seen)
            recording = stack.enter_context(recorded)
            try:
                place, output = LockedState(pipeline, state, lock), Output(reporter, json_log, recording)
                PipelineRun(spec, middle, place, mode, control, output).go()
            except CdcError as error:
                control.words(error)
                raise
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise state_error(found.root, error) from error
    finally:
        lock.release()
    return 0
