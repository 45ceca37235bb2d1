"""A pipeline with several sinks: a run for each, side by side on one Spark session. Driver.

| a sink | what happens |
|---|---|
| is away | its run tries again for `retry-timeout`, then as `pipeline.restart` says; the others go on |
| fails for good | its run is over, the others go on; the process ends with its error once they have ended |
| is slow | its run is behind the others, at a place of its own in the source's log |

Each run has its own state, decisions and place in the log, in `sinks/<name>` of the pipeline's state directory. So a
sink that is added later begins with a snapshot of its own, and one that is taken out and put back goes on where it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from cdc.errors import CdcError
from cdc.flow.commits import known
from cdc.job.control import Control
from cdc.job.json_log import JsonLog
from cdc.job.report import Reporter
from cdc.job.restarting import run_again
from cdc.job.spark.shared import SharedSpark
from cdc.job.watch import Signals
from cdc.retry import RetryPolicy
from cdc.spec.model import PipelineSpec

RunSink = Callable[[PipelineSpec, Control], int]
"""One run into one sink. Raises CdcError."""

_LOOK_S = 0.2


def run_sinks(
    specs: Sequence[PipelineSpec], run: RunSink, *, root: Path, master: str | None, log_format: str, bounded: bool
) -> int:
    """Run a pipeline into each of its sinks until all have ended. Returns 0. Main thread; a signal stops all of them.

    `specs` is the pipeline with each sink; `root` the folder of its state, `bounded` whether runs end at the present
    end of the log. Raises the first error that has ended a run, when all have ended.
    """
    reporter, stop = Reporter(log_format), threading.Event()
    json_log = JsonLog(reporter.line, wanted=log_format == "json")
    secrets = sorted({name for spec in specs for name in spec.secret_variables})
    settings = specs[0].pipeline.spark
    shared = SharedSpark(root, master, secrets, lambda text, level: reporter.line(text, level=level), settings=settings)
    errors: dict[str, CdcError] = {}
    with ExitStack() as stack:
        stack.enter_context(Signals(stop).installed())
        stack.enter_context(json_log.of_python())
        with json_log.of_children():
            shared.start()
        stack.callback(shared.stop)
        reporter.line(f"Spark is up for {len(specs)} sinks: {', '.join(spec.sink_name for spec in specs)}")
        common = (run, shared, stop, log_format, bounded, errors)
        threads = [threading.Thread(target=_run_one, args=(spec, *common), name=spec.label) for spec in specs]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_S)  # a signal is handled between two
    failed = [spec.sink_name for spec in specs if spec.sink_name in errors]
    if failed:
        raise errors[failed[0]]
    return 0


def _run_one(
    spec: PipelineSpec,
    run: RunSink,
    shared: SharedSpark,
    stop: threading.Event,
    log_format: str,
    bounded: bool,
    errors: dict[str, CdcError],
) -> None:
    """The runs into one sink; the error that has ended the last one is in `errors`."""
    control = partial(Control, stop=stop, shared=shared)
    retry = RetryPolicy(stopping=stop.is_set)
    reporter = Reporter(log_format, sink=spec.sink_name)
    try:
        run_again(
            spec, partial(run, spec), reporter, retry, control, default="none" if bounded else "exponential-delay"
        )
    except Exception as error:  # noqa: BLE001 - one sink's failure is no other's: raised once all have ended
        errors[spec.sink_name] = known(error)
        reporter.line(f"the run into this sink has ended, others go on: {error}", level="error")
