"""The events of a batch, from its part of the log and its part of the chunk plan. Pure; driver.

    finished snapshots | voided snapshots | the log's events | tables that left | snapshots that begin

A table created together with its rows and snapshotted at once is created `by_snapshot`, without a begin event of its
own. If a part of the log is lost, that event comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from cdc import events as on
from cdc.schema import TableId
from connectors.mysql.snapshot.chunk import DONE, LEFT, Begin, Entry, LogLost, Rename, TableEnd


def batch_events(
    logged: Sequence[on.SourceEvent], running: Collection[TableId], entries: Sequence[Entry]
) -> list[on.SourceEvent]:
    """Return the events of a batch.

    Args:
        logged: events of its part of the log.
        running: tables being snapshotted before the batch.
        entries: of the plan, in this batch.
    """
    lost = any(isinstance(entry, LogLost) for entry in entries)
    names = {table: table for table in running}  # current name -> name before the batch
    done: list[on.SourceEvent] = []
    void: list[on.SourceEvent] = []
    left: list[on.SourceEvent] = []
    begun: dict[TableId, Begin] = {}
    for entry in entries:
        match entry:
            case Begin(table=table):
                if table in names:
                    void.append(on.SnapshotVoid(names.pop(table)))
                begun[table] = entry
            case TableEnd(table=table, why=why):
                before = names.pop(table, None)
                begun.pop(table, None)
                if why == DONE and before is not None:
                    done.append(on.SnapshotDone(before))
                elif why == LEFT:
                    left.append(on.CaptureEnded(table, "the source follows it no further"))
            case Rename(table=table, new_table=new) if table in names:
                names[new] = names.pop(table)
            case _:
                pass
    events, created = _by_snapshot(logged, begun)
    again = {table: begin for table, begin in begun.items() if table not in created}
    if lost:
        void = [on.RowsUncertain(begin.table, on.Uncertain(begin.reason), gap=True) for begin in again.values()]
    snapshots = (on.SnapshotBegun(table, keys_certain=begin.keys_certain) for table, begin in again.items())
    return [*done, *void, *events, *left, *snapshots]


def _by_snapshot(
    logged: Sequence[on.SourceEvent], begun: Collection[TableId]
) -> tuple[list[on.SourceEvent], set[TableId]]:
    """Mark creations of tables that a snapshot of this batch fills; also return these tables' names after the batch."""
    events, created = list(logged), dict[TableId, int]()
    for place, event in enumerate(events):
        match event:
            case on.TableCreated(table=table):
                created[table] = place
            case on.TableRenamed(table=table, new_table=new) if table in created:
                created[new] = created.pop(table)
            case on.TableDropped(table=table) | on.TableTruncated(table=table):
                created.pop(table, None)
            case _:
                pass
    filled = created.keys() & begun
    for table in filled:
        event = events[created[table]]
        assert isinstance(event, on.TableCreated), "it was noted where it was created"
        events[created[table]] = replace(event, by_snapshot=True)
    return events, filled
