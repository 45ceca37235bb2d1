"""The meaning of schema changes in the log for tables that are being snapshotted. Pure.

A chunk is read when its table has the definition that the log has given it up to the batch. Between that point and the
position at which the chunk is read, the log may still hold changes that come to the same definition in the end: a
column dropped and added again, two tables swapped. The sink will carry these out on rows that have them behind them
already. So a change at or before a position at which a chunk was read begins the table anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cdc.schema import AlterTableComment, CreateTable, DropTable, RenameTable, SchemaChange, TableId, TruncateTable
from connectors.mysql.ddl.delta import Uncertain
from connectors.mysql.schema.table import MySqlTable
from connectors.mysql.snapshot.chunk import Begin, End, Entry, Rename, Watermark
from connectors.mysql.snapshot.plan.copies import TableCopy

Tables = Mapping[TableId, MySqlTable]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A table was renamed in, with rows that the log does not have under a captured name."""

    table: TableId


@dataclass(frozen=True, slots=True)
class UncertainRows:
    """A table whose rows the log does not tell from here on: it has to be copied anew."""

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
        self._unsure_at: dict[TableId, int] = {}
        self._renamed: set[TableId] = set()
        self.uncertain: dict[TableId, Uncertain] = {}
        """Tables that are begun anew for that."""
        self._entries: list[Entry] = []

    def entries(self, changes: Sequence[SequencedChange], old: Tables, new: Tables) -> list[Entry]:
        """The plan's entries about it. `old` and `new` are the definitions before and after the batch."""
        for placed in changes:
            self._follow(placed.change, placed.sequence)
        for table, sequence in self._altered.items():
            self._judge(table, sequence, old, new)
        anew = [self._begun(table, why, old, new) for table, why in self.uncertain.items() if table in new]
        return [*self._entries, *(Begin(table, "new") for table in self._arrived), *anew]

    def _follow(self, change: SchemaChange | Arrival | UncertainRows, sequence: int) -> None:
        match change:
            case TruncateTable(table=table):
                self._end(table, "truncated")
            case DropTable(table=table):
                self._end(table, "dropped")
            case CreateTable(table=table):
                self._end(table, "created anew")
            case RenameTable(table=table, new_table=new):
                self._end(new, "replaced")
                self._rename(table, new, sequence)
            case Arrival(table=table):
                self._arrived.append(table)
            case UncertainRows(table=table, why=why):
                self.uncertain[table] = why
                self._unsure_at[table] = sequence
            case AlterTableComment():
                pass
            case _:
                if change.table in self._names:
                    self._altered[change.table] = max(sequence, self._altered.get(change.table, 0))

    def _end(self, table: TableId, why: str) -> None:
        """From here on the log has all of the table's rows."""
        if table in self._arrived:
            self._arrived.remove(table)
        self.uncertain.pop(table, None)
        if self._names.pop(table, None) is not None:
            self._altered.pop(table, None)
            self._entries.append(End(table, why))

    def _rename(self, table: TableId, new: TableId, sequence: int) -> None:
        self._arrived = [new if other == table else other for other in self._arrived]
        if table in self.uncertain:
            self.uncertain[new] = self.uncertain.pop(table)
            self._unsure_at[new] = sequence
        copy = self._names.pop(table, None)
        if copy is None:
            return
        self._names[new] = copy
        self._renamed.add(new)
        self._entries.append(Rename(table, new))
        self._altered[new] = max(sequence, self._altered.pop(table, 0))

    def _judge(self, table: TableId, sequence: int, old: Tables, new: Tables) -> None:
        copy = self._names[table]
        if copy.beside:
            self._judge_beside(copy, table, sequence, old, new)
            return
        highest = copy.highest(self._before, self._marks)
        if highest is not None and highest.sequence >= sequence:
            kept = _same_primary_key(old.get(copy.table), new.get(table))
            self._entries.append(copy.begun_anew(table) if kept else Begin(table, "restart", truncate=True))
        elif copy.done(self._before, self._marks):
            self._entries.append(copy.end(table))
        elif copy.chunks and table in new and _key_changed(copy, old, new[table]):
            self._entries.append(Begin(table, "restart", truncate=True))

    def _judge_beside(self, copy: TableCopy, table: TableId, sequence: int, old: Tables, new: Tables) -> None:
        """A copy that is whole where the change comes takes the table's place before it; any other begins anew."""
        if self._whole(copy, sequence) and table not in self._renamed:
            self._entries.append(copy.end(table))
        else:
            altered = not alike(old.get(copy.table), new.get(table))
            self._entries.append(copy.begun_anew(table, altered=altered or table in self._renamed))

    def _begun(self, table: TableId, why: Uncertain, old: Tables, new: Tables) -> Begin:
        """How a table begins whose rows the log does not tell.

        Over the rows that the sink has, where each has a key that the log makes the same as the server. Beside them
        where there may be others; the rows that are there stay as they are then, where they have other columns. A table
        that is just being filled begins empty once more.
        """
        copy = self._names.get(table)
        if copy is not None and self._ended(table, copy):
            copy = None
        begun = Begin(table, "uncertain", reason=why.reason)
        if why.same_rows and new[table].primary_key and (copy is None or not copy.beside):
            return replace(begun, refresh=True)
        if copy is not None and copy.first:
            return replace(begun, truncate=True)
        altered = not alike(old.get(table), new[table]) or (copy is not None and copy.altered)
        return replace(begun, beside=True, frozen=altered or (copy is not None and copy.frozen), altered=altered)

    def _ended(self, table: TableId, copy: TableCopy) -> bool:
        """Whether nothing is left of the copy where the table's rows became uncertain."""
        if any(isinstance(entry, End) and entry.table == table for entry in self._entries):
            return True
        return copy.first and self._whole(copy, self._unsure_at[table])

    def _whole(self, copy: TableCopy, sequence: int) -> bool:
        """Everything is copied, and from a part of the log before this sequence."""
        highest = copy.highest(self._before, self._marks)
        return copy.done(self._before, self._marks) and (highest is None or highest.sequence < sequence)


def alike(left: MySqlTable | None, right: MySqlTable | None) -> bool:
    """Whether rows of two tables have the same columns and the same key."""
    if left is None or right is None:
        return False
    return (left.columns, left.primary_key) == (right.columns, right.primary_key)


def _same_primary_key(old: MySqlTable | None, new: MySqlTable | None) -> bool:
    return old is not None and new is not None and old.primary_key == new.primary_key


def _key_changed(copy: TableCopy, old: Tables, new: MySqlTable) -> bool:
    """The primary key or the definition of a split column is another one."""
    before = old.get(copy.table)
    if before is None or before.primary_key != new.primary_key:
        return True
    names = copy.chunks[0].columns
    known = [{column.name: column for column in table.columns} for table in (before, new)]
    return any(known[0].get(name) != known[1].get(name) for name in names)


def begun_behind_a_gap(copies: Mapping[TableId, TableCopy], old: Tables, new: Tables) -> list[Begin]:
    """How all tables begin when a part of the log is lost. `old` are those before it, `new` are those behind it. Pure.

    What the sink has of a table stays as it is meanwhile: the log behind the gap does not fit it.
    """
    reason = "the server had purged a part of its log that was not read"
    found = []
    for table in sorted(new):
        begun = Begin(table, "restart", reason=reason)
        if table in old:
            altered = not alike(old[table], new[table]) or (table in copies and copies[table].altered)
            found.append(replace(begun, beside=True, frozen=True, altered=altered))
        else:
            found.append(replace(begun, truncate=True))
    return found
