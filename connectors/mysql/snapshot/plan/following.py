"""The effect of logged schema changes on tables being snapshotted. Pure.

A chunk is read when its table has the definition that the log gives it up to the batch. Between that point and the
position at which the chunk is read, the log may hold further changes that end in the same definition: a column dropped
and added again, two tables swapped. The sink would apply these to rows that already reflect them. A change at or before
a position at which a chunk was read therefore restarts the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc.events import Uncertain
from cdc.schema import AlterTableComment, CreateTable, DropTable, RenameTable, SchemaChange, TableId, TruncateTable
from connectors.mysql.snapshot.chunk import DONE, Begin, Entry, Rename, TableEnd, Watermark
from connectors.mysql.snapshot.plan.table_snapshots import TableSnapshot
from connectors.mysql.table import MySqlTable

Tables = Mapping[TableId, MySqlTable]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A table renamed into the captured names; the log lacks its earlier rows."""

    table: TableId


@dataclass(frozen=True, slots=True)
class UncertainRows:
    """A table whose rows the log does not determine from here on: it must be re-snapshotted."""

    table: TableId
    why: Uncertain


@dataclass(frozen=True, slots=True)
class SequencedChange:
    """A schema change and its position in the log, as a sequence."""

    sequence: int
    change: SchemaChange | Arrival | UncertainRows


class Following:
    """Follows the changes of one batch.

    Args:
        snapshots: the tables being snapshotted before the batch.
        before: number of plan entries before the batch; chunks below it are decided.
        marks: watermarks of decided chunks.
    """

    def __init__(self, snapshots: Mapping[TableId, TableSnapshot], before: int, marks: Mapping[int, Watermark]) -> None:
        self._before, self._marks = before, marks
        self._names: dict[TableId, TableSnapshot] = dict(snapshots)
        self._altered: dict[TableId, int] = {}
        self._arrived: list[TableId] = []
        self.uncertain: dict[TableId, Uncertain] = {}
        """Tables restarted because their rows are uncertain."""
        self._entries: list[Entry] = []

    def entries(self, changes: Sequence[SequencedChange], old: Tables, new: Tables) -> list[Entry]:
        """Return the plan entries caused by the changes.

        `old` and `new` are the definitions before and after the batch.
        """
        for placed in changes:
            self._follow(placed.change, placed.sequence)
        for table, sequence in self._altered.items():
            self._judge(table, sequence, old, new)
        restarted = [self._begin_for(new[table], why) for table, why in self.uncertain.items() if table in new]
        return [*self._entries, *(Begin(table, "new") for table in self._arrived), *restarted]

    def _follow(self, change: SchemaChange | Arrival | UncertainRows, sequence: int) -> None:
        match change:
            case TruncateTable(table=table):
                self._end(table, "truncated")
            case DropTable(table=table):
                self._end(table, "dropped")
            case CreateTable(table=table):
                self._end(table, "recreated")
            case RenameTable(table=table, new_table=new):
                self._end(new, "replaced")
                self._rename(table, new, sequence)
            case Arrival(table=table):
                self._arrived.append(table)
            case UncertainRows(table=table, why=why):
                before = self.uncertain.get(table)
                self.uncertain[table] = why if before is None else before.followed_by(why)
                self._note_altered(table, sequence)
            case AlterTableComment():
                pass
            case _:
                self._note_altered(change.table, sequence)

    def _note_altered(self, table: TableId, sequence: int) -> None:
        if table in self._names:
            self._altered[table] = max(sequence, self._altered.get(table, 0))

    def _end(self, table: TableId, why: str) -> None:
        """End the table's snapshot: from here on the log has all of its rows."""
        if table in self._arrived:
            self._arrived.remove(table)
        self.uncertain.pop(table, None)
        if self._names.pop(table, None) is not None:
            self._altered.pop(table, None)
            self._entries.append(TableEnd(table, why))

    def _rename(self, table: TableId, new: TableId, sequence: int) -> None:
        self._arrived = [new if other == table else other for other in self._arrived]
        if table in self.uncertain:
            self.uncertain[new] = self.uncertain.pop(table)
        snapshot = self._names.pop(table, None)
        if snapshot is None:
            return
        self._names[new] = snapshot
        self._entries.append(Rename(table, new))
        self._altered[new] = max(sequence, self._altered.pop(table, 0))

    def _judge(self, table: TableId, sequence: int, old: Tables, new: Tables) -> None:
        """Decide what an altered table's snapshot becomes.

        A snapshot that is complete at the change ends before it. An unfinished one continues if its remaining chunks
        are read after the change, else restarts.
        """
        snapshot = self._names[table]
        highest = snapshot.highest(self._before, self._marks)
        if self._is_read(snapshot, sequence):
            self._entries.append(TableEnd(table, DONE))
        elif table in self.uncertain:
            return  # it restarts as uncertain
        elif (highest is not None and highest.sequence >= sequence) or (
            table in new and _key_changed(snapshot, old, new[table])
        ):
            self._entries.append(snapshot.restarted(table))

    def _begin_for(self, table: MySqlTable, why: Uncertain) -> Begin:
        """Return the begin entry of an uncertain table.

        A restarted snapshot may not claim certain keys, as it may have been for them.
        """
        certain = why.same_rows and bool(table.primary_key) and table.id not in self._names
        return Begin(table.id, "uncertain", reason=why.reason, keys_certain=certain)

    def _is_read(self, snapshot: TableSnapshot, sequence: int) -> bool:
        """Return True when everything is read, and from a part of the log before this sequence."""
        highest = snapshot.highest(self._before, self._marks)
        return snapshot.is_done(self._before, self._marks) and (highest is None or highest.sequence < sequence)


def _key_changed(snapshot: TableSnapshot, old: Tables, new: MySqlTable) -> bool:
    """Return True when the primary key or the definition of a split column differs.

    Without chunks, too: rows that were to be written over those with the same key have none now, or another one.
    """
    before = old.get(snapshot.table)
    if before is None or before.primary_key != new.primary_key:
        return True
    names = snapshot.chunks[0].columns if snapshot.chunks else ()
    known = [{column.name: column for column in table.columns} for table in (before, new)]
    return any(known[0].get(name) != known[1].get(name) for name in names)
