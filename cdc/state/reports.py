"""Reports of the source for attempts of tasks in which the sink commits the rows (`Delivery.COMMIT_IN_TASK`).

    <state>/notes/reports/<batch>-<partition>-<id>.json    {"reports": [...]}, as `Source.store_reports` takes them

A repeated task may read a table at a later moment than the attempt whose rows are committed. So the reports are saved
under an id before the commit, and the sink commits that id with the rows: a repeated task uses the reports of the
attempt that it finds committed. The decision on a batch removes its documents.

If rows of several attempts may be in the sink (at least once), the reports of a repeated task are widened to cover the
earliest moment at which an attempt may have read.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.errors import StateError
from cdc.state.store import Store

Report = dict[str, Any]

_NAME = re.compile(r"(\d+)-\d+-[0-9a-f]+\.json")


@dataclass(slots=True)
class AttemptReports:
    """The reports for one attempt of a task; the source appends to `reports`. Executor.

    `widened` returns the reports of a repeated task whose attempts may have left rows; None for a first attempt.
    """

    store: Store
    name: str
    reports: list[Report]
    widened: Callable[[Sequence[Report]], Sequence[Report]] | None = None
    _visible: bool = False

    @property
    def valid(self) -> list[Report]:
        """The reports that match the rows in the sink."""
        return list(self.widened(self.reports)) if self._visible and self.widened is not None else self.reports

    def note_visible(self) -> None:
        """Widen the reports: rows of every attempt stay in the sink."""
        self._visible = True

    def save(self) -> str:
        """Save the valid reports to disk; return their id, empty if there are none. Raises StateError."""
        if not self.reports:
            return ""
        id_ = secrets.token_hex(8)
        self.store.write_json(self._document(id_), {"reports": self.valid})
        return id_

    def restore(self, id_: str) -> None:
        """Use the reports saved under this id instead. Raises StateError if they are missing."""
        self._visible = False
        if not id_:
            self.reports = []
            return
        found = self.store.read_json(self._document(id_))
        if found is None:
            raise StateError(
                "the rows of a copy are in the sink, but the log position at which they were read is lost",
                where=self.store.where(self._document(id_)),
                hint="restore the newest state directory, or start over with another --state-dir and an empty sink",
            )
        self.reports = list(found["reports"])

    def _document(self, id_: str) -> str:
        return f"{self.name}-{id_}.json"


@dataclass(frozen=True, slots=True)
class Reports:
    """All saved reports of one pipeline. Picklable; `store` is the part of the state with the reports."""

    store: Store

    def of_attempt(
        self,
        batch: int,
        partition: int,
        reports: list[Report],
        widened: Callable[[Sequence[Report]], Sequence[Report]] | None = None,
    ) -> AttemptReports:
        """The reports for one attempt of a task. Executor."""
        return AttemptReports(self.store, f"{batch}-{partition}", reports, widened)

    def forget_decided(self, batch: int, reports: Sequence[Report]) -> None:
        """Remove the documents of a batch that is decided with these reports, and earlier ones.

        Driver, once the decision is on disk; repeatable. Raises StateError.
        """
        if not reports:
            return
        for name in self.store.names():
            if (match := _NAME.fullmatch(name)) and int(match[1]) <= batch:
                self.store.remove(name)
