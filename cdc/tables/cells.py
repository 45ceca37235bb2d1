"""Parts of the transition table: cases, and the names of conditions, operations and notices. Data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc.tables.states import TableState


@dataclass(frozen=True, slots=True)
class Case:
    """One way on.

    Attributes:
        when: names of `CONDITIONS`, each perhaps after `not `; all have to hold.
        to: the next state; None: it stays.
        do: names of `OPERATIONS`, in order.
        notice: name of a notice in `NOTICES`.
    """

    when: tuple[str, ...]
    to: TableState | None = None
    do: tuple[str, ...] = ()
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Impossible:
    """No event of the kind comes in the state, and why."""

    why: str


Cell = tuple[Case, ...] | Impossible

CONDITIONS: Mapping[str, str] = {
    "merged": "several source tables go to the sink table, or went there",
    "last": "no other source table goes to the sink table",
    "shared": "several source tables go to one of the sink tables of the source table",
    "there": "the sink table is there",
    "keyed": "the sink table has a key",
    "shadowed": "the sink table has a shadow table",
    "stale": "rows of the source table from an earlier time are in the sink table",
    "grows": "the event gives the sink table other columns or another key",
    "lacks": "the sink table lacks columns of the source table, and the policy lets columns be added",
    "mirrors": "the policy lets rows go from the sink as they are gone from the source",
    "all again": "all source tables of the sink table can be snapshotted again, into one shadow table",
    "allowed": "the policy carries changes of this kind out",
    "carried out": "the policy carries the event out",
    "delete": "the route says `shard-gone: delete`, and the policy mirrors",
    "exchanges": "columns of the table exchange names",
    "comment": "only the comment of the table is another one",
    "by snapshot": "the rows of the created table come by a snapshot",
    "by statement": "a statement in the source's log has created the table",
    "uncertain": "the log does not tell the rows after the event",
    "same rows": "there are the same rows by their key after the event, with other values",
    "rekeyed": "the event gives the table another key, or a column of its key another type",
    "gap": "a part of the log is lost",
    "keys certain": "the log tells which keys there are, and no snapshot was ordered before",
    "void before": "the snapshot before was void in an earlier batch, and rows came since",
    "paused": "the source table is paused",
    "resumed": "the source table is resumed, and its snapshot has not begun",
    "same table": "the new name of the source table goes to the same sink table",
    "sharded": "the rows have the name of the source table in a column",
    "follows": "the sink table is renamed with the source table",
    "exact": "the policy carries every change out as it is",
    "occupied": "the sink table is new to the pipeline, and holds rows",
    "rows refused": "`pipeline.existing-rows` is `fail`, or `upsert` for a table without a key",
    "replaces": "`pipeline.existing-rows` is `replace`",
    "curable": "a re-snapshot includes the refused change, and the source makes one",
}
"""What cases ask about, in words."""

OPERATIONS: Mapping[str, str] = {
    "create": "CreateTable, or make the sink table that is there fit",
    "alter": "the change, as the behavior says",
    "widen": "make the sink table wide enough for this source table too",
    "check key": "the run stops where rows of the source tables could not be told apart by their keys",
    "check policy": "with the behavior `exception` the run stops",
    "create shadow": "CreateShadow, empty; the other source tables are snapshotted again, too",
    "create new shadow": "CreateShadow with the schema that the source table has now",
    "drop shadow": "DropShadow",
    "leave shadow": "the shadow table goes on without this source table: DropShadow where no other goes there, "
    "CreateShadow where it has rows of it",
    "swap": "SwapShadow, once no source table of the sink table waits for a snapshot or has one",
    "truncate": "TruncateTable, as the behavior says",
    "empty": "TruncateTable",
    "drop": "DropTable, as the behavior says",
    "rename": "RenameTable",
    "rename pair": "the state goes to the new name",
    "create renamed": "the table of the new name is created as any other, and keeps this state",
    "remember rows": "rows of the source table stay in the sink table, and are stale",
    "stop": "the run stops, with the reason and the way out",
}
"""What cases do, in words."""

NOTICES: Mapping[str, str] = {
    "missing": "{change}: the sink has no such table",
    "rows stay": "{change} of {source}: its rows stay, other tables go there too",
    "not all": "{change} of {source}: its rows stay, not all tables that go there can be snapshotted again",
    "held back": "{change} of {source} is held back until a re-snapshot brings it: {reason}",
    "overwritten": "snapshot.overwrites {source}: it is written over the rows that are there, those gone from it stay"
    "{why}",
    "occupied": "rows.kept {source}: rows were here before its snapshot, and those that it does not have stay "
    "(pipeline.existing-rows)",
    "found": "rows.kept {source}: rows were here before it was created, and stay (pipeline.existing-rows)",
    "replaced": "rows.replaced {source}: rows were here before its snapshot, which takes their place once it is whole",
    "emptied": "rows.replaced {source}: rows were here before it was created, and are taken out",
    "routed": "route.moved {source}: it goes here from now on, and is re-snapshotted for that",
    "unrouted": "route.moved {source}: it goes elsewhere from now on, its rows stay here as they are",
    "left": "table.left {source}: its rows stay here as they are, {reason}",
    "pause": "table.paused {source}: its rows stay as they are until it is resumed",
    "not paused": "table.paused {source}: it goes on, as other tables go there too",
    "rename": "rename.table {source} to {new}: the rows that are there stay{where}, {reason}",
    "late": "rename.table {source} to {new}: it is created without the rows from before, for which the sink had no "
    "table: `cdc resync FILE {new}` brings them",
    "unfit": "rows.unfit {source}: columns were left out here before, a re-snapshot brings them",
    "refused": "{change}: the sink refuses it, a re-snapshot brings it: {reason}",
}
"""Notices; the first word is what they are counted under."""

CARRIED_OUT = frozenset({"occupied", "found", "replaced", "emptied", "routed", "unrouted", "pause", "left", "unfit"})
"""Notices that tell of what is carried out, and not of what is held back."""

AS_REQUESTED = frozenset({"overwritten"})
"""Notices that tell of what is carried out where a user has asked for it, and the behavior lets no rows go; else of
what is held back."""


def case(*when: str, to: TableState | None = None, do: Iterable[str] = (), notice: str = "") -> Case:
    """A `Case`."""
    return Case(when, to, tuple(do), notice)
