"""The Python API: load, validate, plan and run pipelines in the calling process. Exported by `import cdc`.

The command line uses the same calls. Heavy modules are imported when a call needs them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from cdc.errors import EngineError, Problem, SpecError, StateError

if TYPE_CHECKING:
    from cdc.job.control import RunControl
    from cdc.planning.plan import Plan
    from cdc.progress import TableTotals
    from cdc.spec.model import Checked, PipelineSpec, SpecWarning

_one_run = threading.Lock()
"""Held while this process runs a pipeline: Spark has one context per process."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that was read and checked. Print its `warnings` for the author."""

    checked: Checked = field(repr=False)

    def __repr__(self) -> str:
        sinks = ", ".join(spec.sink.type for spec in self.specs)
        return f"<Pipeline {self.name}: {self.specs[0].source.type} -> {sinks}>"

    @property
    def warnings(self) -> tuple[SpecWarning, ...]:
        """Warnings for the pipeline's author."""
        return self.checked.warnings

    @property
    def specs(self) -> tuple[PipelineSpec, ...]:
        """The pipeline's specs, one per sink."""
        return self.checked.specs

    @property
    def spec(self) -> PipelineSpec:
        """The spec of a pipeline with one sink. Raises SpecError when it has several."""
        return self.checked.spec

    def with_sink(self, name: str) -> Pipeline:
        """Return the pipeline with only one of its sinks. Raises SpecError when it has none of this name."""
        return Pipeline(self.checked.with_sink(name))

    @property
    def name(self) -> str:
        """The value of `pipeline.name`, or else the file's name."""
        return self.specs[0].name

    @property
    def file(self) -> str:
        """The file it was read from, as passed by the caller."""
        return self.specs[0].file


class Validation(NamedTuple):
    """The problems of a pipeline file and the warnings for its author; each prints as one line."""

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
        text: the pipeline's text, used instead of the file's content; `file` need not exist then: it is the name in
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
    """Validate a file as `load` does, but return the problems instead of raising them."""
    try:
        return Validation((), load(file, text=text, env=env).warnings)
    except SpecError as error:
        return Validation(error.problems, ())


def plan(pipeline: Pipeline | str | Path, *, state_dir: str | Path | None = None) -> Plan:
    """Connect to source and sink and plan a run: tables, routes, schemas, statements. Changes nothing.

    For a pipeline that has run before (`state_dir`; None for `.cdc/<name>` next to the file), includes later edits of
    its rules and later changes of the sink's tables. `str(plan)` is the text for people. Raises SourceError, SinkError,
    SpecError, StateError, EngineError.
    """
    from cdc.job.state_location import reading
    from cdc.planning.run import plan_file

    spec = _as_pipeline(pipeline).spec
    with reading(_of_sink(_path(state_dir), spec), spec) as state:
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
    """Start a pipeline in a thread of this process and return at once.

    The process has to live as long as the run: call `wait()`, or use the run as a context manager. If the process ends
    earlier, that is a crash: nothing is lost or duplicated, and the next run continues after the last committed batch.

    Args:
        pipeline: a result of `load`, or a file.
        until_caught_up: stop at the current end of the source's log, as pipelines with a schedule or
            `execution.runtime-mode: batch` always do.
        master: the Spark master, such as `local[4]`; None for all cores of this machine.
        state_dir: where the pipeline stores its progress; None for `.cdc/<name>` next to the file.
        log: stream for log lines and the summary; None for stderr and stdout.

    Raises SpecError for an invalid file or several sinks (choose one: `Pipeline.with_sink`), EngineError when this
    process already runs a pipeline. `Run.wait` raises later errors.
    """
    from cdc.job.control import RunControl

    chosen, control = _as_pipeline(pipeline), RunControl(log=log, guest=True)
    started = Run(chosen, control, until_caught_up, master, _of_sink(_path(state_dir), chosen.spec))
    started._start()
    return started


State = Literal["running", "stopping", "ended", "failed"]


@dataclass(frozen=True, slots=True)
class Status:
    """The figures of a run so far.

    Attributes:
        state: `running` from the start, `stopping` after `stop()`, then `ended` or `failed`.
        rows: row changes committed by this run.
        batches: batches committed by this run.
        tables: inserts, updates, deletes and schema changes by sink table.
        counts: other counters, such as rejected values, by reason.
        rows_per_s: over the last few seconds.
        lag_s: age of the last batch's newest change when the batch was committed; None before the first batch.
        lag_bytes: bytes of log still to be read; None where the source does not know.
        note: what the run waits for; empty for nothing.
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
    """A pipeline running in a thread of this process. All methods are thread-safe and may be called repeatedly.

    As a context manager it stops the run and waits for its end when the block is left.
    """

    def __init__(
        self, pipeline: Pipeline, control: RunControl, until_caught_up: bool, master: str | None, state_dir: Path | None
    ) -> None:
        self.pipeline = pipeline
        self._spec = pipeline.spec
        self._control = control
        self._options: dict[str, Any] = {
            "until_caught_up": until_caught_up, "master": master, "state_dir": state_dir,
        }  # fmt: skip
        self._error: BaseException | None = None
        self._turn = _OnlyRun()
        self._thread = threading.Thread(target=self._work, name=f"cdc-run-{pipeline.name}", daemon=True)

    def __repr__(self) -> str:
        return f"<Run {self.pipeline.name}: {self._state()}>"

    def status(self) -> Status:
        """Return the figures of the run so far; never blocks."""
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
        """Request a stop after the running batch; returns at once. `wait()` waits for the end."""
        self._control.stop.set()

    def wait(self, timeout_s: float | None = None) -> Status:
        """Wait for the end of the run and return the last status.

        Every call raises the error that the run failed with. Raises TimeoutError when it still runs after `timeout_s`.
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
        from cdc.job.state_location import check_one_sink, state_location

        try:
            check_one_sink(self._spec, state_location(self._options["state_dir"], self._spec).root)
            run_job(self._spec, control=self._control, **self._options)
        except BaseException as error:  # noqa: BLE001 - `wait` raises whatever ended the thread
            self._error = error
        finally:
            self._turn.__exit__()

    def _state(self) -> State:
        if self._thread.is_alive():
            return "stopping" if self._control.stop.is_set() else "running"
        return "ended" if self._error is None else "failed"


class _OnlyRun:
    """Context manager for the only run of this process; raises EngineError while another one runs."""

    def __enter__(self) -> None:
        if not _one_run.acquire(blocking=False):
            raise EngineError(
                "this process already runs a pipeline",
                hint="wait for its end, or run this one in another process: Spark has one context per process",
            )

    def __exit__(self, *_: object) -> None:
        _one_run.release()


def _as_pipeline(pipeline: Pipeline | str | Path) -> Pipeline:
    return pipeline if isinstance(pipeline, Pipeline) else load(pipeline)


def _path(path: str | Path | None) -> Path | None:
    if path == "":
        raise StateError("state_dir is empty", hint="name a folder, or omit it for `.cdc/<name>` next to the file")
    return None if path is None else Path(path)


def _of_sink(state_dir: Path | None, spec: PipelineSpec) -> Path | None:
    """Return the folder of one of several sinks in the pipeline's state directory, as `cdc run` has it."""
    from cdc.job.state_location import of_sink

    return None if state_dir is None else Path(of_sink(state_dir, spec))
