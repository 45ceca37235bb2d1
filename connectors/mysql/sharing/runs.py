"""The runs that read one log: where each is, in a small file of its own that the others read. Any process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cdc.source import Siblings

FRESH_S = 2.0
"""A run that has planned nothing for longer does not count: its sink is slow, or away."""


@dataclass(frozen=True, slots=True)
class SharingRun:
    """A run as the others see it.

    Attributes:
        at: sequence up to which it has planned.
        follows: whether it reads the server's log itself.
        clear: it has read all of the log, and nothing of a captured table waits.
    """

    at: int
    follows: bool = False
    clear: bool = False


class Runs:
    """The runs of one pipeline. What cannot be written or read is as if it were not there: nothing depends on it."""

    def __init__(self, siblings: Siblings, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._name, self._clock = siblings.folder / "runs", siblings.name, clock
        self._reported: SharingRun | None = None

    def report(self, run: SharingRun) -> None:
        """Say where this run is, and that it is still there. Stream reader process."""
        path = self._folder / self._name
        try:
            if run == self._reported:
                os.utime(path, (self._clock(), self._clock()))
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            made = path.with_suffix(".new")
            made.write_text(json.dumps([run.at, run.follows, run.clear]))
            os.utime(made, (self._clock(), self._clock()))
            made.replace(path)
            self._reported = run
        except OSError:
            self._reported = None

    def live_runs(self) -> list[SharingRun]:
        """The other runs that have told something within `FRESH_S`."""
        return [run for run, age_s in self._read() if age_s <= FRESH_S]

    def has_slower_run(self, sequence: int, most: int) -> bool:
        """Whether another run, however slow, is at a place up to `sequence` and at most so many bytes before it, or
        perhaps: places of two log files tell no distance."""
        least = sequence - most
        return any(least <= run.at <= sequence for run, age_s in self._read() if age_s <= 10 * FRESH_S)

    def _read(self) -> list[tuple[SharingRun, float]]:
        found = []
        try:
            for entry in os.scandir(self._folder):
                if entry.name != self._name and not entry.name.endswith(".new"):
                    age_s = self._clock() - entry.stat().st_mtime
                    found.append((SharingRun(*json.loads(Path(entry.path).read_bytes())), age_s))
        except (OSError, ValueError, TypeError):
            return found
        return found
