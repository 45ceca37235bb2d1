"""Schema changes of a batch in the order in which a sink refuses the fewest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    CreateShadow,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    TableId,
    TruncateTable,
)

ALTERATIONS = (AddColumn, AlterColumnType, AlterPrimaryKey, AlterTableComment, DropColumn, RenameColumn, RenameColumns)
"""Changes of the columns, the key or the comment of a table."""


def whole_tables_first(changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """The changes of a batch with those of a table's columns behind what happens to it as a whole; pure.

    No row stands between them, so they come to the same: a table that is dropped need not be altered or copied before,
    one that is emptied or renamed can be altered after it. Others keep their places.
    """
    found: list[tuple[int, SchemaChange]] = []
    waiting: dict[TableId, list[tuple[int, SchemaChange]]] = {}
    for place, change in enumerate(changes):
        if isinstance(change, ALTERATIONS):
            waiting.setdefault(change.table, []).append((place, change))
            continue
        before = waiting.pop(change.table, [])
        if isinstance(change, DropTable):
            found = _without_alters(found, change)
        found.append((place, change))
        if isinstance(change, RenameTable):
            moved = [(place, replace(other, table=change.new_table)) for _, other in before]
            waiting.setdefault(change.new_table, []).extend(moved)
        elif isinstance(change, TruncateTable) and not change.copied:
            waiting[change.table] = [(place, other) for _, other in before]
        elif not isinstance(change, DropTable):
            found += before
    for rest in waiting.values():
        found += rest
    return [change for _, change in sorted(found, key=lambda entry: entry[0])]


def _without_alters(found: Sequence[tuple[int, SchemaChange]], last: DropTable) -> list[tuple[int, SchemaChange]]:
    """The changes without those that altered the columns of this table, or began a copy of it, since its creation."""
    kept: list[tuple[int, SchemaChange]] = []
    name: TableId | None = last.table
    for place, change in sorted(found, key=lambda entry: entry[0])[::-1]:  # those of one place turned round, too
        under_it = change.table == name
        if under_it and isinstance(change, (*ALTERATIONS, CreateShadow)):
            continue
        kept.append((place, change))
        if isinstance(change, RenameTable) and change.new_table == name:
            name = change.table
        elif under_it and isinstance(change, (CreateTable, RenameTable)):
            name = None  # what comes before is another table's
    return kept[::-1]
