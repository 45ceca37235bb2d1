"""Batches of the log planned by one run, shared with the others.

Each is a file of the runs' shared folder, named by its begin and end. A file is complete or does not exist.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from cdc.source import Siblings
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import Cut

MOST_PLANS = 64
"""Number of plans kept: a run that is further behind plans for itself."""


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """A batch without new or changed tables.

    Attributes:
        start, end: the offsets of the run that planned it.
        bounds: where its first part begins, and the end of each; none when nothing in it concerns captured tables.
        tables: digest of the definitions valid in it (`Schemas.digest`).
        opened_s: when the server opened the file that the batch ends in, if the batch has reached it first.
    """

    start: MySqlOffset
    end: MySqlOffset
    bounds: tuple[Cut, ...]
    tables: str
    opened_s: int | None = None

    def after(self, start: MySqlOffset) -> SharedPlan | None:
        """Return the rest of it, for a run at `start`; None unless it is known to be the same log."""
        same = (start.server, start.files_ahead) == (self.start.server, self.start.files_ahead)
        known = (start.gtids is None) == (self.end.gtids is None)
        at_start = start.position == self.start.position
        if not same or not known or (at_start and start.gtids != self.start.gtids):
            return None
        end = replace(start, position=self.end.position, gtids=self.end.gtids)
        left = tuple(cut for cut in self.bounds if replace(end, position=cut[0]).sequence > start.sequence)
        if left and left != self.bounds:  # it begins inside a part, or where one begins
            left = ((start.position, start.gtids), *left)
        return replace(self, start=start, end=end, bounds=left)


_PLAN = TypeAdapter(SharedPlan)


class Plans:
    """The planned batches of all runs. Stream reader process.

    Errors of reading or writing mean that there is no plan.
    """

    def __init__(self, siblings: Siblings) -> None:
        self._folder, self._name = siblings.folder / "plans", siblings.name

    def publish(self, plan: SharedPlan) -> None:
        """Publish a plan. Repeatable."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            made = self._folder / f"{self._name}.new"
            made.write_bytes(_PLAN.dump_json(plan))
            made.replace(self._folder / f"{plan.start.sequence:020d}-{plan.end.sequence:020d}")
            for _, _, name in self._listed()[:-MOST_PLANS]:
                (self._folder / name).unlink(missing_ok=True)
        except OSError:
            return

    def at(self, start: MySqlOffset, tables: str) -> SharedPlan | None:
        """Return the plan of another run, or the rest of it, that continues at `start`."""
        here = start.sequence
        for first, last, name in reversed(self._listed()):
            if not first <= here < last:
                continue
            plan = self._read(name)
            rest = plan.after(start) if plan is not None and plan.tables == tables else None
            if rest is not None:
                return rest
        return None

    def _listed(self) -> list[tuple[int, int, str]]:
        """Return begin, end and name of each plan, sorted by begin."""
        found = []
        try:
            for name in os.listdir(self._folder):
                first, _, last = name.partition("-")
                if first.isdigit() and last.isdigit():
                    found.append((int(first), int(last), name))
        except OSError:
            return []
        return sorted(found)

    def _read(self, name: str) -> SharedPlan | None:
        try:
            return _PLAN.validate_json(Path(self._folder, name).read_bytes())
        except (OSError, ValueError):
            return None
