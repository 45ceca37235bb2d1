"""Re-snapshots by sink: into a shadow table if the sink has them, else into the emptied table."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from cdc.block import Stream
from cdc.errors import CdcError, from_json
from cdc.schema import CreateShadow, DropShadow, DropTable, SchemaChange, SwapShadow, TableId, TruncateTable
from cdc.sink import KeylessRows, Sink
from cdc.tables.router import To, targets
from cdc.tables.states import TableState

log = logging.getLogger(__name__)

_EMPTIED = "%s is emptied before it is re-snapshotted: this sink has no shadow tables"
_ADDED = "%s is re-snapshotted: its rows come again, and nothing shows which of the earlier ones were deleted"


def changes_for(sink: Sink, changes: Iterable[SchemaChange]) -> list[SchemaChange]:
    """A batch's changes for this sink: without shadow tables they empty the table instead. Driver; deterministic."""
    found: list[SchemaChange] = []
    for change in changes:
        if sink.shadows or not isinstance(change, CreateShadow | SwapShadow | DropShadow):
            found.append(change)
        elif isinstance(change, CreateShadow):
            log.warning(_ADDED if sink.keyless is KeylessRows.CHANGES else _EMPTIED, change.table)
            found += _emptied(change)
    return found


def _emptied(change: CreateShadow) -> list[SchemaChange]:
    created = change.created
    return [TruncateTable(change.table)] if created is None else [DropTable(change.table), created]


def tables_for(
    sink: Sink, table: TableId, state: TableState, streams: frozenset[Stream], *, shadowed: bool
) -> list[TableId]:
    """The sink tables that get rows of these streams: the live table, its shadow table, or both. Executor.

    `state` is that of the (source table, sink table) pair; `shadowed` whether the sink table has a shadow table.
    """
    return [sink.shadow(table) if to is To.SHADOW else table for to in targets(state, streams, shadowed=shadowed)]


def gathered_tables(sink: Sink, merged: Collection[TableId]) -> frozenset[TableId]:
    """The merged tables with their shadow tables."""
    shadows = map(sink.shadow, merged) if sink.shadows else ()
    return frozenset((*merged, *shadows))


def shadow_tables(sink: Sink, tables: Iterable[TableId], known: Iterable[TableId]) -> dict[TableId, TableId]:
    """The shadow tables among `tables`, each with its live table in `known`. Driver."""
    unknown = set(tables).difference(known)
    if not unknown or not sink.shadows:
        return {}
    return {shadow: table for table in known if (shadow := sink.shadow(table)) in unknown}


def explained(error: CdcError, sink: Sink, known: Iterable[TableId]) -> CdcError:
    """The error, with a hint for each shadow table that it names: which of the `known` tables it belongs to. Driver."""
    text = str(error)
    reasons = [
        f"{shadow.table} is the shadow table of {table}, which is re-snapshotted"
        for table in known
        if (shadow := sink.shadow(table)).table in text
    ]
    if not reasons:
        return error
    found = from_json(error.to_json())
    found.hint = "; ".join(filter(None, (*reasons, error.hint)))
    return found


def names_of(sink: Sink, table: TableId) -> tuple[str, ...]:
    """The names under which the sink may hold rows of a table: its own and that of its shadow table."""
    return (str(table), str(sink.shadow(table))) if sink.shadows else (str(table),)
