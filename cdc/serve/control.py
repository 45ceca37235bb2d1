"""Requests to a running `cdc serve`, and its views: for the REST API, the web page and the commands.

Values are frozen and made of plain types, so that `dataclasses.asdict` gives JSON. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from cdc.errors import CdcError
from cdc.spec.model import PipelineSpec

State = Literal["starting", "running", "stopping", "waiting", "scheduled", "stopped", "finished", "failed", "invalid"]
"""Where a pipeline is in its life.

| state | meaning |
|---|---|
| starting | a run is being set up: nothing is read yet |
| running | a run is under way |
| stopping | a run finishes its batch, and ends |
| waiting | the last run failed with what may pass; the next one begins at `next_run_s` (`pipeline.restart`) |
| scheduled | there is no run; the next one begins at `next_run_s` (`pipeline.schedule`) |
| stopped | stopped on request; no run begins until `start` |
| finished | a bounded source was read to its end |
| failed | the last run failed with what no restart mends, or once too often; see `last_error` |
| invalid | the file is wrong and no version of it has run yet; see `file_errors` |
"""

RUNNING: Final[tuple[State, ...]] = ("starting", "running", "stopping")
"""States of a pipeline that has a run."""

Outcome = Literal["finished", "stopped", "failed", "skipped", "lost"]


@dataclass(frozen=True, slots=True)
class ErrorView:
    """An error for people: the class of the CdcError tree, what happened, where, the next step. Holds no secret."""

    type: str
    message: str
    where: str
    hint: str
    at_s: float
    retryable: bool

    @classmethod
    def of(cls, error: CdcError, at_s: float) -> ErrorView:
        """An error of a run that ended at that time."""
        return cls(error.class_name, error.message, error.where, error.hint, at_s, error.retryable)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run that is over, or the one under way (`ended_s` and `outcome` None).

    `skipped` is a run that did not begin, as the one before it went on past its time; `lost` one that ended without a
    word, as the server was killed or its machine failed (`ended_s` is when it was last seen alive). `why` is what began
    it: `schedule`, `start`, `restart`, `edit`, `request`.
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
    """All runs that are over, also those that the history does not keep any more."""

    runs: int = 0
    failed: int = 0
    rows: int = 0
    batches: int = 0

    def with_run(self, run: RunView) -> RunTotals:
        """With one more; a skipped one is none."""
        if run.outcome == "skipped":
            return self
        failed = self.failed + (run.outcome in ("failed", "lost"))
        return RunTotals(self.runs + 1, failed, self.rows + run.rows, self.batches + run.batches)


@dataclass(frozen=True, slots=True)
class PipelineView:
    """One pipeline of the folder at one moment.

    Attributes:
        name: `pipeline.name`, else the name of the file: unique in a folder, the key of all requests.
        file: the pipeline file's path.
        source, sink: names of the connectors.
        schedule: as written in the file (`pipeline.schedule`), empty for a continuous pipeline.
        next_run_s: when the next run begins, None when none is planned.
        runs: the newest first: the one under way, then those kept in the history.
        restarts: runs begun by the restart strategy since the last success or request.
        last_error: what the last run failed with, until one has committed a batch, or come to its end.
        file_errors: what is wrong with the file as it is now, while an earlier version of it goes on; empty when sound.
        attention: why it needs a person (`cdc.serve.attention`), in a few words; empty when it does not.
        totals: of all runs, with the one under way.
        state_dir: where it keeps its state; the status document is there.
        spec: the options in force, JSON values; secrets are masked.
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
    """A running `cdc serve`. Every method may be called from any thread.

    Methods that name a pipeline raise PipelineUnknown when there is none of that name, and NotNow when it is in a state
    in which that cannot be done: so does every request but `log` for an invalid file. Unless said otherwise a request
    is taken at once and carried out beside the caller: the state tells how far it is.
    """

    def pipelines(self) -> Sequence[PipelineView]:
        """All pipelines, by name. Never waits for anything."""

    def pipeline(self, name: str) -> PipelineView:
        """One of them. Never waits for anything."""

    def spec(self, name: str) -> PipelineSpec:
        """The file's content in the version that is kept: a mistake made in the file since is not in it."""

    def start(self, name: str) -> None:
        """Begin a run now, whatever the schedule says; failures before are forgotten.

        Raises NotNow while a run is under way that nobody has stopped, and for an invalid file.
        """

    def stop(self, name: str, *, drain: bool = False) -> None:
        """End the run after its running batch; no other begins until `start`.

        With `drain` everything that the source's log holds now is committed first.
        """

    def savepoint(self, name: str) -> Path:
        """Keep a consistent copy of the state, to start from later. Returns its folder.

        Takes seconds: a run under way ends after its batch, and goes on once the copy is made.
        """

    def resync(self, name: str, table: str) -> None:
        """Re-snapshot a table of the source (`database.table`), while everything else goes on.

        Raises SourceError for a table that is not captured.
        """

    def pause(self, name: str, table: str) -> str:
        """Leave a table of the source out from the next batch on; a sentence about it.

        Raises SourceError for a table that is not captured, or that could not be re-snapshotted afterwards.
        """

    def resume(self, name: str, table: str) -> str:
        """Follow a paused table again, after a re-snapshot; a sentence about it."""

    def log(self, name: str, last: int = 100) -> Sequence[LogLine]:
        """The last lines of its log, oldest first."""
