"""Decides whether a pipeline needs attention, for the page, `cdc list`, `cdc_up`, alerts and notifications. Pure.

| it needs attention because | since |
|---|---|
| its file is invalid and no version of it runs | |
| it failed, and is not restarted | the failure |
| it failed `FAILURES` times in a row, although another restart is planned | the first of these failures |
| it has been failing for `FAILING_S` seconds, although another restart is planned | the same |
| the current run has been waiting for a server for `FAILING_S` seconds | the wait |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc.serve.control import RunView, State

FAILURES = 3
FAILING_S = 300.0
READS_S = 60.0
"""A run that has been reading for this long without waiting has recovered, even if it has committed nothing yet."""


@dataclass(frozen=True, slots=True)
class Streak:
    """Consecutive failures: their number, and the time of the first one. Seconds since 1970."""

    failures: int = 0
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """The current activity of a run: since when it reads, or since when it waits and for what. Seconds since 1970."""

    reads_since_s: float | None = None
    waits_since_s: float | None = None
    note: str = ""

    def after(self, *, running: bool, note: str, now_s: float) -> Waiting:
        """Return the activity after the run has reported whether it reads and what it waits for (empty for nothing)."""
        if note:
            return Waiting(None, self.waits_since_s or now_s, note)
        return Waiting(self.reads_since_s or now_s if running else None)


def streak(runs: Sequence[RunView]) -> Streak:
    """Return the current streak of failures; `runs` has the newest first.

    A run that committed and lasted for `FAILING_S` ends the earlier streak, as a successful one does. Runs that were
    stopped before they committed, skipped or lost are ignored.
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
    """Return why the pipeline needs attention, in a few words; empty when it does not. `runs` has the newest first."""
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
