"""The effect of a source's schema change on a sink table: Flink CDC's five behaviors and its filters. Pure.

| change | evolve, try_evolve | lenient | ignore | exception |
|---|---|---|---|---|
| create.table | applied | applied | applied | applied |
| add.column | applied | added last, nullable | skipped | the run stops |
| alter.column.type | applied | widened to hold old and new values | skipped | the run stops |
| rename.column | applied | the new name is added, the old column stays, nullable | skipped | the run stops |
| rename.column of columns that exchange names | applied | applied | the run stops | the run stops |
| drop.column | applied | the column stays, nullable | skipped | the run stops |
| truncate.table, drop.table | applied | skipped unless `exclude.schema.changes` is `[]` | skipped | the run stops |
| rename.table, alter.table.comment | applied | applied | skipped | the run stops |
| alter.primary.key | applied | applied | the run stops | the run stops |

When the rename or drop of a column is skipped for any reason, the column is NULL in later rows, so it becomes nullable.
A change that does not fit the sink's table because an earlier one was skipped is adapted: an existing column is
widened, and a column after a missing one is added last. With try_evolve a change that the sink refuses is skipped
(`cdc.flow.attempt`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cdc.errors import ChangeRefused
from cdc.evolution.merge import find
from cdc.evolution.renames import check_held_back, exchanged, exchanged_leniently, pairs
from cdc.schema import (
    LAST,
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    CreateTable,
    DropColumn,
    DropTable,
    Position,
    RenameColumn,
    RenameColumns,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.schema_json import change_name
from cdc.types.certain import uncertain
from cdc.types.common import common_type
from cdc.types.kinds import RANGES, TEXTS


class Behavior(StrEnum):
    """The values of `schema.change.behavior`."""

    EXCEPTION = "exception"
    EVOLVE = "evolve"
    TRY_EVOLVE = "try_evolve"
    LENIENT = "lenient"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Policy:
    """The behavior and the filters of schema changes.

    Attributes:
        include: names or parts of names (`add`, `column`, `add.column`); None for all. create.table is always included.
        exclude: exceptions from `include`; None when the key is not set, which matters to lenient.
    """

    behavior: Behavior = Behavior.LENIENT
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None

    def allows(self, change: SchemaChange) -> bool:
        """Whether the filters allow a change."""
        name = change_name(change)
        if self.exclude is None and self.behavior is Behavior.LENIENT and name in _LEFT_OUT:
            return False
        if _is_named_by(name, self.exclude or ()):
            return False
        return self.include is None or isinstance(change, CreateTable) or _is_named_by(name, self.include)

    def __str__(self) -> str:
        """Describe the handling of schema changes in one line."""
        filters = [
            f"{verb} {', '.join(names) or 'nothing'}"
            for verb, names in (("including", self.include), ("excluding", self.exclude))
            if names is not None
        ]
        return ", ".join([self.behavior.value, *filters])

    @property
    def adds_columns(self) -> bool:
        """Whether behavior and filters allow adding columns to existing tables."""
        if self.behavior is Behavior.IGNORE:
            return False
        return not _is_named_by("add.column", self.exclude or ()) and (
            self.include is None or _is_named_by("add.column", self.include)
        )

    @property
    def mirrors(self) -> bool:
        """Whether rows removed from the source table may be removed from the sink table."""
        return self.behavior is not Behavior.IGNORE and self.allows(TruncateTable(TableId("", "")))

    @property
    def exact(self) -> bool:
        """Whether every change is applied unchanged."""
        return self.behavior in (Behavior.EVOLVE, Behavior.EXCEPTION) and self.include is None and not self.exclude


_LEFT_OUT = ("truncate.table", "drop.table")


def _is_named_by(name: str, chosen: tuple[str, ...]) -> bool:
    return any(each in (name, "all", *name.split(".")) for each in chosen)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effect of one change on one sink table.

    Attributes:
        changes: the changes to apply, in order.
        held: what is skipped, in words that follow the table's name; empty for nothing.
    """

    changes: tuple[SchemaChange, ...] = ()
    held: str = ""


def behave(policy: Policy, change: SchemaChange, sink: TableSchema, source: TableSchema | None) -> Outcome:
    """Return the changes to apply to an existing sink table.

    Args:
        change: with the sink's table name; neither CreateTable nor RenameTable.
        sink: the sink table's schema before the change.
        source: the source table's schema after the change, None when it was dropped.

    Raises ChangeRefused with the behavior `exception`, and when a change of the key or an exchange of names is not
    allowed.
    """
    behavior = policy.behavior
    if isinstance(change, AlterColumnType) and change.column == change.old:  # only the source's own type changed
        applied = behavior not in (Behavior.EXCEPTION, Behavior.IGNORE) and policy.allows(change)
        return fit_change(change, sink) if applied else Outcome()
    if behavior is Behavior.EXCEPTION:
        raise ChangeRefused(
            f"the source or an edited rule changed the table ({described(change)}), "
            "and schema.change.behavior is exception",
            where=str(change.table),
            hint="write evolve or lenient to carry such changes out, or ignore, and start again",
        )
    if behavior is Behavior.IGNORE or not policy.allows(change):
        if isinstance(change, RenameColumns):
            check_held_back(change, sink)
        key = _key_after(change, sink)
        if {name.casefold() for name in key} != {name.casefold() for name in sink.primary_key}:
            raise _another_key(change, key, sink)
        why = "ignored" if behavior is Behavior.IGNORE else "left out"
        return Outcome(_without_values(change, sink), held=f"{described(change)} is {why}: {_effect(change, sink)}")
    if behavior is Behavior.LENIENT:
        return _lenient(change, sink, source)
    return fit_change(change, sink)


def described(change: SchemaChange) -> str:
    """Describe a change briefly: its name and the column."""
    match change:
        case AddColumn(column=column) | AlterColumnType(column=column):
            return f"{change_name(change)} {column.name} {column.type}"
        case RenameColumn(old_name=old_name, new_name=new_name):
            return f"{change_name(change)} {old_name} to {new_name}"
        case RenameColumns():
            return f"{change_name(change)} {pairs(change)}"
        case DropColumn(name=name):
            return f"{change_name(change)} {name}"
        case _:
            return change_name(change)


def _effect(change: SchemaChange, sink: TableSchema) -> str:
    match change:
        case AddColumn(column=column):
            return _values_of(column.name, sink)
        case AlterColumnType(column=column):
            return f"{column.name} keeps its type"
        case RenameColumn(old_name=old_name, new_name=new_name) if old_name.casefold() == new_name.casefold():
            return f"{old_name} keeps its name"
        case RenameColumn(old_name=old_name, new_name=new_name):
            return f"{_values_of(new_name, sink)}, {old_name} is NULL from now on"
        case RenameColumns(names=names):
            return f"{', '.join(old for old, _ in names)} stay, NULL from now on"
        case DropColumn(name=name):
            return f"{name} stays, NULL from now on"
        case TruncateTable():
            return "its rows stay"
        case DropTable():
            return "the table stays"
        case _:
            return "the table stays as it is"


def _values_of(name: str, sink: TableSchema) -> str:
    if find(sink, name) is None:
        return f"values of {name} do not get into the sink"
    return f"values of {name} get into the sink's column of that name, where existing rows keep what they have"


def fit_change(change: SchemaChange, sink: TableSchema) -> Outcome:
    """Return the change if it fits the sink's table, or else the nearest one that does."""
    match change:
        case AddColumn(column=column, position=position):
            existing = find(sink, column.name)
            if existing is not None:
                return Outcome(_widened(change, existing, replace(column, nullable=True)))
            return Outcome((replace(change, position=_position(position, sink)),))
        case AlterColumnType(column=column, old=old):
            existing = find(sink, column.name)
            if existing is None:
                return Outcome(held=f"{described(change)}: the sink's table has no such column")
            if old is None or existing.type == old.type:
                return Outcome((replace(change, column=replace(column, name=existing.name)),))
            return Outcome(_widened(change, existing, column))
        case RenameColumn(old_name=old_name, new_name=new_name):
            return _renamed(change, find(sink, old_name), find(sink, new_name))
        case RenameColumns():
            return Outcome(exchanged(change, sink))
        case DropColumn(name=name):
            existing = find(sink, name)
            return Outcome() if existing is None else Outcome((DropColumn(change.table, existing.name),))
        case AlterPrimaryKey(primary_key=key):
            found = [find(sink, name) for name in key]
            if any(column is None for column in found):
                raise _another_key(change, key, sink)
            names = tuple(column.name for column in found if column is not None)
            return Outcome((AlterPrimaryKey(change.table, names),))
        case _:
            return Outcome((change,))


def _renamed(change: RenameColumn, existing: Column | None, taken: Column | None) -> Outcome:
    if existing is None:
        return Outcome(held=f"{described(change)}: the sink's table has no column {change.old_name}")
    if taken is not None and taken is not existing:
        return Outcome(
            held=f"{described(change)}: the sink's table has both columns, {existing.name} is NULL from now on"
        )
    return Outcome((RenameColumn(change.table, existing.name, change.new_name),))


def _position(position: Position, sink: TableSchema) -> Position:
    if position.after is None:
        return position
    existing = find(sink, position.after)
    return LAST if existing is None else Position(after=existing.name)


def _widened(change: AddColumn | AlterColumnType, existing: Column, new: Column) -> tuple[SchemaChange, ...]:
    """Return the change that widens the sink's column to hold the values of both."""
    wide = replace(
        existing,
        type=common_type(existing.type, new.type),
        nullable=existing.nullable or new.nullable,
        comment=new.comment or existing.comment,
        source_type=_own_type_of_both(existing, new),
    )
    if wide == existing and wide.source_type == existing.source_type:
        return ()
    copied = isinstance(change, AlterColumnType) and change.copied
    return (AlterColumnType(change.table, wide, existing, copied, _keeps(change, existing, wide)),)


def _own_type_of_both(existing: Column, new: Column) -> str:
    """The source's own type for the values of both; sinks keep the labels of an ENUM that a new one lacks."""
    if existing.type == new.type and existing.source_type:
        return new.source_type
    return existing.source_type if existing.source_type == new.source_type else ""


def _keeps(change: AddColumn | AlterColumnType, existing: Column, wide: Column) -> bool:
    """Whether existing values are still equal to the source's: it did not convert them, or did so without a change.

    Numbers and text of the old type have one spelling, even in a wider sink column; other types do not.
    """
    if isinstance(change, AddColumn) or change.keeps:
        return True
    if wide.type.kind not in TEXTS or change.old is None or uncertain(change.column.type, change.old.type) is not None:
        return False
    return existing.type == change.old.type or existing.type.kind in {*RANGES, *TEXTS}


def _lenient(change: SchemaChange, sink: TableSchema, source: TableSchema | None) -> Outcome:
    match change:
        case AddColumn(column=column):
            existing = find(sink, column.name)
            notice = (
                "" if existing is None else f"{described(change)}: existing rows keep what they have in {existing.name}"
            )
            return Outcome(_add_or_widen(change, sink, column), notice)
        case AlterColumnType(column=column):
            existing = find(sink, column.name)
            if existing is None:
                return Outcome(_add_or_widen(AddColumn(change.table, column), sink, column))
            wide = _widened(change, existing, column)
            narrower = common_type(existing.type, column.type) != column.type
            return Outcome(
                wide, f"{described(change)}: {existing.name} stays wide enough for all values" if narrower else ""
            )
        case RenameColumn(old_name=old_name, new_name=new_name):
            return _lenient_rename(change, sink, source, old_name, new_name)
        case RenameColumns():
            exchange, stay = exchanged_leniently(change, sink, source)
            return Outcome(exchange, f"{described(change)}: {', '.join(stay)} stays, NULL from now on" if stay else "")
        case DropColumn(name=name):
            existing = find(sink, name)
            if existing is None:
                return Outcome()
            changes = (*_out_of_key(change, sink, existing), *_nullable(change, existing))
            return Outcome(changes, f"{described(change)}: it stays, NULL from now on")
        case _:
            return fit_change(change, sink)


def _lenient_rename(
    change: RenameColumn, sink: TableSchema, source: TableSchema | None, old_name: str, new_name: str
) -> Outcome:
    existing, column = find(sink, old_name), None if source is None else find(source, new_name)
    if column is None or (existing is not None and existing is find(sink, new_name)):
        return Outcome()  # the names differ only in case, which sinks ignore
    if existing is not None and existing.name in sink.primary_key:  # a key column cannot stay, NULL, next to a new one
        return fit_change(change, sink)
    added = _add_or_widen(AddColumn(change.table, column), sink, replace(column, default=None))
    if existing is None:
        return Outcome(added)
    held = f"{described(change)}: {new_name} is a column of its own, {existing.name} stays, NULL from now on"
    return Outcome((*added, *_nullable(change, existing)), held)


def _add_or_widen(change: AddColumn, sink: TableSchema, column: Column) -> tuple[SchemaChange, ...]:
    existing, new = find(sink, column.name), replace(column, nullable=True)
    return (AddColumn(change.table, new),) if existing is None else _widened(change, existing, new)


def _nullable(change: SchemaChange, existing: Column) -> tuple[SchemaChange, ...]:
    return () if existing.nullable else (AlterColumnType(change.table, replace(existing, nullable=True), existing),)


def _without_values(change: SchemaChange, sink: TableSchema) -> tuple[SchemaChange, ...]:
    """Make columns nullable that are NULL or without values in later rows, which could not be written otherwise."""
    match change:
        case DropColumn(name=name) | RenameColumn(old_name=name):
            names = [name]
        case RenameColumns(names=pairs_of):
            names = [old for old, _ in pairs_of]
        case AlterColumnType(column=column) if column.nullable:
            names = [column.name]
        case _:
            names = []
    found = [
        existing
        for name in names
        if (existing := find(sink, name)) is not None and existing.name not in sink.primary_key
    ]
    return tuple(each for existing in found for each in _nullable(change, existing))


def _out_of_key(change: DropColumn, sink: TableSchema, existing: Column) -> tuple[SchemaChange, ...]:
    if existing.name not in sink.primary_key:
        return ()
    return (AlterPrimaryKey(change.table, tuple(name for name in sink.primary_key if name != existing.name)),)


def _key_after(change: SchemaChange, sink: TableSchema) -> tuple[str, ...]:
    """Return the key of the sink table's rows after a change that is not applied to the table."""
    match change:
        case AlterPrimaryKey(primary_key=key):
            return key
        case DropColumn(name=name):
            return tuple(each for each in sink.primary_key if each.casefold() != name.casefold())
        case RenameColumn(old_name=old_name, new_name=new_name):
            renamed = {old_name.casefold(): new_name}
        case RenameColumns(names=names):
            renamed = {old.casefold(): new for old, new in names}
        case _:
            return sink.primary_key
    return tuple(renamed.get(each.casefold(), each) for each in sink.primary_key)


def _another_key(change: SchemaChange, key: Sequence[str], sink: TableSchema) -> ChangeRefused:
    return ChangeRefused(
        f"the source's key is ({', '.join(key)}) now, the sink's table keeps ({', '.join(sink.primary_key)}): its rows "
        "could not be told apart",
        where=str(change.table),
        hint=f"write evolve or lenient and leave {change_name(change)} in, or route the table to another one",
    )
