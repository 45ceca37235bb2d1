"""Runs a pipeline in the main thread until its end, with its restarts and notifications: `cdc run`. Driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from cdc.job.control import RunControl
from cdc.job.notifying import RunNotifying
from cdc.job.report import Reporter
from cdc.job.restarting import run_with_restarts
from cdc.job.run import run
from cdc.job.several_sinks import run_sinks
from cdc.job.state_location import check_one_sink, of_sink, state_location
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir
from cdc.status.model import StatusDocument


def run_to_end(
    specs: Sequence[PipelineSpec],
    *,
    until_caught_up: bool,
    master: str | None,
    state_dir: Path | None,
    log_format: str,
    background: bool,
    events: Path | None,
    metrics: tuple[str, int] | None,
) -> int:
    """Run a pipeline, one spec per sink, in this thread and return the exit code. Raises CdcError.

    In the main thread, SIGINT and SIGTERM stop the run after the running batch; a second signal ends the process. A
    failed run is restarted as `pipeline.restart` says.

    `background` reads with half the cores; `events` is a file that gets a line per event; `metrics` is the host and
    port to serve metrics at.
    """
    with ExitStack() as stack:
        metrics_of = (lambda document: None) if metrics is None else _metrics(stack, *metrics)

        def run_once(spec: PipelineSpec, notifying: RunNotifying, control: RunControl) -> int:
            def on_status(document: StatusDocument) -> None:
                notifying(document)
                metrics_of(document)

            return run(
                spec,
                until_caught_up=until_caught_up,
                master=master,
                state_dir=None if state_dir is None else Path(of_sink(state_dir, spec)),
                log_format=log_format,
                background=background,
                events=events,
                control=control,
                on_status=on_status,
            )

        first = specs[0]
        if len(specs) == 1:
            notifying = stack.enter_context(RunNotifying(first, log_format))
            root = state_location(state_dir, first).root
            check_one_sink(first, root)
            stop_requested = StateDir(root).stop_requested
            return run_with_restarts(
                first, partial(run_once, first, notifying), Reporter(log_format), stop_requested=stop_requested
            )
        root = state_location(state_dir, first.model_copy(update={"sink_name": ""})).root
        bounded = until_caught_up or first.pipeline.bounded
        return run_sinks(specs, run_once, root=root, master=master, log_format=log_format, bounded=bounded)


def _metrics(stack: ExitStack, host: str, port: int) -> Callable[[StatusDocument], None]:
    """Serve metrics until the stack is closed. Returns a callback that takes each status document."""
    from cdc.status.metrics import MetricsServer  # imports a web server

    server = MetricsServer()
    server.start(host, port)
    stack.callback(server.stop)
    return server
