"""Which tables of the sink get a block of rows, by the state of its pair and the streams that it belongs to. Pure."""

from __future__ import annotations

from enum import StrEnum

from cdc.tables.states import TableState


class Stream(StrEnum):
    """The purpose of a source table's rows."""

    LOG = "log"
    """Every change of the log."""
    SNAPSHOT = "snapshot"
    """Rows that a snapshot reads, and the changes of the log that no chunk of it has."""


class To(StrEnum):
    """Where rows go in the sink."""

    LIVE = "live"
    """The table that readers see."""
    SHADOW = "shadow"
    """The shadow table, which takes its place."""


_LIVE = {
    TableState.SNAPSHOT: frozenset({Stream.SNAPSHOT}),
    TableState.LIVE: frozenset({Stream.LOG}),
    TableState.REQUESTED: frozenset({Stream.LOG}),
    TableState.SHADOW: frozenset({Stream.LOG}),
    TableState.OVERWRITE: frozenset({Stream.LOG, Stream.SNAPSHOT}),
}
_SHADOW = {
    TableState.SNAPSHOT: frozenset({Stream.SNAPSHOT}),
    TableState.LIVE: frozenset({Stream.LOG}),
    TableState.SHADOW: frozenset({Stream.SNAPSHOT}),
    TableState.FROZEN: frozenset({Stream.SNAPSHOT}),
}

NONE: frozenset[Stream] = frozenset()


def streams(state: TableState, to: To) -> frozenset[Stream]:
    """The streams that a table gets of a pair in a state."""
    return (_LIVE if to is To.LIVE else _SHADOW).get(state, NONE)


def targets(state: TableState, of: frozenset[Stream], *, shadowed: bool) -> tuple[To, ...]:
    """Where rows go that belong to these streams; `shadowed`: the sink table has a shadow table."""
    tables = (To.LIVE, To.SHADOW) if shadowed else (To.LIVE,)
    return tuple(to for to in tables if streams(state, to) & of)
