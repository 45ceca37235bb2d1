"""Batches of the log that one run has planned, for the others to take as they are.

Each is a file of the folder that the runs share, named by where it begins and ends. It is complete or not there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cdc.source import Siblings
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import Cut
from connectors.mysql.server.positions import LogPosition

MOST_PLANS = 64
"""So many are kept: a run that is further behind plans for itself."""


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """A batch that begins no new table and changes none.

    Attributes:
        start, end: as the run that planned it has them.
        cuts: where its parts end; none when nothing in it concerns captured tables.
        tables: stands for the definitions that hold in it (`definitions_digest`).
        opened_s: when the server opened the file that it ends in, where the batch has come to that file.
    """

    start: MySqlOffset
    end: MySqlOffset
    cuts: tuple[Cut, ...]
    tables: str
    opened_s: int | None = None

    def after(self, start: MySqlOffset) -> SharedPlan | None:
        """The rest of it, for a run that is at `start`; None where that is not known to be the same log."""
        same = (start.server, start.files_ahead) == (self.start.server, self.start.files_ahead)
        known = (start.gtids is None) == (self.end.gtids is None)
        at_start = start.position == self.start.position
        if not same or not known or (at_start and start.gtids != self.start.gtids):
            return None
        end = replace(start, position=self.end.position, gtids=self.end.gtids)
        left = (cut for cut in self.cuts if replace(end, position=cut[0]).sequence > start.sequence)
        return replace(self, start=start, end=end, cuts=tuple(left))


class Plans:
    """The planned batches of all runs. Stream reader process. What cannot be written or read is not there."""

    def __init__(self, siblings: Siblings) -> None:
        self._folder, self._name = siblings.folder / "plans", siblings.name

    def publish(self, plan: SharedPlan) -> None:
        """Let the others have a plan. Repeatable."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            made = self._folder / f"{self._name}.new"
            made.write_text(json.dumps(_fields(plan)))
            made.replace(self._folder / f"{plan.start.sequence:020d}-{plan.end.sequence:020d}")
            for _, _, name in self._listed()[:-MOST_PLANS]:
                (self._folder / name).unlink(missing_ok=True)
        except OSError:
            return

    def at(self, start: MySqlOffset, tables: str) -> SharedPlan | None:
        """The plan of another run, or the rest of it, that goes on at `start`."""
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
        """Where each begins and ends, in the order of their beginnings."""
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
            return _plan(json.loads(Path(self._folder, name).read_bytes()))
        except (OSError, ValueError, LookupError, TypeError):
            return None


def _fields(plan: SharedPlan) -> dict[str, Any]:
    cuts = [[at.file, at.position, gtids] for at, gtids in plan.cuts]
    return {
        "start": plan.start.to_json(), "end": plan.end.to_json(), "cuts": cuts, "tables": plan.tables,
        "opened_s": plan.opened_s,
    }  # fmt: skip


def _plan(fields: dict[str, Any]) -> SharedPlan:
    cuts: Sequence[Any] = fields["cuts"]
    return SharedPlan(
        MySqlOffset.from_json(fields["start"]), MySqlOffset.from_json(fields["end"]),
        tuple((LogPosition(file, position), gtids) for file, position, gtids in cuts),
        fields["tables"], fields["opened_s"],
    )  # fmt: skip
