"""Schema changes of a batch as what each statement did to each table. Pure; driver."""

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
        table: its name afterwards. old_table: its name before.
        before, after: its schema; None is no table.
        emptied: whether its rows are gone and nothing else is changed.
        first: whether it is the first table of its statement.
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
        """`CREATE`, `DROP`, `TRUNCATE`, `RENAME` (of the table, and nothing else is changed) or `ALTER`."""
        if self.emptied:
            return "TRUNCATE"
        if self.after is None:
            return "DROP"
        if self.before is None:
            return "CREATE"
        return "RENAME" if self.table != self.old_table and self.before == self.after else "ALTER"


def table_changes(announced: Sequence[Announced], *, each_rename: bool) -> Iterator[TableChange]:
    """The changes in order, those of a statement to one table in one. Copies that the pipeline makes are left out.

    Args:
        each_rename: a statement that renames several tables, or one several times, is a change for each of its steps.
    """
    own = (item for item in announced if not _of_copy(item.change))
    for statement, items in groupby(own, key=lambda item: item.change.statement):
        yield from _of_statement(statement, _by_table(list(items), each_rename=each_rename))


def _by_table(items: Sequence[Announced], *, each_rename: bool) -> list[list[Announced]]:
    apart = each_rename and sum(isinstance(item.change, RenameTable) for item in items) > 1
    groups, current = list[list[Announced]](), dict[TableId, list[Announced]]()
    for item in items:
        own = current.pop(item.change.table, None)
        if own is None or (apart and isinstance(item.change, RenameTable)):
            own = []
            groups.append(own)
        own.append(item)
        current[_named_after(item.change)] = own
    return groups


def _of_statement(statement: SourceStatement | None, groups: Sequence[Sequence[Announced]]) -> Iterator[TableChange]:
    first = True
    for items in groups:
        before, after = items[0].before, items[-1].after
        emptied = all(isinstance(item.change, TruncateTable) for item in items)
        old, table = items[0].change.table, _named_after(items[-1].change)
        if statement is None and not emptied and (before, table) == (after, old):
            continue  # a table that is there already is told once more at the start of a run
        yield TableChange(table, old, before, after, statement, emptied, first)
        first = False


def _of_copy(change: SchemaChange) -> bool:
    """Whether nothing happened to the source's table: its rows are only read again."""
    if isinstance(change, TruncateTable):
        return change.copied
    return isinstance(change, CreateShadow) or (isinstance(change, SwapShadow) and change.schema is None)


def _named_after(change: SchemaChange) -> TableId:
    return change.new_table if isinstance(change, RenameTable) else change.table
