"""The meaning of schema changes in the log for tables that are being snapshotted. Pure.

A chunk is read when its table has the definition that the log has given it up to the batch. Between that point and the
position at which the chunk is read, the log may still hold changes that come to the same definition in the end: a
column dropped and added again, two tables swapped. The sink will carry these out on rows that have them behind them
already. So a change at or before a position at which a chunk was read starts the table over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc.events import Uncertain
from cdc.schema import AlterTableComment, CreateTable, DropTable, RenameTable, SchemaChange, TableId, TruncateTable
from connectors.mysql.snapshot.chunk import DONE, Begin, Entry, Rename, TableEnd, Watermark
from connectors.mysql.snapshot.plan.copies import TableCopy
from connectors.mysql.table import MySqlTable

Tables = Mapping[TableId, MySqlTable]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A table was renamed in, with rows that the log does not have under a captured name."""

    table: TableId


@dataclass(frozen=True, slots=True)
class UncertainRows:
    """A table whose rows the log does not tell from here on: it has to be re-snapshotted."""

    table: TableId
    why: Uncertain


@dataclass(frozen=True, slots=True)
class SequencedChange:
    """A schema change and where in the log it is, as a sequence."""

    sequence: int
    change: SchemaChange | Arrival | UncertainRows


class Following:
    """Follows the changes of one batch.

    Args:
        copies: the tables that are being copied, before the batch.
        before: number of entries of the plan before the batch; chunks under it are decided.
        marks: watermarks of decided chunks.
    """

    def __init__(self, copies: Mapping[TableId, TableCopy], before: int, marks: Mapping[int, Watermark]) -> None:
        self._before, self._marks = before, marks
        self._names: dict[TableId, TableCopy] = dict(copies)
        self._altered: dict[TableId, int] = {}
        self._arrived: list[TableId] = []
        self.uncertain: dict[TableId, Uncertain] = {}
        """Tables that are started over for that."""
        self._entries: list[Entry] = []

    def entries(self, changes: Sequence[SequencedChange], old: Tables, new: Tables) -> list[Entry]:
        """The plan's entries about it. `old` and `new` are the definitions before and after the batch."""
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
        """From here on the log has all of the table's rows."""
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
        copy = self._names.pop(table, None)
        if copy is None:
            return
        self._names[new] = copy
        self._entries.append(Rename(table, new))
        self._altered[new] = max(sequence, self._altered.pop(table, 0))

    def _judge(self, table: TableId, sequence: int, old: Tables, new: Tables) -> None:
        """A snapshot that is whole where the change comes ends before it; one that goes on has the change behind it
        where its chunks are read later, or begins again."""
        copy = self._names[table]
        highest = copy.highest(self._before, self._marks)
        if self._is_copied(copy, sequence):
            self._entries.append(TableEnd(table, DONE))
        elif table in self.uncertain:
            return  # it begins again for that
        elif (highest is not None and highest.sequence >= sequence) or (
            copy.chunks and table in new and _key_changed(copy, old, new[table])
        ):
            self._entries.append(copy.begun_again(table))

    def _begin_for(self, table: MySqlTable, why: Uncertain) -> Begin:
        """How a table begins whose rows the log does not tell. One in the place of another may be to bring the keys."""
        certain = why.same_rows and bool(table.primary_key) and table.id not in self._names
        return Begin(table.id, "uncertain", reason=why.reason, keys_certain=certain)

    def _is_copied(self, copy: TableCopy, sequence: int) -> bool:
        """Everything is copied, and from a part of the log before this sequence."""
        highest = copy.highest(self._before, self._marks)
        return copy.is_done(self._before, self._marks) and (highest is None or highest.sequence < sequence)


def _key_changed(copy: TableCopy, old: Tables, new: MySqlTable) -> bool:
    """The primary key or the definition of a split column is another one."""
    before = old.get(copy.table)
    if before is None or before.primary_key != new.primary_key:
        return True
    names = copy.chunks[0].columns
    known = [{column.name: column for column in table.columns} for table in (before, new)]
    return any(known[0].get(name) != known[1].get(name) for name in names)


GAP = "the server had purged a part of its log that was not read"
"""Why all tables begin again where a part of the log is lost."""
