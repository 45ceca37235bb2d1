"""The Python API: load, validate, plan and run pipelines without a process of their own. `import cdc` offers it.

The command line is made of these calls. Nothing heavy is imported before a call needs it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

from cdc.errors import EngineError, Problem, SpecError, StateError

if TYPE_CHECKING:
    from cdc.job.control import RunControl
    from cdc.planning.plan import Plan
    from cdc.progress import TableTotals
    from cdc.spec.model import Checked, PipelineSpec, SpecWarning
    from cdc.status.model import StatusDocument as Document

_one_run = threading.Lock()
"""Held while a run is in this process: Spark has one context per process."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that was read and checked. `warnings` is what its author should know; print them."""

    checked: Checked = field(repr=False)

    def __repr__(self) -> str:
        sinks = ", ".join(spec.sink.type for spec in self.specs)
        return f"<Pipeline {self.name}: {self.specs[0].source.type} -> {sinks}>"

    @property
    def warnings(self) -> tuple[SpecWarning, ...]:
        """The warnings for its author."""
        return self.checked.warnings

    @property
    def specs(self) -> tuple[PipelineSpec, ...]:
        """The pipeline with each of its sinks."""
        return self.checked.specs

    @property
    def spec(self) -> PipelineSpec:
        """The pipeline of a file with one sink. Raises SpecError for one that has several."""
        return self.checked.spec

    def with_sink(self, name: str) -> Pipeline:
        """The pipeline with one of its sinks. Raises SpecError when it has none of this name."""
        return Pipeline(self.checked.with_sink(name))

    @property
    def name(self) -> str:
        """Its name: `pipeline.name`, else that of the file."""
        return self.specs[0].name

    @property
    def file(self) -> str:
        """The file it was read from, as it was given."""
        return self.specs[0].file


class Validation(NamedTuple):
    """The problems of a pipeline file and the warnings for its author; each prints as a line."""

    problems: tuple[Problem, ...]
    warnings: tuple[SpecWarning, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def load(file: str | Path, *, text: str | None = None, env: Mapping[str, str] | None = None) -> Pipeline:
    """Read and check a pipeline. Connects to nothing. Raises SpecError with every problem.

    Args:
        file: the pipeline file.
        text: the pipeline itself, instead of what the file holds; `file`, which need not exist, is then its name in
            messages, and relative paths start at its folder.
        env: where `${NAME}` looks; None for the environment of this process.
    """
    from cdc.spec.check import check, check_file

    if text is None:
        checked = check_file(str(file), env=env)
    else:
        checked = check(str(file), text.encode(), env=os.environ if env is None else env)
    return Pipeline(checked)


def validate(file: str | Path, *, text: str | None = None, env: Mapping[str, str] | None = None) -> Validation:
    """Validate the file as `load` does, with the problems as values instead of an error."""
    try:
        return Validation((), load(file, text=text, env=env).warnings)
    except SpecError as error:
        return Validation(error.problems, ())


def plan(pipeline: Pipeline | str | Path, *, state_dir: str | Path | None = None) -> Plan:
    """Connect to source and sink, and give what a run would do: tables, routes, schemas, statements. Changes nothing.

    Where the pipeline has run (`state_dir`; None for `.cdc/<name>` beside the file), also what was edited in its rules
    or altered in the sink since. `str(plan)` is the text for people. Raises SourceError, SinkError, SpecError,
    StateError, EngineError.
    """
    from cdc.job.state_location import reading
    from cdc.planning.planner import plan_file

    spec = _as_pipeline(pipeline).spec
    with reading(_path(state_dir), spec) as state:
        known = state.pipeline(source=spec.source.type) is not None
        return plan_file(spec, state if known else None)


def run(
    pipeline: Pipeline | str | Path,
    *,
    until_caught_up: bool = False,
    master: str | None = None,
    state_dir: str | Path | None = None,
    log: IO[str] | None = None,
) -> Run:
    """Start a pipeline in a thread of this process, and return at once.

    The process has to live as long as the run: `wait()`, or use the run as a context manager. A process that ends
    before is like a crash: nothing is lost or doubled, and the next run goes on after the last committed batch.

    Args:
        pipeline: what `load` gave, or a file.
        until_caught_up: stop at what the source's log holds now, as a pipeline with a schedule or
            `execution.runtime-mode: batch` does in any case.
        master: the Spark master, such as `local[4]`; None for all cores of this machine.
        state_dir: where the pipeline keeps its progress; None for `.cdc/<name>` beside the file.
        log: where log lines and the summary go; None for stderr and stdout.

    Raises SpecError for a file that is wrong, EngineError when a run is in this process already. What fails later is
    raised by `Run.wait`.
    """
    from cdc.job.control import RunControl

    started = Run(_as_pipeline(pipeline), RunControl(log=log, guest=True), until_caught_up, master, _path(state_dir))
    started._start()
    return started


def run_here(
    pipeline: Pipeline,
    *,
    until_caught_up: bool = False,
    master: str | None = None,
    state_dir: Path | None = None,
    log_format: str = "text",
    background: bool = False,
    events: Path | None = None,
    metrics: tuple[str, int] | None = None,
) -> int:
    """Run a pipeline in this thread, for a process that does nothing else: the command line. Returns the exit code.

    Called in the main thread, SIGINT and SIGTERM finish the running batch, and a second one ends the process.
    `background` reads with half the cores; `events` is a file that gets a line for each event, `metrics` where
    metrics are served: host and port. After a failure it runs again where `pipeline.restart` says so. Raises CdcError.
    """
    from cdc.job.notifying import RunNotifying
    from cdc.job.report import Reporter
    from cdc.job.restarting import run_again
    from cdc.job.run import run as run_job
    from cdc.job.several_sinks import run_sinks
    from cdc.job.state_location import check_one_sink, of_sink, state_location
    from cdc.state.directory import StateDir

    with ExitStack() as stack:
        stack.enter_context(_Turn())
        metrics_of = (lambda document: None) if metrics is None else _metrics(stack, *metrics)

        def run_once(spec: PipelineSpec, notifying: RunNotifying, control: RunControl) -> int:
            def on_status(document: Document) -> None:
                notifying(document)
                metrics_of(document)

            return run_job(
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

        first = pipeline.specs[0]
        if len(pipeline.specs) == 1:
            notifying = stack.enter_context(RunNotifying(first, log_format))
            root = state_location(state_dir, first).root
            check_one_sink(first, root)
            stop_requested = StateDir(root).stop_requested
            return run_again(
                first, partial(run_once, first, notifying), Reporter(log_format), stop_requested=stop_requested
            )
        root = state_location(state_dir, first.model_copy(update={"sink_name": ""})).root
        bounded = until_caught_up or first.pipeline.bounded
        return run_sinks(pipeline.specs, run_once, root=root, master=master, log_format=log_format, bounded=bounded)


State = Literal["running", "stopping", "ended", "failed"]


@dataclass(frozen=True, slots=True)
class Status:
    """The figures of a run so far.

    Attributes:
        state: `running` from its start on, `stopping` after `stop()`, `ended` or `failed` when it is over.
        rows: row changes committed by this run.
        batches: batches committed by this run.
        tables: inserts, updates, deletes and schema changes by sink table.
        counts: what was counted besides, such as rejected values, by reason.
        rows_per_s: over the last few seconds.
        lag_s: the age of the newest change of the last batch when that was committed; None before there is one.
        lag_bytes: how much log is still to be read; None where the source cannot tell.
        note: what the run waits for, if anything.
    """

    state: State
    rows: int
    batches: int
    tables: Mapping[str, TableTotals]
    counts: Mapping[str, int]
    rows_per_s: float
    lag_s: float | None
    lag_bytes: int | None
    note: str


class Run:
    """A pipeline that runs in a thread of this process. Methods may be called from any thread, as often as one likes.

    As a context manager it is stopped, and waited for, at the end of the block.
    """

    def __init__(
        self, pipeline: Pipeline, control: RunControl, until_caught_up: bool, master: str | None, state_dir: Path | None
    ) -> None:
        self.pipeline = pipeline
        self._control = control
        self._options = {"until_caught_up": until_caught_up, "master": master, "state_dir": state_dir}
        self._error: BaseException | None = None
        self._turn = _Turn()
        self._thread = threading.Thread(target=self._work, name=f"cdc-run-{pipeline.name}", daemon=True)

    def __repr__(self) -> str:
        return f"<Run {self.pipeline.name}: {self._state()}>"

    def status(self) -> Status:
        """The figures of the run so far; never blocks."""
        now = self._control.progress.totals()
        return Status(
            state=self._state(),
            rows=now.rows,
            batches=now.batches,
            tables={str(table): totals for table, totals in sorted(now.tables.items())},
            counts=dict(now.counts),
            rows_per_s=now.rate,
            lag_s=now.lag_s,
            lag_bytes=now.lag_bytes,
            note=now.note,
        )

    def stop(self) -> None:
        """Ask it to finish the running batch and to end; returns at once. `wait()` says when it has."""
        self._control.stop.set()

    def wait(self, timeout_s: float | None = None) -> Status:
        """Wait for its end, and return the last status.

        Raises the CdcError that it failed with, in every call, and TimeoutError when it goes on after `timeout_s`.
        """
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"pipeline {self.pipeline.name} is still {self._state()} after {timeout_s} s")
        if self._error is not None:
            raise self._error
        return self.status()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.wait()

    def _start(self) -> None:
        self._turn.__enter__()
        try:
            self._thread.start()
        except RuntimeError:
            self._turn.__exit__()
            raise

    def _work(self) -> None:
        from cdc.job.run import run as run_job

        try:
            run_job(self.pipeline.spec, control=self._control, **self._options)  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - whatever ends the thread is raised to the one who waits
            self._error = error
        finally:
            self._turn.__exit__()

    def _state(self) -> State:
        if self._thread.is_alive():
            return "stopping" if self._control.stop.is_set() else "running"
        return "ended" if self._error is None else "failed"


def _metrics(stack: ExitStack, host: str, port: int) -> Callable[[Document], None]:
    """Metrics that are served until the end of the stack; what is given is told of each status document."""
    from cdc.status.metrics import MetricsServer

    server = MetricsServer()
    server.start(host, port)
    stack.callback(server.stop)
    return server


class _Turn:
    """The right to run a pipeline in this process; raises EngineError where another one has it."""

    def __enter__(self) -> None:
        if not _one_run.acquire(blocking=False):
            raise EngineError(
                "a pipeline runs in this process already",
                hint="wait for its end, or run this one in a process of its own: Spark has one context per process",
            )

    def __exit__(self, *_: object) -> None:
        _one_run.release()


def _as_pipeline(pipeline: Pipeline | str | Path) -> Pipeline:
    return pipeline if isinstance(pipeline, Pipeline) else load(pipeline)


def _path(path: str | Path | None) -> Path | None:
    if path == "":
        raise StateError("state_dir is empty", hint="name a folder, or leave it out for `.cdc/<name>` beside the file")
    return None if path is None else Path(path)
