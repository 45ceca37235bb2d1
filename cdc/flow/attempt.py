"""Schema changes that the sink takes are carried out, those that it refuses are left out, where that may be. Driver.

    <state>/attempted.jsonl   what became of each: {"batch": number, "digest": sha256 of all changes of the batch,
                               "place": among them, "name": sha256 of the change, "refused": true or false};
                               of a CreateTable also "creates": its table;
                               of one that is taken back {"batch": number, "name": sha256, "undone": true}

All are tried together first: a sink plans them before it carries anything out. When one is refused they are tried one
after the other, and it is noted which are through, as changes of names do not show in the tables. What is through stays
so when the batch has other changes as it runs again, such as without those of a table that is left out now; but tables
get their names back that it does not rename any more. Names that are exchanged twice in a row are tried in one call: a
sink takes a second call of the same batch for the first one.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import takewhile
from typing import Any, Protocol

from cdc.errors import ChangeRefused, EditRefused, EngineError
from cdc.evolution.apply import apply_changes
from cdc.evolution.journal import digest
from cdc.schema import (
    CreateShadow,
    CreateTable,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
)
from cdc.schema_json import change_name
from cdc.state.store import Store
from cdc.tables.entry import Try
from cdc.tables.states import Schemas

log = logging.getLogger(__name__)

_LOG = "attempted.jsonl"

_NOT_TWICE = (RenameColumn, RenameColumns, RenameTable, SwapShadow)
"""Changes that must not be tried again with those before them: a column or a table has its old name no more, or another
one has it now. Whether they are through is known where they are carried out one by one."""

Renames = Sequence[tuple[TableId, TableId]]
"""Sink tables that get another name, each with that, in order."""

Missing = Callable[[Sequence[TableId]], Sequence[TableId] | None]
"""The tables of these that the sink has not; None where it cannot be looked at."""

Apply = Callable[[Sequence[SchemaChange]], None]
"""Carries changes out. Raises ChangeRefused."""


def try_of(operations: Sequence[SchemaChange]) -> Try:
    """The operations that the sink is asked for, as the log of tables has them."""
    if not operations:
        return Try()
    renames = tuple((each.table, each.new_table) for each in operations if isinstance(each, RenameTable))
    return Try(tuple((change_name(each), each.table) for each in operations), digest(operations), renames)


class Tolerance(Protocol):
    """A judgement of which changes may be left out."""

    def can_skip(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
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
        tried = _Tried(self._store, batch, changes)
        if not tried.begun and not any(isinstance(change, _NOT_TWICE) for change in changes):
            try:
                apply(changes)
                return list(changes), []
            except ChangeRefused as error:
                log.info("schema changes are tried one by one: %s", error)
        return self._one_by_one(before, changes, apply, tried)

    def _one_by_one(
        self, before: Schemas, changes: Sequence[SchemaChange], apply: Apply, tried: _Tried
    ) -> tuple[list[SchemaChange], list[SchemaChange]]:
        schemas, refused = dict(before), tried.refused
        left = [change for place, change in enumerate(changes) if place in refused]
        for run in _runs(changes, tried.elsewhere):
            change = changes[run[0]]
            if all(place in refused or place in tried.through for place in run):
                schemas = apply_changes(schemas, [change for place in run if place not in refused])
                continue
            lost = self._tolerance.can_skip(change, left)
            try:
                if not lost:
                    after = apply_changes(schemas, [change] * len(run))
                    apply([change] * len(run))
                    schemas = after
            except (ChangeRefused, EngineError) as error:
                of_the_state = isinstance(error, EngineError) and type(error) is not EngineError
                if of_the_state or not self._tolerance.tolerates(change, error):
                    raise
                log.warning("%s: the sink does not take a schema change: %s", change.table, error)
                left.append(change)
                lost = True
            for place in run:
                tried.note(place, refused=lost)
        accepted = [change for place, change in enumerate(changes) if place not in refused]
        return accepted, [change for place, change in enumerate(changes) if place in refused]


def _runs(changes: Sequence[SchemaChange], through: Set[int]) -> list[list[int]]:
    """Places of changes that are tried in one call: exchanges of names that are equal and in a row; else each alone.

    `through` are places that another list of changes has behind it: the call for the others is without them.
    """
    found: list[list[int]] = []
    for place, change in enumerate(changes):
        before = found[-1][-1] if found else place
        joins = isinstance(change, RenameColumns) and before < place and changes[before] == change
        if joins and (before in through) == (place in through):
            found[-1].append(place)
        else:
            found.append([place])
    return found


def undo_renames(store: Store, batch: int, renames: Renames, missing: Missing, apply: Apply) -> None:
    """Take back what one try of the batch has carried out of these renames, the last one first. Repeatable.

    A table that the batch has created under a name that a rename had left goes for that: its rows are not decided.

    Raises EditRefused for one that cannot be taken back, what `apply` raises.
    """
    tried = _Tried(store, batch, ())
    changes = [RenameTable(table, new) for table, new in renames]
    noted = len(list(takewhile(tried.has_noted, changes)))
    for place, change in reversed([*enumerate(changes[: noted + 1])]):  # the one behind those may be through, too
        gone = missing((change.table, change.new_table))
        if gone is None:
            return
        if not gone and place < noted and tried.has_created_behind(change):
            apply([DropTable(change.table)])
            gone = [change.table]
        if [*gone] == [change.table]:
            tried.note_undone(change)
            apply([RenameTable(change.new_table, change.table)])
        elif place < noted and [*gone] != [change.new_table]:
            raise _not_undone(change)


def _not_undone(change: RenameTable) -> EditRefused:
    return EditRefused(
        f"it was renamed to {change.new_table} for a batch that is not decided, which does so no more by the file of "
        "now, and its name is not free",
        where=str(change.table),
        hint="take the edit back for as long as that batch takes",
    )


class _Tried:
    """The changes of a batch so far, carried out and refused, on disk.

    Attributes:
        begun: some of these very changes were tried one by one.
        refused, through: places of those that were left out, and of those carried out. The latter have also
            `elsewhere`: what was carried out as one of other changes, in the same order.
    """

    def __init__(self, store: Store, batch: int, changes: Sequence[SchemaChange]) -> None:
        self._log = store.log(_LOG, "log of schema changes that were tried")
        self._mark = {"batch": batch, "digest": digest(changes)}
        self._names = [digest([change]) for change in changes]
        self._creates = {at: str(each.table) for at, each in enumerate(changes) if isinstance(each, CreateTable)}
        entries = self._log.items()
        if entries and entries[0]["batch"] != batch:
            self._log.truncate(0)
            entries = ()
        self._valid = _without_undone(entries)
        mine = [entry for entry in self._valid if entry["digest"] == self._mark["digest"]]
        others = [e["name"] for e in self._valid if e["digest"] != self._mark["digest"] and not e["refused"]]
        self.begun = bool(mine)
        self.refused = {entry["place"] for entry in mine if entry["refused"]}
        own = {entry["place"] for entry in mine}
        self.elsewhere = _places(self._names, others, own) - _shadows_begun(changes)
        self.through = (own - self.refused) | self.elsewhere

    def note(self, place: int, *, refused: bool) -> None:
        """One more was tried."""
        (self.refused if refused else self.through).add(place)
        entry = {**self._mark, "place": place, "name": self._names[place], "refused": refused}
        self._log.append(entry | ({"creates": self._creates[place]} if place in self._creates else {}))

    def has_noted(self, change: SchemaChange) -> bool:
        """Whether a change was carried out, as one of whatever changes."""
        name = digest([change])
        return any(entry["name"] == name and not entry["refused"] for entry in self._valid)

    def has_created_behind(self, rename: RenameTable) -> bool:
        """Whether a table was created under the old name of a rename that was carried out."""
        place = _last_place(self._valid, digest([rename]))
        return place is not None and any(_creates(entry, rename.table) for entry in self._valid[place:])

    def note_undone(self, rename: RenameTable) -> None:
        """A rename that was carried out is about to be taken back: the table of its old name is gone by then."""
        entry = {"batch": self._mark["batch"], "name": digest([rename]), "undone": True, "creates": str(rename.table)}
        self._log.append(entry)


def _creates(entry: Mapping[str, Any], table: TableId) -> bool:
    return entry.get("creates") == str(table) and not entry["refused"]


def _last_place(entries: Sequence[Mapping[str, Any]], name: str) -> int | None:
    """The place of the last entry of a change that was carried out."""
    return max((at for at, each in enumerate(entries) if each["name"] == name and not each["refused"]), default=None)


def _without_undone(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries but for those of changes that were taken back."""
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        if "undone" not in entry:
            found.append(entry)
            continue
        place = _last_place(found, entry["name"])
        if place is not None:
            gone = TableId.parse(entry["creates"]) if "creates" in entry else None
            behind = [each for each in found[place + 1 :] if gone is None or not _creates(each, gone)]
            found[place:] = behind
    return found


def _shadows_begun(changes: Sequence[SchemaChange]) -> set[int]:
    """Places where shadow tables begin, and of their swaps: another list may have swapped in what it began."""
    begun, found = set[TableId](), set[int]()
    for place, change in enumerate(changes):
        if isinstance(change, CreateShadow) or (isinstance(change, SwapShadow) and change.table in begun):
            begun.add(change.table)
            found.add(place)
    return found


def _places(names: Sequence[str], through: Sequence[str], but: Set[int]) -> set[int]:
    """Where among these digests of changes, but for some places, those are that were carried out, in the same order."""
    at: dict[str, list[int]] = {}
    for place, name in enumerate(through):
        at.setdefault(name, []).append(place)
    found, first = set[int](), 0
    for place, name in enumerate(names):
        places = () if place in but else at.get(name, ())
        index = bisect_left(places, first)
        if index < len(places):
            first = places[index] + 1
            found.add(place)
    return found
