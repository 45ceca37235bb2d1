"""What became of a pipeline's runs, kept in its state directory: `runs.json`, the newest last, a bounded number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.serve.control import ErrorView, RunView
from cdc.state.store import RESTORE, LocalStore

FILE_NAME = "runs.json"
KEPT = 100


class History:
    """The runs of one pipeline that are over. One thread writes, any reads."""

    def __init__(self, root: Path, kept: int = KEPT) -> None:
        self._store, self._kept = LocalStore(root), kept
        self._runs: tuple[RunView, ...] | None = None
        self._held = False

    @property
    def held(self) -> bool:
        """Whether somebody has stopped the pipeline, until somebody starts it."""
        self.runs()
        return self._held

    def hold(self, held: bool) -> None:
        """Keep that. Raises StateError when it cannot be written."""
        if self.held != held:
            self._held = held
            self._write()

    def runs(self) -> Sequence[RunView]:
        """The newest first. Raises StateError when the file cannot be read."""
        if self._runs is None:
            document = self._store.read_json(FILE_NAME) or {"runs": []}
            try:
                self._runs = tuple(_run(fields) for fields in document["runs"])
                self._held = bool(document.get("held", False))
            except (KeyError, TypeError) as error:
                where = self._store.where(FILE_NAME)
                raise StateError(f"cannot be read: {error!r}", where=where, hint=RESTORE) from error
        return self._runs[::-1]

    def add(self, run: RunView) -> None:
        """Keep a run that is over. Raises StateError when it cannot be written."""
        self._runs = (*reversed(self.runs()), run)[-self._kept :]
        self._write()

    def _write(self) -> None:
        runs = [asdict(each) for each in self._runs or ()]
        self._store.write_json(FILE_NAME, {"held": self._held, "runs": runs}, indent=1)

    def last_begun_s(self) -> float | None:
        """When the last run began that the schedule is counted from; None when there was none."""
        return next((run.started_s for run in self.runs() if run.outcome != "skipped"), None)


def _run(fields: dict[str, Any]) -> RunView:
    error = fields.get("error")
    return RunView(**{**fields, "error": None if error is None else ErrorView(**error)})
