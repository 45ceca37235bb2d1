"""Combine the schema changes of a batch into the effect of each statement on each table. Pure; driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from cdc.schema import (
    CreateShadow,
    RenameTable,
    SchemaChange,
    SourceStatement,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink import Announced


@dataclass(frozen=True, slots=True)
class TableChange:
    """The effect of one statement, or of none, on one table.

    Attributes:
        table: the name after the statement. old_table: the name before it.
        before, after: the schema; None when there is no table.
        emptied: whether the rows were deleted and nothing else changed.
        first: whether it is the first table of the statement.
    """

    table: TableId
    old_table: TableId
    before: TableSchema | None
    after: TableSchema | None
    statement: SourceStatement | None
    emptied: bool
    first: bool = True

    @property
    def kind(self) -> str:
        """The kind: `CREATE`, `DROP`, `TRUNCATE`, `RENAME` (only of the table) or `ALTER`."""
        if self.emptied:
            return "TRUNCATE"
        if self.after is None:
            return "DROP"
        if self.before is None:
            return "CREATE"
        return "RENAME" if self.table != self.old_table and self.before == self.after else "ALTER"


def table_changes(announced: Sequence[Announced], *, each_rename: bool) -> Iterator[TableChange]:
    """The changes in order, with one for all changes of a statement to a table. Re-snapshots are omitted.

    Args:
        each_rename: whether each step of a RENAME is a change, when it renames several tables or one several times.
    """
    changes = (item for item in announced if not _of_copy(item.change))
    for statement, items in groupby(changes, key=lambda item: item.change.statement):
        yield from _of_statement(statement, _by_table(list(items), each_rename=each_rename))


def _by_table(items: Sequence[Announced], *, each_rename: bool) -> list[list[Announced]]:
    apart = each_rename and sum(isinstance(item.change, RenameTable) for item in items) > 1
    groups, current = list[list[Announced]](), dict[TableId, list[Announced]]()
    for item in items:
        changes = current.pop(item.change.table, None)
        if changes is None or (apart and isinstance(item.change, RenameTable)):
            changes = []
            groups.append(changes)
        changes.append(item)
        current[_named_after(item.change)] = changes
    return groups


def _of_statement(statement: SourceStatement | None, groups: Sequence[Sequence[Announced]]) -> Iterator[TableChange]:
    first = True
    for items in groups:
        before, after = items[0].before, items[-1].after
        emptied = all(isinstance(item.change, TruncateTable) for item in items)
        old, table = items[0].change.table, _named_after(items[-1].change)
        if statement is None and not emptied and (before, table) == (after, old):
            continue  # an existing table is announced again at the start of a run
        yield TableChange(table, old, before, after, statement, emptied, first)
        first = False


def _of_copy(change: SchemaChange) -> bool:
    """Whether the source's table did not change, and its rows are only read again."""
    if isinstance(change, TruncateTable):
        return change.copied
    return isinstance(change, CreateShadow) or (isinstance(change, SwapShadow) and change.schema is None)


def _named_after(change: SchemaChange) -> TableId:
    return change.new_table if isinstance(change, RenameTable) else change.table
