"""Which tables of the sink get a block of rows, by the state of its pair and the block's streams. Pure."""

from __future__ import annotations

from enum import StrEnum

from cdc.block import Stream
from cdc.tables.states import TableState


class To(StrEnum):
    """The table that rows are written to."""

    LIVE = "live"
    """The table that readers see."""
    SHADOW = "shadow"
    """The shadow table, which will replace the live table."""


_LOG, _SNAPSHOT = frozenset({Stream.LOG}), frozenset({Stream.SNAPSHOT_ROWS, Stream.SNAPSHOT_LOG})

_LIVE = {
    TableState.SNAPSHOT: _SNAPSHOT,
    TableState.LIVE: _LOG,
    TableState.REQUESTED: _LOG,
    TableState.SHADOW: _LOG,
    TableState.OVERWRITE: _LOG | {Stream.SNAPSHOT_ROWS},
}
_SHADOW = {
    TableState.SNAPSHOT: _SNAPSHOT,
    TableState.LIVE: _LOG,
    TableState.SHADOW: _SNAPSHOT,
    TableState.FROZEN: _SNAPSHOT,
}

NONE: frozenset[Stream] = frozenset()


def streams(state: TableState, to: To) -> frozenset[Stream]:
    """The streams that a table gets from a pair in a state."""
    return (_LIVE if to is To.LIVE else _SHADOW).get(state, NONE)


def targets(state: TableState, of: frozenset[Stream], *, shadowed: bool) -> tuple[To, ...]:
    """The tables that rows of these streams are written to; `shadowed`: the sink table has a shadow table."""
    tables = (To.LIVE, To.SHADOW) if shadowed else (To.LIVE,)
    return tuple(to for to in tables if streams(state, to) & of)
