"""The history of a pipeline's runs, stored in its state directory: `runs.json`, newest last, limited in number.

It also has the current run, from its start: one that is found there when nothing runs was lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.serve.control import ErrorView, RunTotals, RunView
from cdc.state.store import RESTORE, LocalStore
from cdc.status.file import FILE_NAME as STATUS_FILE
from cdc.status.file import last_status

FILE_NAME = "runs.json"
MOST_RUNS = 100


class RunHistory:
    """The finished runs of one pipeline. One thread writes, any may read."""

    def __init__(self, root: Path, most: int = MOST_RUNS) -> None:
        self._root, self._store, self._most = root, LocalStore(root), most
        self._runs: tuple[RunView, ...] | None = None
        self._stopped = False
        self._running: RunView | None = None
        self._finished = ""
        self._totals = RunTotals()

    @property
    def stopped(self) -> bool:
        """Whether the pipeline was stopped by a request and not started since."""
        self.runs()
        return self._stopped

    def set_stopped(self, stopped: bool) -> None:
        """Store whether it is stopped. Raises StateError when that cannot be written."""
        if self.stopped != stopped:
            self._stopped = stopped
            self._write()

    def runs(self) -> Sequence[RunView]:
        """Return the runs, newest first. Raises StateError when the file cannot be read."""
        if self._runs is None:
            document = self._store.read_json(FILE_NAME) or {"runs": []}
            try:
                self._runs = tuple(_run(fields) for fields in document["runs"])
                self._stopped, self._finished = bool(document.get("held", False)), str(document.get("finished", ""))
                totals = document.get("totals")
                self._totals = _summed(self._runs) if totals is None else RunTotals(**totals)
                running = document.get("running")
                self._running = None if running is None else _run(running)
            except (KeyError, TypeError) as error:
                where = self._store.where(FILE_NAME)
                raise StateError(f"cannot be read: {error!r}", where=where, hint=RESTORE) from error
        return self._runs[::-1]

    def add(self, run: RunView, finished: str = "") -> None:
        """Store a finished run. `finished` is the version of the file with which a source was read to its end.

        Raises StateError when it cannot be written.
        """
        self._append(run)
        self._running, self._finished = None, finished
        self._write()

    def record_start(self, run: RunView) -> None:
        """Store a starting run. Raises StateError when it cannot be written."""
        self.runs()
        self._running = run
        self._write()

    def note_lost_run(self) -> bool:
        """Store the lost run, if any, when nothing runs, as of its last status; return whether there was one.

        Raises StateError.
        """
        self.runs()
        if self._running is None:
            return False
        status, path = last_status(self._root), self._root / STATUS_FILE
        rows, batches = (0, 0) if status is None else (status.totals.rows, status.batches_total)
        ended_s = max(path.stat().st_mtime if path.exists() else 0.0, self._running.started_s)
        self.add(replace(self._running, ended_s=ended_s, outcome="lost", rows=rows, batches=batches))
        return True

    @property
    def totals(self) -> RunTotals:
        """Totals of all finished runs."""
        self.runs()
        return self._totals

    @property
    def finished(self) -> str:
        """The version of the file with which the last run read its source to the end; empty if it did not."""
        self.runs()
        return self._finished

    def _append(self, run: RunView) -> None:
        self._runs = (*reversed(self.runs()), run)[-self._most :]
        self._totals = self._totals.with_run(run)

    def _write(self) -> None:
        runs = [asdict(each) for each in self._runs or ()]
        running = None if self._running is None else asdict(self._running)
        document = {
            "held": self._stopped, "finished": self._finished, "totals": asdict(self._totals), "running": running,
            "runs": runs,
        }  # fmt: skip
        self._store.write_json(FILE_NAME, document, indent=1)

    def last_begun_s(self) -> float | None:
        """Return when the last run began from which the schedule counts; None without one. A lost run is repeated."""
        return next((run.started_s for run in self.runs() if run.outcome not in ("skipped", "lost")), None)

    def ran_until_server_ended(self) -> bool:
        """Whether the last run was active until the server ended: it neither finished nor failed."""
        last = next((run for run in self.runs() if run.outcome != "skipped"), None)
        return last is not None and last.outcome in ("stopped", "lost")


def _summed(runs: Sequence[RunView]) -> RunTotals:
    totals = RunTotals()
    for run in runs:
        totals = totals.with_run(run)
    return totals


def _run(fields: dict[str, Any]) -> RunView:
    error = fields.get("error")
    return RunView(**{**fields, "error": None if error is None else ErrorView(**error)})
