"""Events of a source's tables, in log order. Frozen values.

All events of a batch precede its rows. A source that only reads a log derives them from its schema changes (`events`);
one that snapshots tables also reports when a snapshot begins, becomes void and is done. What follows for the sink is
decided in `cdc.tables`.
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
    """Why the rows of a table cannot be derived from the source's log from here on.

    Attributes:
        reason: for people.
        same_rows: the table still has rows with the same keys, with other values.
    """

    reason: str
    same_rows: bool = False

    def followed_by(self, later: Uncertain) -> Uncertain:
        """Combine both, before a snapshot of the table: rows removed by the one are not restored by the other."""
        reason = self.reason if later.reason in self.reason else f"{self.reason}; {later.reason}"
        return Uncertain(reason, self.same_rows and later.same_rows)


@dataclass(frozen=True, slots=True)
class TableCreated:
    """A source table exists from here on. Its rows are in the log, or are read by a snapshot (`by_snapshot`)."""

    table: TableId
    created: CreateTable
    by_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class TableChanged:
    """Columns, key or comment of a source table changed. `uncertain`: the log does not determine its later rows."""

    table: TableId
    change: Alteration
    uncertain: Uncertain | None = None


@dataclass(frozen=True, slots=True)
class RowsUncertain:
    """The rows of a source table cannot be derived from the log from here on; `gap`: a part of the log is lost."""

    table: TableId
    uncertain: Uncertain
    gap: bool = False


@dataclass(frozen=True, slots=True)
class TableTruncated:
    """A source table was emptied; the log has all rows inserted afterwards."""

    table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class TableDropped:
    """A source table was dropped."""

    table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class TableRenamed:
    """A source table got another name, which is captured too."""

    table: TableId
    new_table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class CaptureEnded:
    """A source table is no longer captured: it got a name that is not captured, or was excluded."""

    table: TableId
    why: str


@dataclass(frozen=True, slots=True)
class SnapshotVoid:
    """The rows read so far by the running snapshot are discarded. Precedes the event that is the reason."""

    table: TableId


@dataclass(frozen=True, slots=True)
class SnapshotBegun:
    """A snapshot of a table begins: all of its rows follow, with the source table's current schema.

    Attributes:
        keys_certain: the log determines which keys exist, so that rows may overwrite the existing ones.
        created: the table as a transform rule creates it, with its options; set by the engine. None for the schema
            only.
    """

    table: TableId
    keys_certain: bool = False
    created: CreateTable | None = None


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """All rows of a snapshot were sent, and the log has passed the moment at which the last of them was read."""

    table: TableId


SourceEvent = (
    TableCreated
    | TableChanged
    | RowsUncertain
    | TableTruncated
    | TableDropped
    | TableRenamed
    | CaptureEnded
    | SnapshotVoid
    | SnapshotBegun
    | SnapshotDone
)


def event(change: SchemaChange, uncertain: Uncertain | None = None) -> SourceEvent:
    """Convert a schema change of a source's log to an event. Raises ValueError for an operation of sinks only."""
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
            raise ValueError(f"{type(change).__name__} is not a change of a source's log")
        case _:
            return TableChanged(change.table, change, uncertain)


def events(changes: Iterable[SchemaChange]) -> list[SourceEvent]:
    """Convert the schema changes of a source's log to events."""
    return [event(change) for change in changes]


def changes(events: Iterable[SourceEvent]) -> list[SchemaChange]:
    """Return the schema changes of the log among the events."""
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


def schemas_after(schemas: Mapping[TableId, TableSchema], events: Iterable[SourceEvent]) -> dict[TableId, TableSchema]:
    """Return the schemas of a source's tables after the events, in order; does not modify `schemas`.

    Raises EngineError for a change that does not fit its table, ChangeRefused for column names that are not distinct.
    """
    found = dict(schemas)
    for each in events:
        advance_schemas(found, each)
    return found


def advance_schemas(schemas: dict[TableId, TableSchema], event: SourceEvent) -> None:
    """Update the schemas of a source's tables with one event. Raises the same errors as `schemas_after`."""
    match event:
        case TableCreated(table=table, created=created):
            schemas[table] = _with_distinct_names(table, created.schema)
        case SnapshotBegun(table=table, created=CreateTable(schema=schema)):
            schemas[table] = _with_distinct_names(table, schema)
        case TableChanged(table=table, change=change):
            changed = apply_change(schemas.get(table), change)
            assert changed is not None, "only a dropped table has no schema"
            schemas[table] = _with_distinct_names(table, changed)
        case TableDropped(table=table) | CaptureEnded(table=table):
            schemas.pop(table, None)
        case TableRenamed(table=table, new_table=new_table):
            renamed = {name: schemas.pop(name) for name in (table, new_table) if name in schemas}
            schemas |= apply_changes(renamed, [RenameTable(table, new_table)])
        case _:
            pass


def _with_distinct_names(table: TableId, schema: TableSchema) -> TableSchema:
    """Return the schema. Names are case-insensitive here, while a source may have both `masse` and `maße`."""
    folded: dict[str, str] = {}
    for name in schema.names:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            reason = f"its columns {other} and {name} are the same here, as names are case-insensitive"
            hint = "give one of them another name in the source, or exclude the table with tables.exclude"
            raise ChangeRefused(reason, where=str(table), hint=hint)
    return schema
