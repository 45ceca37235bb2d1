"""Whether a pipeline needs a person: one rule for the page, `cdc list`, `cdc_up`, alerts and notifications. Pure.

| it needs attention because | since |
|---|---|
| its file is invalid and no version of it runs | |
| it failed, and is not started again | the failure |
| it failed `FAILURES` times in a row, though it waits for its next try | the first of these failures |
| it has been failing for `FAILING_S` seconds, though it waits for its next try | the same |
| a run under way has been waiting for a server for `FAILING_S` seconds | the wait |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc.serve.control import RunView, State

FAILURES = 3
FAILING_S = 300.0
READS_S = 60.0
"""A run under way that has committed nothing, but reads for so long without waiting, has recovered."""


@dataclass(frozen=True, slots=True)
class Streak:
    """Failures in a row: how many, and when the first one was. Seconds since 1970."""

    failures: int = 0
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The present occupation of a run: since when it reads, or since when it waits and for what. Seconds since 1970."""

    reads_since_s: float | None = None
    waits_since_s: float | None = None
    note: str = ""

    def after(self, *, running: bool, note: str, now_s: float) -> Waiting:
        """The occupation once the run has told whether it reads, and what it waits for (empty for nothing)."""
        if note:
            return Waiting(None, self.waits_since_s or now_s, note)
        return Waiting(self.reads_since_s or now_s if running else None)


def streak(runs: Sequence[RunView]) -> Streak:
    """Failures up to now, of the runs with the newest first.

    A run that committed and lasted for `FAILING_S` ends the streak before it, as one does that ended well. Runs that
    were stopped before they committed, skipped or lost say nothing about it.
    """
    found = Streak()
    for run in runs:
        if run.outcome == "failed" and run.ended_s is not None:
            found = Streak(found.failures + 1, run.ended_s)
            if run.batches and run.ended_s - run.started_s >= FAILING_S:
                return found
        elif run.outcome == "finished" or run.batches:
            return found
    return found


def reason(state: State, runs: Sequence[RunView], waiting: Waiting, now_s: float) -> str:
    """Why the pipeline needs attention, in a few words; empty when it does not. `runs` has the newest first."""
    if state == "invalid":
        return "invalid file"
    if state == "failed":
        return "failed"
    if state == "stopped":
        return ""
    if waiting.waits_since_s is not None and now_s - waiting.waits_since_s >= FAILING_S:
        return f"waits for {_minutes(now_s - waiting.waits_since_s)}: {waiting.note}"
    if waiting.reads_since_s is not None and now_s - waiting.reads_since_s >= READS_S:
        return ""
    failing = streak(runs)
    if failing.failures >= FAILURES:
        return f"failed {failing.failures} times in a row"
    if failing.failures and now_s - failing.since_s >= FAILING_S:
        return f"failing for {_minutes(now_s - failing.since_s)}"
    return ""


def _minutes(length_s: float) -> str:
    return f"{length_s / 60:.0f} min" if length_s < 7200 else f"{length_s / 3600:.0f} h"
