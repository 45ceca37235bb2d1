"""Schema changes that the sink takes are carried out, those that it refuses are left out, where that may be. Driver.

    <state>/attempted.json    {"batch": number, "digest": sha256 of the changes, "done": how many, "refused": [places],
                               "through": [sha256 of each that was carried out]}
    <state>/attempted.jsonl   what became of each since: {"batch": number, "digest": ..., "refused": true or false}

All are tried together first: a sink plans them before it carries anything out. When one is refused they are tried one
after the other, and it is noted which are through, as changes of names do not show in the tables. What is through stays
so when the batch has other changes as it runs again, such as without those of a table that is left out now.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cdc.errors import ChangeRefused, EngineError
from cdc.evolution.apply import apply_changes
from cdc.evolution.journal import digest
from cdc.schema import RenameTable, SchemaChange, SwapShadow
from cdc.state.append_log import AppendLog
from cdc.state.store import Store
from cdc.tables.states import Schemas

log = logging.getLogger(__name__)

_FILE = "attempted.json"
_LOG = "attempted.jsonl"

_NOT_TWICE = (RenameTable, SwapShadow)
"""Changes that do not show in the tables: whether they are through is known where they are carried out one by one."""

Apply = Callable[[Sequence[SchemaChange]], None]
"""Carries changes out. Raises ChangeRefused."""


class Tolerance(Protocol):
    """Which changes may be left out."""

    def without(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
        """Whether a change need not even be tried, where these before it were refused."""

    def tolerates(self, change: SchemaChange, error: ChangeRefused | EngineError) -> bool:
        """Whether a change that was refused may be left out. EngineError: it builds on one that was."""


class Attempts:
    """Tries changes of a batch; repeatable after a crash, for the same batch and changes."""

    def __init__(self, store: Store, tolerance: Tolerance) -> None:
        self._store, self._tolerance = store, tolerance

    def apply(
        self, batch: int, before: Schemas, changes: Sequence[SchemaChange], apply: Apply
    ) -> tuple[list[SchemaChange], list[SchemaChange]]:
        """The changes carried out and those left out. `before` is the sink's tables before them.

        Raises ChangeRefused for what must not be left out, what `apply` raises.
        """
        whole = digest(changes)
        noted = self._store.read_json(_FILE) or {}
        noted = noted if noted.get("batch") == batch else {}
        mine = noted.get("digest") == whole
        if not mine and not any(isinstance(change, _NOT_TWICE) for change in changes):
            try:
                apply(changes)
                return list(changes), []
            except ChangeRefused as error:
                log.info("schema changes are tried one by one: %s", error)
        names = [digest([change]) for change in changes]
        tried = _Tried(self._store, batch, whole, names, noted)
        return self._one_by_one(before, changes, apply, tried)

    def _one_by_one(
        self, before: Schemas, changes: Sequence[SchemaChange], apply: Apply, tried: _Tried
    ) -> tuple[list[SchemaChange], list[SchemaChange]]:
        schemas, refused = dict(before), tried.refused
        left = [change for place, change in enumerate(changes) if place in refused]
        for place, change in enumerate(changes):
            if place < tried.done or place in tried.through:
                schemas = schemas if place in refused else apply_changes(schemas, [change])
                continue
            lost = self._tolerance.without(change, left)
            try:
                if not lost:
                    after = apply_changes(schemas, [change])
                    apply([change])
                    schemas = after
            except (ChangeRefused, EngineError) as error:
                of_the_state = isinstance(error, EngineError) and type(error) is not EngineError
                if of_the_state or not self._tolerance.tolerates(change, error):
                    raise
                log.warning("%s: the sink does not take a schema change: %s", change.table, error)
                left.append(change)
                lost = True
            tried.note(place, refused=lost)
        accepted = [change for place, change in enumerate(changes) if place not in refused]
        return accepted, [change for place, change in enumerate(changes) if place in refused]


class _Tried:
    """The changes of a batch so far, carried out and refused, on disk.

    Attributes:
        done: all before this place were tried.
        refused, through: places of those that were left out, and of those carried out.
    """

    def __init__(self, store: Store, batch: int, whole: str, names: Sequence[str], noted: Mapping[str, Any]) -> None:
        self._log = store.log(_LOG, "log of schema changes that were tried")
        self._mark = {"batch": batch, "digest": whole}
        done, refused, through = _noted(self._log, noted)
        if noted.get("digest") != whole:
            done, refused = 0, set()
        self.done, self.refused = done, refused
        self.through = _places(names, through)
        self._names = names
        note = {**self._mark, "done": done, "refused": sorted(refused)}
        store.write_json(_FILE, {**note, "through": [names[place] for place in sorted(self.through)]})
        self._log.truncate(0)

    def note(self, place: int, *, refused: bool) -> None:
        """One more was tried."""
        (self.refused if refused else self.through).add(place)
        self._log.append({**self._mark, "place": place, "name": self._names[place], "refused": refused})


def _noted(tried: AppendLog, noted: Mapping[str, Any]) -> tuple[int, set[int], list[str]]:
    """How many changes were tried, the places of those that were refused, and the digests of those carried out."""
    done, refused, through = int(noted.get("done", 0)), set(noted.get("refused", ())), list(noted.get("through", ()))
    for entry in tried.items():
        if (entry["batch"], entry["digest"]) == (noted.get("batch"), noted.get("digest")) and entry["place"] >= done:
            done = entry["place"] + 1
            if entry["refused"]:
                refused.add(entry["place"])
            else:
                through.append(entry["name"])
    return done, refused, through


def _places(names: Sequence[str], through: Sequence[str]) -> set[int]:
    """Where among these digests of changes those are that were carried out before, in the same order."""
    at: dict[str, list[int]] = {}
    for place, name in enumerate(through):
        at.setdefault(name, []).append(place)
    found, first = set[int](), 0
    for place, name in enumerate(names):
        places = at.get(name, ())
        index = bisect_left(places, first)
        if index < len(places):
            first = places[index] + 1
            found.add(place)
    return found
