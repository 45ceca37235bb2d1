"""Restarts failed runs within one process, as the file's restart strategy says. Driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from cdc.errors import CdcError
from cdc.job.control import RunControl
from cdc.job.report import Reporter
from cdc.restarts import Restarts, Strategy
from cdc.retry import RetryPolicy
from cdc.spec.life import restart_policy
from cdc.spec.model import PipelineSpec


def run_with_restarts(
    spec: PipelineSpec,
    run: Callable[[RunControl], int],
    reporter: Reporter,
    retry: RetryPolicy | None = None,
    control_of: Callable[..., RunControl] = RunControl,
    *,
    default: Strategy = "none",
    stop_requested: Callable[[], bool] = lambda: False,
) -> int:
    """Call `run`, again after failures as `pipeline.restart` says; return its result.

    `default` is the strategy of a file without one. `stop_requested` returns whether the state directory has a stop
    request: no run starts after it, even if it arrives between two runs. A run with a Spark session of its own starts
    Java again, as the state of the failed session is unknown. Raises the last CdcError.
    """
    policy = restart_policy(spec.pipeline, default)
    if policy.strategy == "none":
        return run(control_of())
    restarts, retry, again = Restarts(policy), retry or RetryPolicy(), False
    waiting = replace(retry, stopping=lambda: retry.stopping() or stop_requested())
    while True:
        control = control_of(guest=True, again=again)
        try:
            return run(control)
        except CdcError as error:
            done = control.progress.totals().batches > 0
            delay_s = restarts.plan(error, batch=control.progress.running, committed=done, now_s=time.monotonic())
            if delay_s is None or control.stop.is_set():
                raise
            reporter.line(f"failed, will be restarted in {delay_s:.1f} s: {error}", level="warning")
            waiting.wait(delay_s)
            if stop_requested():
                reporter.line("stopped between two runs, as requested")
                return 0
            again = True
