"""The schemas of one pipeline: maintained by the stream reader as it follows the log, read by driver and tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING

from cdc.events import CaptureEnded, RowsUncertain, SourceEvent, TableChanged, TableRenamed, event
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterTableComment,
    Column,
    CreateTable,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.source import Count
from cdc.state.store import Store
from connectors.mysql.ddl.catalog import DdlResult, TableDefinitions
from connectors.mysql.ddl.delta import Mark, table_to_json
from connectors.mysql.options import LogOptions
from connectors.mysql.schema.history import SchemaEntry, SchemaHistory
from connectors.mysql.schema.tracker import Reread, Tracker, Unlogged
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.table import MySqlTable, table_schema
from connectors.shared.ddl.dialect import DdlDialect

if TYPE_CHECKING:
    from connectors.mysql.rows.decoder import Decoder

Captures = Callable[[TableId], bool]


RUNS = 32
"""Number of runs whose histories a process keeps; an executor may outlive many runs."""
_NEWLY_CAPTURED = "-- captured from here on"


@lru_cache(maxsize=RUNS)
def _shared(store: Store) -> SchemaHistory:
    """Return one reader per process: a task then reads only newly added entries."""
    return SchemaHistory(store)


@dataclass(frozen=True, slots=True)
class StartingDefinitions:
    """The source's state at a pipeline's start: captured tables, character sets, names that are not tables."""

    tables: tuple[MySqlTable, ...] = ()
    databases: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[TableId, Mark] = field(default_factory=dict)


class Schemas:
    """The schema history of a pipeline, interpreted by its options. Cheap; create one wherever needed.

    Not thread-safe; the tracker has a history of its own.
    """

    def __init__(self, store: Store, options: LogOptions, ordered: frozenset[TableId] = frozenset()) -> None:
        """`ordered` are tables to be re-snapshotted, which settles any uncertainty about their rows."""
        self._options, self._store, self.history, self._ordered = options, store, _shared(store), ordered
        self._digests: dict[int, str] = {}

    def begin(self, known: StartingDefinitions, captures: Captures, at: LogPosition, dialect: DdlDialect) -> None:
        """Write the definitions at the start of a new pipeline as its first entries. Repeatable.

        They create the captured tables in the sink.
        """
        self.history.truncate(0)
        catalog = self.catalog(0, captures, dialect, 0)
        results = (catalog.define(known.tables, databases=known.databases), catalog.mark(known.marks))
        where = {"file": at.file, "pos": at.position}
        self.history.append(*(SchemaEntry.of(result, where) for result in results if result.delta))

    def add(
        self, count: int, tables: Sequence[MySqlTable], captures: Captures, at: LogPosition, *before: SchemaEntry
    ) -> int:
        """Write tables as they are from `at` on after `count` entries, preceded by `before`; returns the new count.

        For the single writer, while nothing follows the log.
        """
        result = self.catalog(count, captures, DdlDialect(), 0).define(tables)
        return self._add(count, result, at, *before)

    def capture(
        self,
        count: int,
        tables: Sequence[MySqlTable],
        unknown: Collection[TableId],
        leftover: Collection[TableId],
        captures: Captures,
        at: LogPosition,
    ) -> int:
        """Add tables captured from `at` on, as `add`; arguments as in `TableDefinitions.capture`."""
        return self._add(count, self.catalog(count, captures, DdlDialect(), 0).capture(tables, unknown, leftover), at)

    def _add(self, count: int, result: DdlResult, at: LogPosition, *before: SchemaEntry) -> int:
        writer = SchemaHistory(self._store)
        writer.truncate(count)
        where = {"file": at.file, "pos": at.position}
        return writer.append(*before, SchemaEntry.of(result, where, _NEWLY_CAPTURED))

    def catalog(
        self, count: int, captures: Captures, dialect: DdlDialect, lower_case_table_names: int
    ) -> TableDefinitions:
        """Return the catalog after `count` entries."""
        catalog = TableDefinitions(
            captures=captures,
            dialect=dialect,
            lower_case_table_names=lower_case_table_names,
            tinyint1_as_boolean=self._options.tinyint1_as_boolean,
            online_schema_changes=self._options.online_schema_changes,
            copied=self._options.copies_new,
            copied_when_uncertain=lambda table: table in self._ordered or self._options.copies_uncertain(table),
            warns_of_cascades=self._options.warns_of_cascades,
        )
        return self.history.fill(catalog, count)

    def first_entries(self) -> int:
        """Number of entries that a pipeline begins with: those not caused by a logged statement."""
        entries = self.history.entries(0, self.history.count())
        return sum(1 for _ in takewhile(lambda entry: not entry.sql, entries))

    def events(self, first: int, last: int) -> list[SourceEvent]:
        """Return the events of entries `first` up to `last`."""
        return [event for entry in self.history.entries(first, last) for event in self._events(entry)]

    def _events(self, entry: SchemaEntry) -> Iterator[SourceEvent]:
        """Yield the changes of an entry with their uncertainty, other uncertainty, and tables renamed away."""
        uncertain, changed = entry.delta.uncertain, set[TableId]()
        for change, name in zip(entry.changes, _later_names(entry.changes), strict=True):
            shown = change if self._options.include_comments else without_comments(change)
            if shown is not None:
                made = event(replace(shown, statement=entry.statement), uncertain.get(name))
                changed |= {name} if isinstance(made, TableChanged) else set()
                yield made
        for table, why in uncertain.items():
            if table not in changed:
                yield RowsUncertain(table, why)
        for table, mark in entry.delta.marks.items():
            if mark == "left":
                yield CaptureEnded(table, "it has a name that is not captured")

    def digest(self, count: int) -> str:
        """Digest of everything that decoding depends on after `count` entries: definitions and unread names."""
        found = self._digests.get(count)
        if found is None:
            tables = sorted(self.history.tables(count).items())
            unread = sorted(self.history.fill(TableDefinitions(captures=lambda table: True), count).unread)
            text = json.dumps([
                [[table.database, table.table, table_to_json(definition)] for table, definition in tables],
                [[table.database, table.table] for table in unread],
            ], sort_keys=True)  # fmt: skip
            found = hashlib.sha256(text.encode("utf-8")).hexdigest()
            self._digests = {count: found}
        return found

    def decoder(self, count: int, captures: Captures, report: Count) -> Decoder:
        """Create a decoder for rows written under the definitions after `count` entries."""
        from connectors.mysql.rows.decoder import Decoder

        tables = self.history.tables(count)

        def is_table(table: TableId) -> bool:
            """Exclude names whose rows are not read."""
            if table in tables or not captures(table):
                return captures(table)
            return table not in self.history.fill(TableDefinitions(captures=captures), count).unread

        return Decoder(tables, captures=is_table, count=report, rules=self._options.value_rules)

    def tracker(
        self,
        count: int,
        captures: Captures,
        dialect: DdlDialect,
        lower_case_table_names: int,
        notices: list[str],
        reread: Reread | None = None,
        unlogged: Unlogged | None = None,
    ) -> Tracker:
        """Create the tracker of a planner that continues after `count` entries; cuts off later ones, of a crashed run.

        Messages for the user are added to `notices`; `reread` returns definitions after a statement that is not
        understood, `unlogged` those changed without a logged statement.
        """
        writer = SchemaHistory(self._store)
        writer.truncate(count)
        catalog = self.catalog(count, captures, dialect, lower_case_table_names)
        return Tracker(
            writer, catalog, notices, changes_allowed=self._options.schema_change_enabled, reread=reread,
            unlogged=unlogged, ordered=self._ordered,
        )  # fmt: skip


def shown_schema(definition: MySqlTable, options: LogOptions) -> TableSchema:
    """Return the schema that a sink gets for a table, under the pipeline's options."""
    schema = table_schema(definition, tinyint1_as_boolean=options.tinyint1_as_boolean)
    return schema if options.include_comments else _bare_schema(schema)


def _later_names(changes: Sequence[SchemaChange]) -> list[TableId]:
    """Return, for each change, the name of its table after all changes."""
    names, found = dict[TableId, TableId](), list[TableId]()
    for change in reversed(changes):
        if isinstance(change, RenameTable):
            names[change.table] = names.pop(change.new_table, change.new_table)
        found.append(names.get(change.table, change.table))
    return found[::-1]


def of_captured(events: Iterable[SourceEvent], captures: Captures) -> list[SourceEvent]:
    """Return the events, without those of tables excluded since they were recorded.

    So a table that is excluded because the sink refuses its change also leaves a batch that is already planned.
    """
    return [
        each
        for each in events
        if captures(each.table)
        or isinstance(each, CaptureEnded)
        or (isinstance(each, TableRenamed) and captures(each.new_table))
    ]


def without_comments(change: SchemaChange) -> SchemaChange | None:
    """Return the change for a sink without comments; None when it only concerns a comment."""
    if isinstance(change, AlterTableComment):
        return None
    if isinstance(change, CreateTable):
        return replace(change, schema=_bare_schema(change.schema))
    if isinstance(change, AddColumn):
        return replace(change, column=_bare(change.column))
    if isinstance(change, AlterColumnType):
        old = None if change.old is None else _bare(change.old)
        new = _bare(change.column)
        same = old is not None and old == new and not new.respells(old)
        return None if same else replace(change, column=new, old=old)
    return change


def _bare(column: Column) -> Column:
    return replace(column, comment="")


def _bare_schema(schema: TableSchema) -> TableSchema:
    return replace(schema, columns=tuple(_bare(column) for column in schema.columns), comment="")
