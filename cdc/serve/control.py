"""Requests to a running `cdc serve`, and its views, for the REST API, the web page and the commands.

Values are frozen and have plain types, so that `dataclasses.asdict` gives JSON. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from cdc.errors import CdcError
from cdc.spec.model import PipelineSpec

State = Literal["starting", "running", "stopping", "waiting", "scheduled", "stopped", "finished", "failed", "invalid"]
"""The state of a pipeline.

| state | meaning |
|---|---|
| starting | a run is being set up: nothing is read yet |
| running | a run is active |
| stopping | a run finishes its batch, and ends |
| waiting | the last run failed; it is restarted at `next_run_s` (`pipeline.restart`) |
| scheduled | there is no run; the next one begins at `next_run_s` (`pipeline.schedule`) |
| stopped | stopped on request; no run begins until `start` |
| finished | a bounded source was read to its end |
| failed | the last run failed with an error that a restart does not solve, or too often; see `last_error` |
| invalid | the file is invalid and no version of it has run yet; see `file_errors` |
"""

RUNNING: Final[tuple[State, ...]] = ("starting", "running", "stopping")
"""States of a pipeline that has a run."""

Outcome = Literal["finished", "stopped", "failed", "skipped", "lost"]


@dataclass(frozen=True, slots=True)
class ErrorView:
    """An error for people: its CdcError class, message, location and next step. Contains no secrets."""

    type: str
    message: str
    where: str
    hint: str
    at_s: float
    retryable: bool

    @classmethod
    def of(cls, error: CdcError, at_s: float) -> ErrorView:
        """Build the view of the error of a run that ended at that time."""
        return cls(error.class_name, error.message, error.where, error.hint, at_s, error.retryable)


@dataclass(frozen=True, slots=True)
class RunView:
    """A finished run, or the current one (`ended_s` and `outcome` None).

    `skipped` is a run that did not begin, as the previous one was still active at its time; `lost` one whose server was
    killed or whose machine failed (`ended_s` is when it was last seen alive). `why` is what started it: `schedule`,
    `start`, `restart`, `edit`, `request`.
    """

    started_s: float
    ended_s: float | None
    outcome: Outcome | None
    why: str
    rows: int = 0
    batches: int = 0
    error: ErrorView | None = None


@dataclass(frozen=True, slots=True)
class RunTotals:
    """Totals of all finished runs, including those no longer in the history."""

    runs: int = 0
    failed: int = 0
    rows: int = 0
    batches: int = 0

    def with_run(self, run: RunView) -> RunTotals:
        """Return the totals with another run; a skipped one does not count."""
        if run.outcome == "skipped":
            return self
        failed = self.failed + (run.outcome in ("failed", "lost"))
        return RunTotals(self.runs + 1, failed, self.rows + run.rows, self.batches + run.batches)


@dataclass(frozen=True, slots=True)
class PipelineView:
    """One pipeline of the folder at one moment.

    Attributes:
        name: `pipeline.name`, or else the file's name: unique in a folder, the key of all requests.
        file: the pipeline file's path.
        source, sink: names of the connectors.
        schedule: as written in the file (`pipeline.schedule`), empty for a continuous pipeline.
        next_run_s: when the next run begins, None when none is planned.
        runs: runs, newest first: the current one, then those in the history.
        restarts: runs started by the restart strategy since the last success or request.
        last_error: error of the last run, until a run has committed a batch or finished.
        file_errors: problems of the current file, while an earlier version keeps running; empty for a valid file.
        attention: why it needs attention (`cdc.serve.attention`), in a few words; empty when it does not.
        totals: totals of all runs, including the current one.
        state_dir: its state directory, with the status document.
        spec: the current options as JSON values; secrets are masked.
    """

    name: str
    file: str
    source: str
    sink: str
    state: State
    state_dir: str
    schedule: str = ""
    next_run_s: float | None = None
    runs: Sequence[RunView] = ()
    restarts: int = 0
    last_error: ErrorView | None = None
    file_errors: Sequence[str] = ()
    attention: str = ""
    totals: RunTotals = RunTotals()
    spec: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a pipeline's log."""

    at_s: float
    level: str
    message: str
    fields: Mapping[str, object] = field(default_factory=dict)


class Control(Protocol):
    """A running `cdc serve`. All methods are thread-safe.

    Methods for one pipeline raise PipelineUnknown for an unknown name, and NotNow when its state does not allow the
    request: so does every request but `log` for an invalid file. Unless noted otherwise a request returns at once and
    is executed in the background: the state shows its progress.
    """

    def pipelines(self) -> Sequence[PipelineView]:
        """Return all pipelines, by name. Never blocks."""

    def pipeline(self, name: str) -> PipelineView:
        """Return one pipeline. Never blocks."""

    def spec(self, name: str) -> PipelineSpec:
        """Return the valid version of the file in use: later mistakes in the file are not in it."""

    def start(self, name: str) -> None:
        """Start a run now, regardless of the schedule, and forget earlier failures.

        Raises NotNow while a run is active and not stopping, and for an invalid file.
        """

    def stop(self, name: str, *, drain: bool = False) -> None:
        """Stop the run after its running batch; no other begins until `start`.

        With `drain`, everything up to the current end of the source's log is committed first.
        """

    def savepoint(self, name: str) -> Path:
        """Make a consistent copy of the state, to start from later. Returns its folder.

        Takes seconds: the current run stops after its batch, and continues once the copy is made.
        """

    def resync(self, name: str, table: str) -> None:
        """Re-snapshot a table of the source (`database.table`) while everything else continues.

        Raises SourceError for a table that is not captured.
        """

    def pause(self, name: str, table: str) -> str:
        """Skip a table of the source from the next batch on; returns a message.

        Raises SourceError for a table that is not captured, or that could not be re-snapshotted afterwards.
        """

    def resume(self, name: str, table: str) -> str:
        """Process a paused table again, after a re-snapshot; returns a message."""

    def log(self, name: str, last: int = 100) -> Sequence[LogLine]:
        """Return the last lines of its log, oldest first."""
