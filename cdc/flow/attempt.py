"""Schema changes that the sink takes are carried out, those that it refuses are left out, where that may be. Driver.

    <state>/attempted.json   {"batch": number, "digest": sha256 of the changes, "done": how many, "refused": [places],
                              "through": [sha256 of each that was carried out]}

All are tried together first: a sink plans them before it carries anything out. When one is refused they are tried one
after the other, and it is noted which are through, as changes of names do not show in the tables. What is through stays
so when the batch has other changes as it runs again, such as without those of a table that is left out now.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from cdc.errors import ChangeRefused, EngineError
from cdc.evolution.apply import apply_changes
from cdc.evolution.journal import digest
from cdc.flow.sink_schemas import Schemas
from cdc.schema import RenameTable, SchemaChange, TableCopied
from cdc.state.store import Store

log = logging.getLogger(__name__)

_FILE = "attempted.json"

_NOT_TWICE = (RenameTable, TableCopied)
"""Changes that do not show in the tables: whether they are through is known where they are carried out one by one."""

Apply = Callable[[Sequence[SchemaChange]], None]
"""Carries changes out. Raises ChangeRefused."""


class Tolerance(Protocol):
    """Which changes may be left out."""

    def without(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
        """Whether a change need not even be tried, where these before it were refused."""

    def tolerates(self, change: SchemaChange, error: ChangeRefused | EngineError) -> bool:
        """Whether a change that was refused may be left out. EngineError: it builds on one that was."""


class TryEvolve:
    """All: rows are fitted to the tables that there are, those of a table that is not created are left out."""

    def without(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
        """Every change is tried."""
        return False

    def tolerates(self, change: SchemaChange, error: ChangeRefused | EngineError) -> bool:
        """See the class."""
        return True


class Attempts:
    """Tries changes of a batch; repeatable after a crash, for the same batch and changes."""

    def __init__(self, store: Store, tolerance: Tolerance) -> None:
        self._store, self._tolerance = store, tolerance

    def apply(
        self, batch: int, before: Schemas, changes: Sequence[SchemaChange], apply: Apply
    ) -> tuple[list[SchemaChange], list[SchemaChange]]:
        """What was carried out and what was left out. `before` is the sink's tables before them.

        Raises ChangeRefused for what must not be left out, what `apply` raises.
        """
        noted = self._store.read_json(_FILE) or {}
        noted = noted if noted.get("batch") == batch else {}
        mine = noted.get("digest") == digest(changes)
        if not mine and not any(isinstance(change, _NOT_TWICE) for change in changes):
            try:
                apply(changes)
                return list(changes), []
            except ChangeRefused as error:
                log.info("schema changes are tried one by one: %s", error)
        return self._one_by_one(batch, before, changes, apply, noted if mine else {"through": noted.get("through", ())})

    def _one_by_one(
        self, batch: int, before: Schemas, changes: Sequence[SchemaChange], apply: Apply, noted: dict[str, Any]
    ) -> tuple[list[SchemaChange], list[SchemaChange]]:
        done, refused = int(noted.get("done", 0)), set(noted.get("refused", ()))
        schemas, left = dict(before), [change for place, change in enumerate(changes) if place in refused]
        through = _places(changes, noted.get("through", ()))
        for place, change in enumerate(changes):
            if place < done or place in through:
                schemas = schemas if place in refused else apply_changes(schemas, [change])
                continue
            try:
                if self._tolerance.without(change, left):
                    refused.add(place)
                else:
                    after = apply_changes(schemas, [change])
                    apply([change])
                    schemas = after
                    through.add(place)
            except (ChangeRefused, EngineError) as error:
                if not self._tolerance.tolerates(change, error):
                    raise
                log.warning("%s: the sink does not take a schema change: %s", change.table, error)
                refused.add(place)
                left.append(change)
            carried_out = [digest([changes[each]]) for each in sorted(through)]
            note = {"batch": batch, "digest": digest(changes), "done": place + 1, "refused": sorted(refused)}
            self._store.write_json(_FILE, {**note, "through": carried_out})
        accepted = [change for place, change in enumerate(changes) if place not in refused]
        return accepted, [change for place, change in enumerate(changes) if place in refused]


def _places(changes: Sequence[SchemaChange], through: Sequence[str]) -> set[int]:
    """Where in these changes those are that were carried out before, in the same order."""
    found, left = set[int](), list(through)
    for place, change in enumerate(changes):
        if (name := digest([change])) in left:
            del left[: left.index(name) + 1]
            found.add(place)
    return found
