"""The runs that read one log: the position of each, in a small file of its own that the others read. Any process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cdc.source import Siblings

FRESH_S = 2.0
"""Age after which a run without new plans does not count: its sink is slow or unavailable."""


@dataclass(frozen=True, slots=True)
class SharingRun:
    """A run as seen by the others.

    Attributes:
        at: sequence up to which it has planned.
        follows: whether it reads the server's log itself.
        clear: it has read all of the log, and no captured table has changes waiting.
    """

    at: int
    follows: bool = False
    clear: bool = False


class Runs:
    """The runs of one pipeline. Errors of reading or writing count as missing: nothing depends on it."""

    def __init__(self, siblings: Siblings, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._name, self._clock = siblings.folder / "runs", siblings.name, clock
        self._reported: SharingRun | None = None

    def report(self, run: SharingRun) -> None:
        """Report the position of this run and that it is alive. Stream reader process."""
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
        """Return the other runs that have reported within `FRESH_S`."""
        # One from the future reported before the clock was set back: it may be gone.
        return [run for run, age_s in self._read() if abs(age_s) <= FRESH_S]

    def has_slower_run(self, sequence: int, most: int) -> bool:
        """Return whether another run, however slow, may be at most `most` bytes behind `sequence`.

        Positions of different log files have no known distance.
        """
        least = sequence - most
        return any(least <= run.at <= sequence for run, age_s in self._read() if abs(age_s) <= 10 * FRESH_S)

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
