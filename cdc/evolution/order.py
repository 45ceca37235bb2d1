"""Reorders the schema changes of a batch so that a sink refuses as few as possible. Pure."""

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


def table_changes_first(changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """Move changes of a table's columns after the changes of the table as a whole.

    No rows are written in between, so the result is the same: a table that is dropped need not be altered or copied
    before, and one that is emptied or renamed can be altered afterwards. Other changes keep their places.
    """
    found: list[tuple[int, SchemaChange]] = []
    waiting: dict[TableId, list[tuple[int, SchemaChange]]] = {}
    for index, change in enumerate(changes):
        if isinstance(change, ALTERATIONS):
            waiting.setdefault(change.table, []).append((index, change))
            continue
        before = waiting.pop(change.table, [])
        if isinstance(change, DropTable):
            found = _without_alters(found, change)
        found.append((index, change))
        if isinstance(change, RenameTable):
            moved = [(index, replace(other, table=change.new_table)) for _, other in before]
            waiting.setdefault(change.new_table, []).extend(moved)
        elif isinstance(change, TruncateTable) and not change.copied:
            waiting[change.table] = [(index, other) for _, other in before]
        elif not isinstance(change, DropTable):
            found += before
    for remaining in waiting.values():
        found += remaining
    return [change for _, change in sorted(found, key=lambda entry: entry[0])]


def _without_alters(found: Sequence[tuple[int, SchemaChange]], last: DropTable) -> list[tuple[int, SchemaChange]]:
    """Remove the changes since the table's creation that altered its columns or began a copy of it."""
    others: list[tuple[int, SchemaChange]] = []
    name: TableId | None = last.table
    for index, change in sorted(found, key=lambda entry: entry[0])[::-1]:  # also reverses the changes of one place
        under_it = change.table == name
        if under_it and isinstance(change, (*ALTERATIONS, CreateShadow)):
            continue
        others.append((index, change))
        if isinstance(change, RenameTable) and change.new_table == name:
            name = change.table
        elif under_it and isinstance(change, (CreateTable, RenameTable)):
            name = None  # earlier changes are of another table
    return others[::-1]
