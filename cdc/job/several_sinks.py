"""A pipeline with several sinks: one run per sink, in parallel on one Spark session. Driver.

| a sink | what happens |
|---|---|
| is unreachable | its run retries for `retry-timeout`, then as `pipeline.restart` says; the others continue |
| fails for good | its run ends, the others continue; the process ends with its error after the last run has ended |
| is slow | its run is behind the others, at its own offset in the source's log |

Runs share what one of them has read and decoded of the log (`Siblings`), if the source supports that.

Each run has its own state, decisions and offset, in `sinks/<name>` of the pipeline's state directory. So a sink that is
added later starts with its own snapshot, and one that is removed and added back continues where it stopped.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cdc.errors import CdcError, EngineError
from cdc.flow.commits import as_cdc_error
from cdc.job.control import RunControl, siblings_of
from cdc.job.json_log import JsonLog
from cdc.job.log_records import log_records_of_runs
from cdc.job.notifying import RunNotifying
from cdc.job.report import Reporter
from cdc.job.restarting import run_with_restarts
from cdc.job.spark.shared import SharedSpark
from cdc.job.state_location import SINKS, check_progress
from cdc.process.signals import STOPPED_EARLY, Signals
from cdc.restarts import Strategy
from cdc.retry import RetryPolicy
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir

RunSink = Callable[[PipelineSpec, RunNotifying, RunControl], int]
"""Runs a pipeline into one sink, with the receiver of its status documents. Raises CdcError."""

_LOOK_S = 0.2
_LOG = "log"
"""The temporary folder with the decoded log that the runs share."""


@dataclass
class _SinkRuns:
    """The runs into one sink, one after the other, with their state in `root`.

    `specs` is the pipeline once per sink, `stop` ends the runs, `error` is the error that ended the last one.
    """

    spec: PipelineSpec
    reporter: Reporter
    notifying: RunNotifying
    shared: SharedSpark
    log: IO[str] | None
    root: Path
    specs: Sequence[PipelineSpec]
    stop: threading.Event = field(default_factory=threading.Event)
    error: CdcError | None = None

    def work(self, run: RunSink, default: Strategy) -> None:
        """Run until the end, or until a failure without a restart. Raises nothing."""
        retry = RetryPolicy(stopping=self.stop.is_set)
        try:
            with self.notifying:
                run_with_restarts(
                    self.spec, lambda control: self._run_once(run, control), self.reporter, retry, self._control,
                    default=default, stop_requested=StateDir(self.root).stop_requested,
                )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - must not stop other sinks: raised once all runs have ended
            self.error = as_cdc_error(error)
            self.reporter.line(f"the run into this sink has failed, the others continue: {error}", level="error")

    def _control(self, *, guest: bool = False, again: bool = False) -> RunControl:
        return RunControl(
            stop=self.stop, log=self.log, guest=guest, again=again, shared=self.shared,
            siblings=siblings_of(self.spec, self.specs, self.shared.scratch / _LOG),
        )  # fmt: skip

    def _run_once(self, run: RunSink, control: RunControl) -> int:
        try:
            return run(self.spec, self.notifying, control)
        except CdcError as error:
            if self.shared.alive():
                raise
            self.stop.set()  # another run would have no Spark either
            hint = "run the pipeline again: each sink continues after its last committed batch"
            raise EngineError(f"Spark has ended: {error}", hint=hint) from error


def run_sinks(
    specs: Sequence[PipelineSpec], run: RunSink, *, root: Path, master: str | None, log_format: str, bounded: bool
) -> int:
    """Run a pipeline into each of its sinks until all runs have ended. Returns 0. Main thread; a signal stops all.

    `specs` is the pipeline once per sink; `root` the folder of its state; `bounded` whether runs end at the current
    end of the log. After all runs have ended, raises the first error that ended one.
    """
    check_progress(specs[0], root)
    reporter, stop = Reporter(log_format), threading.Event()
    json_log = JsonLog(reporter.line, enabled=log_format == "json")
    secrets = sorted({name for spec in specs for name in spec.secret_variables})
    settings = specs[0].pipeline.spark
    shared = SharedSpark(root, master, secrets, lambda text, level: reporter.line(text, level=level), settings=settings)
    log = sys.stderr if log_format == "json" else None  # before `of_python` makes lines of what is written there
    sinks = [
        _SinkRuns(
            spec,
            Reporter(log_format, err=log, sink=spec.sink_name),
            RunNotifying(spec, log_format),
            shared,
            log,
            root / SINKS / spec.sink_name,
            specs,
        )
        for spec in specs
    ]
    with ExitStack() as stack:
        stack.enter_context(Signals(stop).installed())
        stack.enter_context(log_records_of_runs())
        stack.enter_context(json_log.of_python())
        stack.callback(shared.stop)
        with json_log.of_children():
            shared.start(stop)
        if stop.is_set():
            reporter.line(STOPPED_EARLY)
            return 0
        reporter.line(f"Spark is up for {len(specs)} sinks: {', '.join(spec.sink_name for spec in specs)}")
        _work_all(sinks, lambda runs: runs.work(run, "none" if bounded else "exponential-delay"), stop)
    for runs in sinks:
        if runs.error is not None:
            raise runs.error
    return 0


def _work_all(sinks: Sequence[_SinkRuns], work: Callable[[_SinkRuns], None], stop: threading.Event) -> None:
    """Run each sink in a thread and wait until all have ended; `stop` stops all of them."""
    threads = [threading.Thread(target=work, args=(runs,), name=runs.spec.label) for runs in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(_LOOK_S)  # a signal is handled between two
            for runs in sinks if stop.is_set() else ():
                runs.stop.set()
