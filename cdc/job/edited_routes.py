"""Checks routes that were edited since the previous run: which tables move, and whether they can. Driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from cdc.errors import EditRefused, StateError, first_of
from cdc.route import RouteTable, Target
from cdc.schema import TableId
from cdc.source import Snapshots, Source
from cdc.state.store import RESTORE, Store
from cdc.tables.entry import TableViews
from cdc.tables.log import FILE
from cdc.tables.machine import shard_column_moved


def routes_of(known: TableViews, store: Store) -> RouteTable:
    """The routes in effect at a batch, from its entry in the table log. Raises StateError."""
    if known.routes is None:
        raise StateError("no entry has the routes", where=store.where(FILE), hint=RESTORE)
    return RouteTable.from_json(known.routes)


def filled_tables(
    file: str, tables: Iterable[TableId], before: RouteTable, now: RouteTable, source: Source
) -> Mapping[TableId, Set[TableId]]:
    """The sink tables that are targets both before and now, each with its source tables among `tables`.

    Raises EditRefused if the routes of `now`, from `file`, move a table whose source cannot re-snapshot it.
    """
    tables = sorted(tables)
    old, new = ({table: routes.targets(table) for table in tables} for routes in (before, now))
    for table in tables:
        known = {target.table: target for target in old[table]}
        for target in new[table]:
            if known.get(target.table, target) != target:
                raise shard_column_moved(table, known[target.table], target)
    moved = [table for table in tables if _places(new[table]) - _places(old[table])]
    stays = [table for table in moved if source.snapshots(table) is not Snapshots.ALWAYS]
    if stays:
        edits = [f"{table} went to {_names(old[table])}, now to {_names(new[table])}" for table in stays]
        raise EditRefused(
            f"captured tables would be routed to other sink tables: {first_of(edits, between='; ')}",
            where=f"{file}: route",
            hint="revert the edit, or start over with another --state-dir",
        )
    filled: defaultdict[TableId, set[TableId]] = defaultdict(set)
    for table in tables:
        for sink_table in _places(old[table]) & _places(new[table]):
            filled[sink_table].add(table)
    return filled


def _places(targets: Iterable[Target]) -> set[TableId]:
    return {target.table for target in targets}


def _names(targets: Sequence[Target]) -> str:
    return " and ".join(
        f"{target.table} with the column {target.shard_column}" if target.shard_column else str(target.table)
        for target in targets
    )
