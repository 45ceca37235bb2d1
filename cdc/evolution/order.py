"""Reorders the schema changes of a batch so that a sink refuses as few as possible. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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


def table_changes_first(changes: Sequence[SchemaChange], before: Collection[TableId] = ()) -> list[SchemaChange]:
    """Move changes of a table's columns after the changes of the table as a whole.

    No rows are written in between, so the result is the same: a table that is dropped need not be altered or copied
    before, and one that is emptied or renamed can be altered afterwards. Other changes keep their places. `before` are
    the sink's tables before the changes: a CreateTable of one of them adds columns that it lacks. An earlier try of the
    batch may have dropped or renamed a table already, so that it is not there under the name it had.
    """
    found: list[tuple[int, SchemaChange]] = []
    waiting: dict[TableId, list[tuple[int, SchemaChange]]] = {}
    existing = set(before)
    for index, change in enumerate(changes):
        alters = isinstance(change, (*ALTERATIONS, CreateShadow))
        if alters or (isinstance(change, CreateTable) and change.table in existing):
            waiting.setdefault(change.table, []).append((index, change))
            continue
        altered = waiting.pop(change.table, [])
        found.append((index, change))
        kept = [other for _, other in altered if not isinstance(other, CreateShadow)]  # a shadow table goes, too
        if isinstance(change, RenameTable):
            existing = (existing - {change.table}) | {change.new_table}
            moved = [(index, replace(other, table=change.new_table)) for other in kept]
            waiting.setdefault(change.new_table, []).extend(moved)
        elif isinstance(change, TruncateTable) and not change.copied:
            waiting[change.table] = [(index, other) for other in kept]
        elif isinstance(change, DropTable):
            existing.discard(change.table)
        else:
            found += altered
    for remaining in waiting.values():
        found += remaining
    return [change for _, change in sorted(found, key=lambda entry: entry[0])]
