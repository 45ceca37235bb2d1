"""Building blocks of the transition table: cases, and the conditions, operations and notices by name. Data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc.tables.states import TableState


@dataclass(frozen=True, slots=True)
class Case:
    """One transition.

    Attributes:
        when: names of `CONDITIONS` that all have to hold, each optionally with the prefix `not `.
        to: the next state; None: the state stays.
        do: names of `OPERATIONS`, in order.
        notice: name of a notice in `NOTICES`, empty for none.
    """

    when: tuple[str, ...]
    to: TableState | None = None
    do: tuple[str, ...] = ()
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Impossible:
    """An event that cannot occur in a state, and why."""

    why: str


Cell = tuple[Case, ...] | Impossible

CONDITIONS: Mapping[str, str] = {
    "merged": "several source tables are, or ever were, routed to the sink table",
    "last": "no other source table is routed to the sink table",
    "shared": "several source tables are routed to one of the sink tables of the source table",
    "there": "the sink table exists",
    "keyed": "the sink table has a key",
    "shadowed": "the sink table has a shadow table",
    "stale": "the sink table has outdated rows of the source table",
    "grows": "the event gives the sink table other columns or another key",
    "lacks": "the sink table lacks columns of the source table, and the policy adds columns",
    "mirrors": "the policy deletes rows from the sink that the source no longer has",
    "all again": "all source tables of the sink table can be re-snapshotted into one shadow table",
    "allowed": "the policy applies changes of this kind",
    "carried out": "the policy applies the event",
    "delete": "the route says `shard-gone: delete`, and the policy mirrors",
    "exchanges": "columns of the table swap their names",
    "comment": "only the comment of the table changes",
    "by snapshot": "the rows of the created table come from a snapshot",
    "by statement": "a statement in the source's log has created the table",
    "uncertain": "the rows after the event cannot be derived from the log",
    "same rows": "the table has the same keys after the event, with other values",
    "respelled": "a column that tells rows apart gets a type of which the sink stores equal values differently",
    "replaceable": "a snapshot of the table, or of all that go to the sink table, can replace all of its rows",
    "rekeyed": "the event changes the key, or the type of a key column, or the rules that compute rows",
    "gap": "a part of the log is lost",
    "keys certain": "the keys are known from the log, and no snapshot was requested before",
    "void before": "the previous snapshot was void in an earlier batch, and rows were written since",
    "paused": "the source table is paused",
    "resumed": "the source table is resumed, and its snapshot has not begun",
    "same table": "the new name of the source table is routed to the same sink table",
    "sharded": "a column of the rows has the name of the source table",
    "follows": "the sink table is renamed with the source table",
    "copied": "the sink table of a renamed table cannot be renamed, as rows of several tables are in it or in the new "
    "one, or a column has the name; the policy is exact and mirrors; the table is not paused and can be re-snapshotted",
    "exact": "the policy applies every change as it is",
    "occupied": "the sink table is new to the pipeline, and holds rows",
    "rows refused": "`pipeline.existing-rows` is `fail`, or `upsert` for a table without a key",
    "replaces": "`pipeline.existing-rows` is `replace`",
    "re-snapshot helps": "a re-snapshot includes the refused change, and the source makes one",
}
"""A description of each condition."""

OPERATIONS: Mapping[str, str] = {
    "create": "CreateTable, or adapt the existing sink table",
    "alter": "the change, as the behavior says",
    "widen": "widen the sink table so that it also fits this source table",
    "check key": "stop the run if rows of different source tables could have the same key",
    "check policy": "stop the run if the behavior is `exception`",
    "create shadow": "CreateShadow, empty; the other source tables are re-snapshotted, too",
    "create new shadow": "CreateShadow with the current schema of the source table",
    "drop shadow": "DropShadow",
    "leave shadow": "continue the shadow table without this source table: DropShadow if no other is routed there, "
    "CreateShadow if it has rows of this one",
    "swap": "SwapShadow, once no source table of the sink table has a pending or running snapshot",
    "truncate": "TruncateTable, as the behavior says",
    "empty": "TruncateTable",
    "drop": "DropTable, as the behavior says",
    "rename": "RenameTable",
    "rename pair": "move the state to the new name",
    "create renamed": "create the table of the new name, with this state",
    "remember rows": "keep the rows of the source table in the sink table, marked as stale",
    "stop": "stop the run, with the reason and the next step",
}
"""A description of each operation."""

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
"""Texts of notices; each is counted under its first word."""

CARRIED_OUT = frozenset({"occupied", "found", "replaced", "emptied", "routed", "unrouted", "pause", "left", "unfit"})
"""Notices about something that is done; the others are about a change that is held back."""

AS_REQUESTED = frozenset({"overwritten"})
"""Notices about something that is done if a user has requested it and the behavior deletes no rows; otherwise about a
change that is held back."""


def case(*when: str, to: TableState | None = None, do: Iterable[str] = (), notice: str = "") -> Case:
    """A `Case`."""
    return Case(when, to, tuple(do), notice)
