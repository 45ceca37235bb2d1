"""Schema changes of a source, with what they say of its snapshots, as events. Driver.

| change | events |
|---|---|
| `TruncateTable(copied=True)` | the first snapshot begins again: SnapshotVoid |
| `CreateShadow` | SnapshotBegun, behind SnapshotVoid where one runs |
| `CreateShadow` with a schema | the same, behind RowsUncertain where the live table cannot follow the log |
| `SwapShadow` | SnapshotDone |
| `DropShadow` | TableLeft |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cdc.schema import (
    CreateShadow,
    CreateTable,
    DropShadow,
    DropTable,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TruncateTable,
)
from cdc.tables import events as on
from cdc.tables.machine import BatchPlan, Machine
from cdc.tables.operations import swap_if_whole
from cdc.tables.states import PairState, Tables, TableState
from cdc.tables.table_map import Circumstances, TableMap

_RUNNING = (TableState.SNAPSHOT, TableState.SHADOW, TableState.FROZEN, TableState.OVERWRITE)
_WAITING = (TableState.SUSPENDED, TableState.RESUMED)


class Adapter:
    """Takes schema changes into a machine."""

    def __init__(self, now: Circumstances, before: Tables) -> None:
        self.machine = Machine(now, before)

    def take(self, change: SchemaChange) -> None:
        """Take one change of a source table. Raises as `Machine.take`."""
        machine, table = self.machine, change.table
        match change:
            case CreateTable():
                if self._is_in(change, *_RUNNING, *_WAITING, TableState.REQUESTED, TableState.PAUSED):
                    machine.take(on.TableLeft(table, "another one of its name is created"))
                machine.take(on.TableCreated(table, change))
            case DropTable():
                machine.take(on.TableDropped(table, change.statement))
            case RenameTable(new_table=new_table):
                machine.take(on.TableRenamed(table, new_table, change.statement))
            case TruncateTable(copied=True):
                self._void_first(change)
            case TruncateTable():
                machine.take(on.TableTruncated(table, change.statement))
            case CreateShadow():
                self._begun(change)
            case SwapShadow():
                machine.take(on.SnapshotDone(table))
            case DropShadow():
                machine.take(on.TableLeft(table, "the source follows it no further"))
            case _:
                machine.take(on.TableChanged(table, change))

    def _is_in(self, change: SchemaChange, *states: TableState) -> bool:
        return any(self.machine.tables.state(pair) in states for pair in self.machine.tables.pairs_of(change.table))

    def _void_first(self, change: TruncateTable) -> None:
        """A first snapshot, of which no change tells that it runs, begins again."""
        machine = self.machine
        pairs = [
            pair
            for pair in machine.tables.pairs_of(change.table)
            if machine.tables.state(pair) in (TableState.LIVE, TableState.REQUESTED)
        ]
        for pair in pairs:
            machine.tables.set_pair(pair, PairState(TableState.SNAPSHOT, machine.tables.now.batch))
        machine.take(on.SnapshotVoid(change.table))
        if any(machine.tables.state(pair) is TableState.REQUESTED for pair in pairs):
            machine.take(on.SnapshotBegun(change.table))
        for pair in pairs:
            machine.tables.set_pair(pair, PairState(TableState.LIVE, machine.tables.now.batch))
            swap_if_whole(machine.tables, pair[1])

    def _begun(self, change: CreateShadow) -> None:
        machine, table, altered = self.machine, change.table, change.schema is not None
        if not altered and self._is_in(change, TableState.RESUMED):
            return  # an earlier one, of which the rules have not met the table
        for pair in machine.tables.pairs_of(table):
            if machine.tables.state(pair) is TableState.SNAPSHOT:  # its end is not told
                machine.tables.set_pair(pair, PairState(TableState.LIVE, machine.tables.now.batch))
        if self._is_in(change, *_RUNNING):
            machine.take(on.SnapshotVoid(table))
        if change.schema is not None:
            if self._freezes(change):
                machine.take(on.RowsUncertain(table, on.Uncertain("changes of it were not told"), gap=True))
            machine.tables.sources[table] = change.schema
        machine.take(on.SnapshotBegun(table, altered=altered, created=change.created))

    def _freezes(self, change: CreateShadow) -> bool:
        """Whether the live table cannot follow the log, as it has other columns."""
        machine = self.machine
        live = (TableState.LIVE, TableState.REQUESTED, TableState.OVERWRITE)
        return any(
            machine.tables.state(pair) in live
            and not machine.tables.sinks.state(pair[1]).merged
            and (machine.tables.now.policy.mirrors or not _keyed(machine.tables, pair[1]))
            for pair in machine.tables.pairs_of(change.table)
        )


def _keyed(tables: TableMap, table: TableId) -> bool:
    schema = tables.sinks.schemas.get(table)
    return schema is not None and bool(schema.primary_key)


def planned(
    now: Circumstances,
    before: Tables,
    changes: Iterable[SchemaChange],
    requests: Iterable[on.Event] = (),
    touched: Iterable[TableId] = (),
    left: Callable[[Machine], None] = lambda machine: None,
) -> BatchPlan:
    """The plan of the changes, behind the requests. Raises as `Machine.take`."""
    adapter, touched = Adapter(now, before), sorted(touched)
    for table in touched:
        adapter.machine.begin_shadow_again(table)
    adapter.machine.take_routes()
    left(adapter.machine)
    for request in requests:
        adapter.machine.take(request)
    for change in changes:
        adapter.take(change)
    for table in touched:
        adapter.machine.drop_left_shadow(table)
    return adapter.machine.plan()
