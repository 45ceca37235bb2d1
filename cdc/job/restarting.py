"""`cdc run` of a pipeline whose file has a restart strategy: run after run in one process. Driver."""

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
    """Call `run` again after failures as `pipeline.restart` says, or once, and return its result.

    `default` is the strategy of a file without one. `stop_requested` says whether the state directory has a
    request to stop: no run begins after that, also when it comes while none runs. Each run with a Spark session of its
    own starts Java again, as nothing is known of what the failed one has left. Raises the last CdcError.
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
            reporter.line(f"failed, and is started again in {delay_s:.1f} s: {error}", level="warning")
            waiting.wait(delay_s)
            if stop_requested():
                reporter.line("stopped between two runs, as was asked")
                return 0
            again = True
