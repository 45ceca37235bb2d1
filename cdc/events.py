"""Events that a source tells of its tables, in the order of its log. Frozen values.

All events of a batch come before its rows. A source that only reads a log makes them of its schema changes (`events`);
one that snapshots tables tells besides when a snapshot begins, is void and is done. It says nothing of what the sink
makes of that (`cdc.tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_change, apply_changes
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    CreateShadow,
    CreateTable,
    DropColumn,
    DropShadow,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SourceStatement,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)

Alteration = (
    AddColumn | AlterColumnType | AlterPrimaryKey | AlterTableComment | DropColumn | RenameColumn | RenameColumns
)


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Why a source's log does not tell the rows of a table from here on.

    Attributes:
        reason: for people.
        same_rows: there are the same rows by their key, with other values.
    """

    reason: str
    same_rows: bool = False

    def followed_by(self, later: Uncertain) -> Uncertain:
        """Both, before a snapshot of the table: rows that one of them took away do not come back by the other."""
        reason = self.reason if later.reason in self.reason else f"{self.reason}; {later.reason}"
        return Uncertain(reason, self.same_rows and later.same_rows)


@dataclass(frozen=True, slots=True)
class TableCreated:
    """A source table is there from here on. Its rows are in the log, or a snapshot brings them (`by_snapshot`)."""

    table: TableId
    created: CreateTable
    by_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class TableChanged:
    """Columns, key or comment of a source table are changed. `uncertain`: the log does not tell the rows behind it."""

    table: TableId
    change: Alteration
    uncertain: Uncertain | None = None


@dataclass(frozen=True, slots=True)
class RowsUncertain:
    """The log does not tell the rows of a source table from here on; with `gap` a part of the log is lost."""

    table: TableId
    uncertain: Uncertain
    gap: bool = False


@dataclass(frozen=True, slots=True)
class TableTruncated:
    """A source table is emptied; the log has all rows that it gets since."""

    table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class TableDropped:
    """A source table is gone."""

    table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class TableRenamed:
    """A source table has another name, which is captured too."""

    table: TableId
    new_table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class TableLeft:
    """A source table is not followed any more: it got a name that is not captured, or is excluded since."""

    table: TableId
    why: str


@dataclass(frozen=True, slots=True)
class SnapshotVoid:
    """The rows that the running snapshot has read do not count. Comes before the event that makes it so."""

    table: TableId


@dataclass(frozen=True, slots=True)
class SnapshotBegun:
    """A snapshot of a table begins: all of its rows come, with the schema that the source table has by now.

    Attributes:
        keys_certain: the log tells which keys there are, so that rows may be written over those that are there.
        created: the table as a transform rule makes it, with its options; the engine sets it. None for the schema
            alone.
    """

    table: TableId
    keys_certain: bool = False
    created: CreateTable | None = None


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """All rows of a snapshot came, and the log is behind the last of them."""

    table: TableId


SourceEvent = (
    TableCreated
    | TableChanged
    | RowsUncertain
    | TableTruncated
    | TableDropped
    | TableRenamed
    | TableLeft
    | SnapshotVoid
    | SnapshotBegun
    | SnapshotDone
)


def event(change: SchemaChange, uncertain: Uncertain | None = None) -> SourceEvent:
    """The event that a schema change of a source's log is. Raises ValueError for an operation that only sinks have."""
    match change:
        case CreateTable(table=table):
            return TableCreated(table, change)
        case DropTable(table=table, statement=statement):
            return TableDropped(table, statement)
        case RenameTable(table=table, new_table=new_table, statement=statement):
            return TableRenamed(table, new_table, statement)
        case TruncateTable(table=table, statement=statement):
            return TableTruncated(table, statement)
        case CreateShadow() | SwapShadow() | DropShadow():
            raise ValueError(f"{type(change).__name__} is no change of a source's log")
        case _:
            return TableChanged(change.table, change, uncertain)


def events(changes: Iterable[SchemaChange]) -> list[SourceEvent]:
    """The events that the schema changes of a source's log are."""
    return [event(change) for change in changes]


def changes(events: Iterable[SourceEvent]) -> list[SchemaChange]:
    """The schema changes of the log among events."""
    return [change for each in events if (change := _change(each)) is not None]


def _change(event: SourceEvent) -> SchemaChange | None:
    match event:
        case TableCreated(created=change) | TableChanged(change=change):
            return change
        case TableDropped(table=table, statement=statement):
            return DropTable(table, statement=statement)
        case TableRenamed(table=table, new_table=new_table, statement=statement):
            return RenameTable(table, new_table, statement=statement)
        case TableTruncated(table=table, statement=statement):
            return TruncateTable(table, statement=statement)
        case _:
            return None


def schemas_behind(schemas: Mapping[TableId, TableSchema], events: Iterable[SourceEvent]) -> dict[TableId, TableSchema]:
    """The schemas of a source's tables behind events, in order; `schemas` stays as it is.

    Raises EngineError for a change that does not fit its table, ChangeRefused for columns that nobody tells apart.
    """
    found = dict(schemas)
    for each in events:
        advance_schemas(found, each)
    return found


def advance_schemas(schemas: dict[TableId, TableSchema], event: SourceEvent) -> None:
    """Bring the schemas of a source's tables behind one event. Raises EngineError as `schemas_behind`."""
    match event:
        case TableCreated(table=table, created=created):
            schemas[table] = _with_distinct_names(table, created.schema)
        case SnapshotBegun(table=table, created=CreateTable(schema=schema)):
            schemas[table] = _with_distinct_names(table, schema)
        case TableChanged(table=table, change=change):
            changed = apply_change(schemas.get(table), change)
            assert changed is not None, "only a dropped table has no schema"
            schemas[table] = _with_distinct_names(table, changed)
        case TableDropped(table=table) | TableLeft(table=table):
            schemas.pop(table, None)
        case TableRenamed(table=table, new_table=new_table):
            renamed = {name: schemas.pop(name) for name in (table, new_table) if name in schemas}
            schemas |= apply_changes(renamed, [RenameTable(table, new_table)])
        case _:
            pass


def _with_distinct_names(table: TableId, schema: TableSchema) -> TableSchema:
    """The schema. Names count whatever their case here, and a source may have `masse` beside of `maße`."""
    folded: dict[str, str] = {}
    for name in schema.names:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            reason = f"its columns {other} and {name} are one here, as names count whatever their case"
            hint = "give one of them another name in the source, or leave the table out with tables.exclude"
            raise ChangeRefused(reason, where=str(table), hint=hint)
    return schema
