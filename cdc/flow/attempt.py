"""Apply a batch's schema changes to the sink, and skip those it refuses where the policy allows that. Driver.

    <state>/attempted.jsonl   the result of each: {"batch": number, "digest": sha256 of all changes of the batch,
                               "place": index among them, "name": sha256 of the change, "refused": true or false};
                               a CreateTable also has "creates": its table, a DropTable "drops";
                               an AddColumn "adds": [table, column], a DropColumn "removes";
                               an undone change is {"batch": number, "name": sha256, "undone": true};
                               one about to be applied is {"batch": number, "name": sha256, "begun": times}

All changes are tried in one call first: a sink plans them before it applies any. If one is refused, they are tried one
by one and each result is noted, because a rename cannot be recognized in the tables afterwards. A noted result stays
valid when the batch runs again with other changes, for example without those of a table that is excluded now; renames
that the batch no longer contains are undone. Swaps of column names that follow each other are tried in one call: a sink
takes a second call in the same batch for a repeat of the first.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import takewhile
from typing import Any

from cdc.errors import ChangeRefused, EditRefused, EngineError
from cdc.evolution.apply import apply_changes
from cdc.evolution.journal import digest
from cdc.flow.refusal_judge import RefusalJudge
from cdc.flow.tries import Renames
from cdc.schema import (
    AddColumn,
    CreateShadow,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
)
from cdc.state.store import Store
from cdc.tables.states import Schemas

log = logging.getLogger(__name__)

_LOG = "attempted.jsonl"

_NOT_TWICE = (RenameColumn, RenameColumns, RenameTable, SwapShadow)
"""Changes that must not be applied twice: the old name is gone by then, or belongs to another table or column. They are
tried one by one, so that it is known which are applied."""

Missing = Callable[[Sequence[TableId]], Sequence[TableId] | None]
"""Returns those of the tables that the sink does not have; None if that cannot be queried."""

Apply = Callable[[Sequence[SchemaChange]], None]
"""Applies changes to the sink. Raises ChangeRefused."""


class Attempts:
    """Tries the changes of a batch; repeatable after a crash for the same batch and changes."""

    def __init__(self, store: Store, judge: RefusalJudge) -> None:
        self._store, self._judge = store, judge

    def apply(
        self, batch: int, before: Schemas, changes: Sequence[SchemaChange], apply: Apply
    ) -> tuple[list[SchemaChange], list[SchemaChange]]:
        """Apply the changes; return those applied and those skipped. `before` is the sink's tables before them.

        Raises ChangeRefused for a change that must not be skipped, what `apply` raises.
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
        remaining = [change for index, change in enumerate(changes) if index in refused]
        for run in tried.pending_first(_runs(changes, tried.elsewhere)):
            change = changes[run[0]]
            if all(index in refused or index in tried.through for index in run):
                schemas = apply_changes(schemas, [change for index in run if index not in refused])
                continue
            lost = self._judge.can_skip(change, remaining)
            try:
                if not lost:
                    after = apply_changes(schemas, [change] * len(run))
                    if isinstance(change, _NOT_TWICE):
                        tried.note_begun(run)
                    apply([change] * len(run))
                    schemas = after
            except (ChangeRefused, EngineError) as error:
                of_the_state = isinstance(error, EngineError) and type(error) is not EngineError
                if of_the_state or not self._judge.tolerates(change, error):
                    raise
                log.warning("%s: the sink does not take a schema change: %s", change.table, error)
                remaining.append(change)
                lost = True
            for index in run:
                tried.note(index, refused=lost)
        accepted = [change for index, change in enumerate(changes) if index not in refused]
        return accepted, [change for index, change in enumerate(changes) if index in refused]


def _runs(changes: Sequence[SchemaChange], through: Set[int]) -> list[list[int]]:
    """Group the indexes of changes into calls: equal swaps of column names in a row together, all others alone.

    `through` are indexes that were applied as part of another list of changes; they share no call with the others.
    """
    found: list[list[int]] = []
    for index, change in enumerate(changes):
        before = found[-1][-1] if found else index
        joins = isinstance(change, RenameColumns) and before < index and changes[before] == change
        if joins and (before in through) == (index in through):
            found[-1].append(index)
        else:
            found.append([index])
    return found


def undo_renames(store: Store, batch: int, renames: Renames, missing: Missing, apply: Apply) -> None:
    """Undo those of these renames that an earlier try of the batch applied, the last one first. Repeatable.

    A table that the batch created under the old name of a rename is dropped for that: its rows are not decided yet. One
    that it created, renamed and dropped is left as it is.

    Raises EditRefused for a rename that cannot be undone, what `apply` raises.
    """
    tried = _Tried(store, batch, ())
    changes = [RenameTable(table, new) for table, new in renames]
    noted = len(list(takewhile(tried.has_noted, changes)))
    for index, change in reversed([*enumerate(changes[: noted + 1])]):  # the next one may be applied, not yet noted
        missing_tables = missing((change.table, change.new_table))
        if missing_tables is None:
            return
        if tried.has_dropped_after(change):
            if tried.has_created_before(change):
                continue
            raise _not_undone(change, "it was dropped there, with its rows")
        if not missing_tables and index < noted and tried.has_created_after(change):
            apply([DropTable(change.table)])
            missing_tables = [change.table]
        if [*missing_tables] == [change.table]:
            tried.note_undone(change)
            apply([RenameTable(change.new_table, change.table)])
        elif index < noted and [*missing_tables] != [change.new_table]:
            raise _not_undone(change, "the old name is in use")
        elif index == noted and [*missing_tables] == [change.new_table] and tried.is_pending(change):
            tried.note_undone(change)


def _not_undone(change: RenameTable, reason: str) -> EditRefused:
    return EditRefused(
        f"it was renamed to {change.new_table} in a batch that is not decided; the edited file has no such rename any "
        f"more, and {reason}",
        where=str(change.table),
        hint="revert the edit until that batch is committed",
    )


class _Tried:
    """The changes of a batch that were applied or refused so far, on disk.

    Attributes:
        begun: whether some changes of exactly this list were tried one by one.
        refused, through: indexes of the changes that were skipped, and of those that were applied. The latter include
            `elsewhere`: changes that were applied as part of another list.
    """

    def __init__(self, store: Store, batch: int, changes: Sequence[SchemaChange]) -> None:
        self._log = store.log(_LOG, "log of schema changes that were tried")
        self._mark = {"batch": batch, "digest": digest(changes)}
        self._names = [digest([change]) for change in changes]
        self._changes = changes
        entries = self._log.items()
        if entries and entries[0]["batch"] != batch:
            self._log.truncate(0)
            entries = ()
        last = entries[-1] if entries else {}
        self._pending = (last["name"], last["begun"]) if "begun" in last else None
        self._valid = _without_undone([entry for entry in entries if "begun" not in entry])
        same_digest = [entry for entry in self._valid if entry["digest"] == self._mark["digest"]]
        done = [entry for entry in self._valid if entry["digest"] != self._mark["digest"] and not entry["refused"]]
        others = [entry["name"] for entry in _without_reversed(done)]
        self.begun = bool(same_digest)
        self.refused = {entry["place"] for entry in same_digest if entry["refused"]}
        positions = {entry["place"] for entry in same_digest}
        elsewhere = _matching_indexes(self._names, others, positions) - _shadows_begun(changes)
        self.elsewhere = elsewhere - _of_later_tables(changes, elsewhere | positions)
        self.through = (positions - self.refused) | self.elsewhere

    def pending_first(self, runs: Sequence[list[int]]) -> Sequence[list[int]]:
        """The calls, with the one that a crash may have interrupted before all others that are to be made."""
        pending = [
            run for run in runs if (self._names[run[0]], len(run)) == self._pending and run[0] not in self.through
        ]
        done = [run for run in runs if self.through.issuperset(run)] if pending else []
        return [*done, *pending[:1], *(run for run in runs if run not in done and run not in pending[:1])]

    def note_begun(self, run: Sequence[int]) -> None:
        """Note that the changes of a call are about to be applied."""
        self._log.append({"batch": self._mark["batch"], "name": self._names[run[0]], "begun": len(run)})

    def note(self, index: int, *, refused: bool) -> None:
        """Note the result of a change."""
        (self.refused if refused else self.through).add(index)
        entry = {**self._mark, "place": index, "name": self._names[index], "refused": refused}
        self._log.append(entry | _made_or_gone(self._changes[index]))

    def is_pending(self, change: SchemaChange) -> bool:
        """Whether a crash may have interrupted this change."""
        return self._pending == (digest([change]), 1)

    def has_noted(self, change: SchemaChange) -> bool:
        """Whether a change was applied, as part of any list of changes."""
        name = digest([change])
        return any(entry["name"] == name and not entry["refused"] for entry in self._valid)

    def has_created_after(self, rename: RenameTable) -> bool:
        """Whether a table was created under the old name of a rename after it was applied."""
        return any(_creates(entry, rename.table) for entry in self._since(rename))

    def has_created_before(self, rename: RenameTable) -> bool:
        """Whether the batch has created a table under the old name of an applied rename before it."""
        index = _last_place(self._valid, digest([rename]))
        return any(_creates(entry, rename.table) for entry in self._valid[:index])

    def has_dropped_after(self, rename: RenameTable) -> bool:
        """Whether a table was dropped under the new name of a rename after it was applied."""
        return any(each.get("drops") == str(rename.new_table) and not each["refused"] for each in self._since(rename))

    def _since(self, rename: RenameTable) -> Sequence[Mapping[str, Any]]:
        index = _last_place(self._valid, digest([rename]))
        return () if index is None else self._valid[index:]

    def note_undone(self, rename: RenameTable) -> None:
        """Note that an applied rename is about to be undone; the table under its old name is already dropped."""
        entry = {"batch": self._mark["batch"], "name": digest([rename]), "undone": True, "creates": str(rename.table)}
        self._log.append(entry)


def _made_or_gone(change: SchemaChange) -> dict[str, Any]:
    """The additional field in the entry of a change that makes or removes a table or a column."""
    match change:
        case CreateTable(table=table):
            return {"creates": str(table)}
        case DropTable(table=table):
            return {"drops": str(table)}
        case AddColumn(table=table, column=column):
            return {"adds": [str(table), column.name]}
        case DropColumn(table=table, name=name):
            return {"removes": [str(table), name]}
    return {}


_REVERSED = {"drops": "creates", "removes": "adds"}


def _without_reversed(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries without those that made what a later one removed, and without the latter: both count for nothing."""
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        made = [(made, entry[gone]) for gone, made in _REVERSED.items() if gone in entry]
        places = [at for at, each in enumerate(found) for name, what in made if each.get(name) == what]
        if places:
            del found[places[-1]]
        else:
            found.append(entry)
    return found


def _creates(entry: Mapping[str, Any], table: TableId) -> bool:
    return entry.get("creates") == str(table) and not entry["refused"]


def _last_place(entries: Sequence[Mapping[str, Any]], name: str) -> int | None:
    """The index of the last entry that says the change was applied."""
    return max((at for at, each in enumerate(entries) if each["name"] == name and not each["refused"]), default=None)


def _without_undone(entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries without those of undone changes."""
    found: list[Mapping[str, Any]] = []
    for entry in entries:
        if "undone" not in entry:
            found.append(entry)
            continue
        index = _last_place(found, entry["name"])
        if index is not None:
            created = TableId.parse(entry["creates"]) if "creates" in entry else None
            later = [each for each in found[index + 1 :] if created is None or not _creates(each, created)]
            found[index:] = later
    return found


def _shadows_begun(changes: Sequence[SchemaChange]) -> set[int]:
    """Indexes where shadow tables are created and swapped in: another list may have swapped in its own."""
    started, found = set[TableId](), set[int]()
    for index, change in enumerate(changes):
        if isinstance(change, CreateShadow) or (isinstance(change, SwapShadow) and change.table in started):
            started.add(change.table)
            found.add(index)
    return found


def _of_later_tables(changes: Sequence[SchemaChange], done: Set[int]) -> set[int]:
    """Indexes of changes to tables that get their names only by changes of the list that are not done yet.

    What was done under such a name before was done to another table.
    """
    later, found = set[TableId](), set[int]()
    for index, change in enumerate(changes):
        if change.table in later:
            found.add(index)
        if change.table in later or index not in done:
            if isinstance(change, RenameTable):
                later.add(change.new_table)
            elif isinstance(change, DropTable):
                later.add(change.table)
    return found


def _matching_indexes(names: Sequence[str], through: Sequence[str], but: Set[int]) -> set[int]:
    """Indexes in `names`, except those in `but`, of digests that occur in `through`, each as often as there.

    The order of different ones does not matter: a later list may have further changes before those of an earlier one.
    """
    left, found = Counter(through), set[int]()
    for index, name in enumerate(names):
        if index not in but and left[name]:
            left[name] -= 1
            found.add(index)
    return found
