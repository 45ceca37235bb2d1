"""`cdc run`: compile a checked pipeline into one structured-streaming query. Driver."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from cdc.errors import CdcError
from cdc.job.console_log import ConsoleLog
from cdc.job.control import RunControl
from cdc.job.lock import RunLock
from cdc.job.pipeline_run import PipelineRun
from cdc.job.resync import refresh
from cdc.job.run_recording import recording_of
from cdc.job.run_settings import LockedState, Mode, Output
from cdc.job.spark_side import check_spark_settings, master_of
from cdc.job.state_location import state_location
from cdc.retry import RetryPolicy
from cdc.spec.compiled import compile_spec
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
    on_status: Callable[[StatusDocument], None] | None = None,
) -> int:
    """Run a pipeline until it is stopped, has caught up (`until_caught_up`, or a bounded source), or fails.

    Args:
        background: read with half the cores unless the pipeline sets a number: a database on the same machine does not
            serve this process at a lower priority. See also `cdc.process.background`.
        control: for a run in a thread of another program (`cdc.api`).
        events: a file that gets a line per event.
        on_status: called with each new status document, in the thread of the run (`cdc.status`).

    Returns 0. Raises CdcError with the exit code of the failure; committed batches stay committed, and the next run
    with the same state directory continues there.
    """
    control = control or RunControl()
    check_spark_settings(spec, control)
    log = ConsoleLog.of(log_format, control, spec.sink_name)
    found = state_location(state_dir, spec)
    lock = RunLock(found.root)
    lock.acquire()
    retry = RetryPolicy(spec.pipeline.retry_timeout_s, stopping=control.stop.is_set, waiting=control.progress.note_wait)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(log.of_python())
            state = stack.enter_context(found.locked_state(retry, log.reporter.line))
            pipeline = state.open(name=spec.label, source=spec.source.type)
            state.clear_control()
            mode = Mode(master_of(control, master), until_caught_up or spec.pipeline.bounded, background)
            if spec.pipeline.schedule is not None and spec.pipeline.schedule_copy == "refresh" and not control.again:
                refresh(spec, state)
            middle = compile_spec(spec, pipeline)
            recorded = recording_of(spec, middle, pipeline, state, log.reporter, mode, control, events, on_status)
            recording = stack.enter_context(recorded)
            try:
                locked, output = LockedState(pipeline, state, lock), Output(log.reporter, log.json_log, recording)
                PipelineRun(spec, middle, locked, mode, control, output).go()
            except CdcError as error:
                control.reword(error)
                raise
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise state_error(found.root, error) from error
    finally:
        lock.release()
    return 0
