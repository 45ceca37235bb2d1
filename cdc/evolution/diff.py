"""Computes the schema changes between an old and a new schema. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cdc.schema import (
    LAST,
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateTable,
    DropColumn,
    DropTable,
    Position,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
)

Origins = Mapping[str, str | None]
"""Old column name by new column name; None for an added column."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table's id and schema: one side of a diff."""

    id: TableId
    schema: TableSchema


@dataclass(frozen=True, slots=True)
class Hints:
    """Information about two schemas that the schemas themselves do not have.

    Attributes:
        origins: the old column of each new one; None matches columns by case-insensitive name.
        fills: values of added columns in existing rows, by name, where they are not the column's default.
    """

    origins: Origins | None = None
    fills: Mapping[str, str | None] = field(default_factory=dict)


def diff(old: Table | None, new: Table | None, hints: Hints | None = None) -> list[SchemaChange]:
    """Return the changes from `old` to `new`: applied in order to a table with `old`'s schema they give `new`'s.

    Order: rename of the table, dropped columns, new types (under the old column names), renamed columns (those that
    exchange names in one change), added columns, primary key, comment. Columns of an old key are dropped after the new
    key is there: what is left of the old one identifies no rows. Columns on both sides keep their order, as no schema
    change moves a column.
    """
    if new is None:
        return [] if old is None else [DropTable(old.id)]
    if old is None:
        return [CreateTable(new.id, new.schema)]
    hints = hints or Hints()
    before, after = old.schema, new.schema
    origins = _by_name(before, after) if hints.origins is None else hints.origins
    changes: list[SchemaChange] = [] if old.id == new.id else [RenameTable(old.id, new.id)]
    columns = _column_changes(new.id, before, after, origins, hints.fills)
    if _key_after(before, origins) != after.primary_key:
        late = [one for one in columns if isinstance(one, DropColumn) and _can_go_late(one.name, before, after)]
        columns = [*(one for one in columns if one not in late), AlterPrimaryKey(new.id, after.primary_key), *late]
    changes += columns
    if before.comment != after.comment:
        changes.append(AlterTableComment(new.id, after.comment))
    return changes


def _can_go_late(name: str, before: TableSchema, after: TableSchema) -> bool:
    """Whether a dropped column is part of the old key, and no column gets its name."""
    return name in before.primary_key and name.lower() not in {other.lower() for other in after.names}


def _by_name(before: TableSchema, after: TableSchema) -> Origins:
    names = {name.lower(): name for name in before.names}
    return {name: names.get(name.lower()) for name in after.names}


def _column_changes(
    table: TableId, before: TableSchema, after: TableSchema, origins: Origins, fills: Mapping[str, str | None]
) -> list[SchemaChange]:
    new_names = {origin: name for name, origin in origins.items() if origin is not None}
    common = {name: new_names[name] for name in before.names if name in new_names}
    dropped = [name for name in before.names if name not in common]
    added = [
        AddColumn(table, _filled(after.column(name), fills), _position(after.names, name, origins))
        for name in after.names
        if origins[name] is None
    ]
    if not common and dropped:
        return _replaced(table, dropped, added)
    changes: list[SchemaChange] = [DropColumn(table, name) for name in dropped]
    new_columns = {column.name: column for column in after.columns}
    for old_column in before.columns:
        if old_column.name not in common:
            continue
        column = replace(new_columns[common[old_column.name]], name=old_column.name)
        if column != old_column or column.respells(old_column):
            changes.append(AlterColumnType(table, column, old_column))
    changes += _renames(table, common)
    return [*changes, *added]


def _filled(column: Column, fills: Mapping[str, str | None]) -> Column:
    return replace(column, default=fills[column.name]) if column.name in fills else column


def _replaced(table: TableId, dropped: list[str], added: list[AddColumn]) -> list[SchemaChange]:
    """Replace all columns: add before dropping, as most systems do not allow tables without columns."""
    names = {change.column.name.lower() for change in added}
    changes: list[SchemaChange] = []
    leaving = []
    for name in dropped:
        temporary = name
        if name.lower() in names:
            temporary = _spare_name(name, {*names, *(other.lower() for other in dropped)})
            changes.append(RenameColumn(table, name, temporary))
        leaving.append(DropColumn(table, temporary))
    return [*changes, *(replace(change, position=LAST) for change in added), *leaving]


def _renames(table: TableId, kept: Mapping[str, str]) -> list[SchemaChange]:
    """Return independent renames as single changes, those in which columns exchange names as one change."""
    pending = {old.lower(): (old, new) for old, new in kept.items() if old != new}
    changes: list[SchemaChange] = []
    while pending:
        group = _group(pending)
        if len(group) == 1:
            changes.append(RenameColumn(table, *group[0]))
        else:
            changes.append(RenameColumns(table, tuple(group)))
    return changes


def _group(pending: dict[str, tuple[str, str]]) -> list[tuple[str, str]]:
    """Remove and return the first rename and all renames connected with it by a common name, in their order."""
    names = {next(iter(pending))}
    while True:
        more = {key for key, (_, new) in pending.items() if key in names or new.lower() in names}
        more |= {pending[key][1].lower() for key in more} & pending.keys()
        if more <= names:
            return [pending.pop(key) for key in list(pending) if key in names]
        names |= more


def _spare_name(name: str, taken: Iterable[str]) -> str:
    return next(candidate for n in range(1, 10000) if (candidate := f"{name}_{n}").lower() not in set(taken))


def _position(names: tuple[str, ...], name: str, origins: Origins) -> Position:
    index = names.index(name)
    if all(origins[later] is None for later in names[index + 1 :]):
        return LAST
    return Position(first=True) if index == 0 else Position(after=names[index - 1])


def _key_after(before: TableSchema, origins: Origins) -> tuple[str, ...]:
    """Return the key after columns were dropped and renamed."""
    new_names = {origin: name for name, origin in origins.items() if origin is not None}
    return tuple(new_names[name] for name in before.primary_key if name in new_names)
