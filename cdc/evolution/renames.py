"""Renames of several columns at once, where one gets the former name of another. Pure.

    ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a;

Such a change is applied as a whole or not at all: with a part of it, or with rows matched by name, values of two
columns would be mixed in one. Names are case-insensitive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_change
from cdc.evolution.merge import find
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    RenameColumn,
    RenameColumns,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.types.common import common_type

_SPARE = "_cdc_renamed"
_LEAVE_OUT = "or exclude the table (tables.exclude) for a run and take it in again: it is re-snapshotted then"


def in_turn(changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """Replace each exchange of names by single renames, with a temporary name for a cycle.

    For systems that rename one column at a time. Deterministic, so that a partly applied list can be continued.
    """
    return [step for change in changes for step in _in_turn(change)]


def _in_turn(change: SchemaChange) -> Iterator[SchemaChange]:
    if not isinstance(change, RenameColumns):
        yield change
        return
    pending = {old.casefold(): (old, new) for old, new in change.names}
    while pending:
        free = next((key for key, (_, new) in pending.items() if new.casefold() not in pending), None)
        if free is None:
            old, new = pending.pop(next(iter(pending)))
            yield _one(change, old, _SPARE)
            pending[_SPARE] = (_SPARE, new)
        else:
            yield _one(change, *pending.pop(free))


def _one(change: RenameColumns, old: str, new: str) -> RenameColumn:
    return RenameColumn(change.table, old, new, statement=change.statement)


def exchanged(change: RenameColumns, sink: TableSchema) -> tuple[SchemaChange, ...]:
    """Return the change for the sink's table, without columns that it lacks.

    Raises ChangeRefused where a new name is that of a column that keeps it.
    """
    names = [(existing.name, new) for old, new in change.names if (existing := find(sink, old)) is not None]
    _check_free(change.table, names, sink)
    return _renames(change, names)


def exchanged_leniently(
    change: RenameColumns, sink: TableSchema, source: TableSchema | None
) -> tuple[tuple[SchemaChange, ...], list[str]]:
    """Return the change without loss of a column, and the names of columns that stay without values.

    A key column, or one whose name another column gets, is renamed; any other stays, and its new name is added as a
    column of its own. Raises ChangeRefused as `exchanged` does.
    """
    new_names = {new.casefold() for _, new in change.names}
    moved, stay, missing = list[tuple[str, str]](), list[tuple[str, str]](), list[str]()
    for old, new in change.names:
        existing = find(sink, old)
        if existing is None:
            missing.append(new)
        elif old.casefold() in new_names or existing.name in sink.primary_key:
            moved.append((existing.name, new))
        else:
            stay.append((existing.name, new))
    _check_free(change.table, moved, sink)
    changes = list(_renames(change, moved))
    after: TableSchema | None = sink
    for each in changes:
        after = apply_change(after, each)
    assert after is not None, "a table that renames columns is there"
    for old, _ in stay:
        changes += _nullable(change.table, after.column(old))
    for new in [new for _, new in stay] + missing:
        column = None if source is None else find(source, new)
        changes += [] if column is None else _add_or_widen(change.table, after, column)
    return tuple(changes), [old for old, _ in stay]


def check_held_back(change: RenameColumns, sink: TableSchema) -> None:
    """Raise ChangeRefused where skipping the change would write values to another column."""
    conflicting = [new for _, new in change.names if find(sink, new) is not None]
    if conflicting:
        raise ChangeRefused(
            f"columns exchange their names ({pairs(change)}), and that may not be carried out: values of one column "
            f"would get into {' and '.join(conflicting)} of the sink, which has those of another",
            where=str(change.table),
            hint=f"let rename.column through, with evolve or lenient and the filters of the sink; {_LEAVE_OUT}",
        )


def pairs(change: RenameColumns) -> str:
    """Format old and new names."""
    return ", ".join(f"{old} to {new}" for old, new in change.names)


def _renames(change: RenameColumns, names: Sequence[tuple[str, str]]) -> tuple[SchemaChange, ...]:
    names = [(old, new) for old, new in names if old != new]
    if len(names) == 1:
        return (RenameColumn(change.table, *names[0]),)
    return (RenameColumns(change.table, tuple(names)),) if names else ()


def _check_free(table: TableId, names: Sequence[tuple[str, str]], sink: TableSchema) -> None:
    leaving = {old for old, _ in names}
    for old, new in names:
        existing = find(sink, new)
        if existing is not None and existing.name not in leaving:
            raise ChangeRefused(
                f"column {old} cannot be renamed to {new} together with others: the sink's table has such a column, "
                "which is gone from the source",
                where=str(table),
                hint=f"route the table to another one; {_LEAVE_OUT}",
            )


def _nullable(table: TableId, existing: Column) -> list[SchemaChange]:
    return [] if existing.nullable else [AlterColumnType(table, replace(existing, nullable=True), existing)]


def _add_or_widen(table: TableId, sink: TableSchema, column: Column) -> list[SchemaChange]:
    existing, new = find(sink, column.name), replace(column, nullable=True, default=None)
    if existing is None:
        return [AddColumn(table, new)]
    wide = replace(existing, type=common_type(existing.type, new.type), nullable=True)
    return [] if wide == existing else [AlterColumnType(table, wide, existing, keeps=True)]
