"""The transform rules' stage on the way of events: source schemas on one side, the rules' results on the other.

Rules that were edited between two runs make other results of the same tables: the first batch of the run then begins
with the changes that lead there.

A rule need not fit a table that is paused: its changes are noted, and the rule meets the table again with its copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc import events as on
from cdc.errors import SpecError, TransformError
from cdc.evolution.diff import Table, diff
from cdc.flow.held import HeldTables
from cdc.flow.rule_edits import texts_of, told_edits
from cdc.schema import AlterColumnType, Column, CreateTable, SchemaChange, TableId, TableSchema
from cdc.tables.entry import TableViews
from cdc.tables.states import Schemas

if TYPE_CHECKING:
    from cdc.transform.rules import Rules


log = logging.getLogger(__name__)


RENAMED = "it was renamed, and the rule of its new name makes other rows"
"""Why a table is copied anew."""


class RuleStage:
    """The events of a batch behind the transform rules. Without rules nothing is changed, or what earlier ones have
    made is undone.

    Attributes:
        renamed: tables that the last batch renamed, whose rows are those of another rule than theirs is now.
    """

    def __init__(
        self, rules: Rules | None, held: Callable[[TableViews], HeldTables] = lambda views: HeldTables()
    ) -> None:
        """`held` gives the tables that a batch leaves out, of the tables before it."""
        self._rules, self._held = rules, held
        self._edited = False
        self.renamed: set[TableId] = set()

    def begin(self) -> None:
        """The rules may have been edited since the last run."""
        self._edited = True

    def derive(self, before: TableViews, told: Sequence[on.SourceEvent]) -> tuple[Sequence[on.SourceEvent], TableViews]:
        """The events behind the rules, and the tables with their schemas of source and rules behind them.

        Raises SpecError where a rule does not fit a table, TransformError where a change takes a column away that a
        rule names.
        """
        self.renamed = set()
        if not (told or self._edited):
            return told, before
        sources, held = dict(before.source), self._held(before)
        left_out = set(held.paused | held.resumed)
        made = self._edits(before, left_out) if self._edited else []
        for event in told:
            made += self._through(sources.get(event.table), event, held.paused, left_out)
            self._note_renamed(sources.get(event.table), event)
            sources = on.schemas_behind(sources, [event])
        self.renamed -= left_out  # their snapshot comes when they are resumed
        self._edited = False
        behind = on.schemas_behind(before.rules, made)
        texts = texts_of(self._rules, sources, left_out, before.rule_texts)
        return made, replace(before, source=sources, rules=behind, rule_texts=texts)

    def _through(
        self,
        schema: TableSchema | None,
        event: on.SourceEvent,
        paused: Collection[TableId],
        left_out: set[TableId],
    ) -> list[on.SourceEvent]:
        """The events of `through`, with notices. `left_out` follows tables that are renamed or dropped."""
        holds = event.table in left_out
        if holds and isinstance(event, on.TableDropped | on.TableRenamed):
            left_out.discard(event.table)
        if holds and isinstance(event, on.TableRenamed):
            left_out.add(event.new_table)
        try:
            if self._rules is not None and schema is not None:
                _tell_stale(self._rules, schema, event)
            return through(self._rules, schema, event)
        except (SpecError, TransformError) as error:
            if not holds or isinstance(event, on.TableCreated) or not _stays(event, paused):
                raise
            log.warning("%s: it is paused: %s", event.table, error)
            return [] if isinstance(event, on.TableChanged) else [event]

    def _note_renamed(self, schema: TableSchema | None, event: on.SourceEvent) -> None:
        before = event.table in self.renamed
        if isinstance(event, on.TableDropped | on.TableRenamed):
            self.renamed.discard(event.table)
        if not isinstance(event, on.TableRenamed) or self._rules is None or schema is None:
            return
        if before or not self._rules.same_rows(event.table, event.new_table, schema):
            self.renamed.add(event.new_table)

    def _edits(self, before: TableViews, left_out: Collection[TableId]) -> list[on.SourceEvent]:
        """The changes of `edits`, with notices."""
        made = edits(self._rules, before.source, before.rules, left_out)
        for table, text in told_edits(before, texts_of(self._rules, before.source, left_out, before.rule_texts), made):
            log.warning("%s: %s", table, text)
        return on.events(made)


def _tell_stale(rules: Rules, schema: TableSchema, event: on.SourceEvent) -> None:
    """Say which computed columns are not computed again when a column that they read gets another type."""
    if not isinstance(event, on.TableChanged) or event.uncertain is not None:
        return
    change = event.change
    if not isinstance(change, AlterColumnType):
        return
    before = next((column for column in schema.columns if column.name == change.column.name), None)
    if before is None or before.type == change.column.type:
        return
    names = rules.reading(change.table, schema, change.column.name)
    if names:
        log.warning(
            "%s: the source changed the type of %s from %s to %s: rows that are there keep what was computed of it in "
            "%s; `cdc resync FILE %s` copies them anew", change.table, before.name, before.type, change.column.type,
            ", ".join(names), change.table,
        )  # fmt: skip


def through(rules: Rules | None, schema: TableSchema | None, event: on.SourceEvent) -> list[on.SourceEvent]:
    """One event of a source table, whose schema was `schema`, behind the rules. Raises TransformError, SpecError."""
    if rules is None:
        return [event]
    table = event.table
    match event:
        case on.TableCreated(created=created):
            return [replace(event, created=replace(_created(rules, created), statement=created.statement))]
        case on.TableChanged(change=change, uncertain=uncertain):
            made = [replace(each, statement=change.statement) for each in rules.changes(table, schema, change)]
            if not made and uncertain is not None:
                return [on.RowsUncertain(table, uncertain)]
            return [on.event(each, uncertain) for each in made]
        case on.TableRenamed(new_table=new_table) if schema is not None:  # the new name may have another rule
            old, new = (rules.result(name, schema).schema for name in (table, new_table))
            return [event, *on.events(_edit(new_table, old, new))]
        case on.SnapshotBegun() if schema is not None:
            return [replace(event, created=_created(rules, CreateTable(table, schema)))]
        case _:
            return [event]


def _created(rules: Rules, created: CreateTable) -> CreateTable:
    """A source table as it is created behind its rule."""
    (made,) = rules.changes(created.table, None, created)
    assert isinstance(made, CreateTable), "a rule makes a table of a table"
    return made


def edits(
    rules: Rules | None, sources: Schemas, behind: Schemas, left_out: Collection[TableId] = ()
) -> list[SchemaChange]:
    """The changes from the tables that earlier rules have made to those that these make. Raises SpecError, but not for
    those that are `left_out`."""
    made: list[SchemaChange] = []
    for table, schema in sources.items():
        try:
            made += _edit(table, behind[table], schema if rules is None else rules.result(table, schema).schema)
        except SpecError as error:
            if table not in left_out:
                raise
            log.warning("%s: it is paused, and the rule does not fit it: %s", table, error)
    return made


def _stays(event: on.SourceEvent, paused: Collection[TableId]) -> bool:
    """Whether an event of a table that is left out does not end that: a snapshot of one that is resumed does."""
    return not isinstance(event, on.SnapshotBegun) or event.table in paused


def _edit(table: TableId, old: TableSchema, new: TableSchema) -> list[SchemaChange]:
    """Old rows know nothing of what the new rule computes: what is added is NULL there, what could be NULL stays so."""
    if old == new:
        return []
    known = {column.name.lower(): column for column in old.columns}
    columns = tuple(_edited(column, known.get(column.name.lower()), new.primary_key) for column in new.columns)
    return diff(Table(table, old), Table(table, replace(new, columns=columns, comment=old.comment)))


def _edited(column: Column, old: Column | None, key: Sequence[str]) -> Column:
    if old is None:
        return replace(column, nullable=column.name not in key, default=None)
    nullable = column.nullable or (old.nullable and column.name not in key)
    return replace(column, nullable=nullable, default=old.default, comment=old.comment)
