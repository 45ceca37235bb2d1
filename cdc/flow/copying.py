"""Tables that are copied anew, as the sink takes it: beside the table where it can, else into the emptied table.

| a block is for | the sink copies beside | it does not |
|---|---|---|
| no copy | the table | the table |
| the rows that were there (`During.OLD`) | the table | nothing: they are gone |
| the copy (`During.NEW`) | the one beside it | the table |

A table whose copy is written over its rows (`cdc.flow.sink_changes`) takes both: the whole log, and the copied rows.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from cdc.block import ChangeBlock, During
from cdc.flow.sink_schemas import Part
from cdc.schema import CreateShadow, DropShadow, DropTable, SchemaChange, SwapShadow, TableId, TruncateTable
from cdc.sink import Sink

log = logging.getLogger(__name__)


def changes_for(sink: Sink, changes: Iterable[SchemaChange]) -> list[SchemaChange]:
    """A batch's changes with the sink's table names, as the sink takes them. Driver; the same for a repeat."""
    found: list[SchemaChange] = []
    for change in changes:
        if sink.shadows or not isinstance(change, CreateShadow | SwapShadow | DropShadow):
            found.append(change)
        elif isinstance(change, CreateShadow):
            log.warning(
                "%s is emptied before it is copied anew: this sink copies no table beside another", change.table
            )
            found += _emptied(change)
    return found


def _emptied(change: CreateShadow) -> list[SchemaChange]:
    created = change.created
    return [TruncateTable(change.table)] if created is None else [DropTable(change.table), created]


def block_for(sink: Sink, block: ChangeBlock, *, over: bool = False) -> ChangeBlock | None:
    """A routed block as the sink takes it, None when it is not for it. Executor.

    `over`: the copy is written over the rows of the sink's table.
    """
    if block.during is not During.NO_COPY and over:
        return replace(block, during=During.NO_COPY)
    if sink.shadows:
        return replace(block, table=sink.shadow(block.table)) if block.during is During.NEW else block
    return None if block.during is During.OLD else block


def blocks_for(sink: Sink, block: ChangeBlock, part: Part | None, *, over: bool = False) -> Iterator[ChangeBlock]:
    """The same, as often as the sink takes it; `part`: of the block's source table in a copy that is under way."""
    if part is Part.WANTED and block.during is During.NEW:
        return
    found = block_for(sink, block, over=over)
    if found is None:
        return
    yield found
    if part is Part.WHOLE and sink.shadows:
        yield replace(found, table=sink.shadow(found.table))


def gathered_tables(sink: Sink, merged: Collection[TableId]) -> frozenset[TableId]:
    """The merged tables, and what copies of them are."""
    beside = map(sink.shadow, merged) if sink.shadows else ()
    return frozenset((*merged, *beside))


def copied_tables(sink: Sink, tables: Iterable[TableId], known: Iterable[TableId]) -> dict[TableId, TableId]:
    """Which of the `known` sink tables each of these is a copy of, as far as it is one. Driver."""
    unknown = set(tables).difference(known)
    if not unknown or not sink.shadows:
        return {}
    return {copy: table for table in known if (copy := sink.shadow(table)) in unknown}


def names_of(sink: Sink, table: TableId) -> tuple[str, ...]:
    """The sink's tables that rows of a sink table may be in."""
    return (str(table), str(sink.shadow(table))) if sink.shadows else (str(table),)
