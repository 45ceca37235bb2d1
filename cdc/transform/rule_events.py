"""Applies transform rules to a source's events: converts them from the source's schemas to those of the rules' results.

Rules edited between two runs have other results for the same tables: the first batch of the run then begins with the
changes from the old results to the new ones.

A rule need not fit a paused table: its changes are recorded, and the rule is applied again with the table's snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc import events as on
from cdc.errors import SpecError, TransformError
from cdc.schema import AlterColumnType, CreateTable, TableId, TableSchema
from cdc.tables.entry import TableViews
from cdc.tables.pauses import PausedTables
from cdc.transform.rule_edits import altered, edits, rule_changes, texts_of

if TYPE_CHECKING:
    from cdc.transform.rules import Rules


log = logging.getLogger(__name__)

RENAMED = "it was renamed, and the rule of its new name makes other rows"
EDITED = "its rule has changed, and existing rows are found by columns that it computes another way"
"""Reasons to re-snapshot a table."""


@dataclass(frozen=True, slots=True)
class RuledEvents:
    """The events of a batch after the rules.

    Attributes:
        events: the events, in order.
        after: the tables after them, for source and rules.
        stale: tables whose existing rows can no longer be updated, with the reason.
        edits: changes of the tables due to edited rules, before the events.
    """

    events: Sequence[on.SourceEvent]
    after: TableViews
    stale: Mapping[TableId, str] = field(default_factory=dict)
    edits: Sequence[on.SourceEvent] = ()


def apply_rules(
    rules: Rules | None, before: TableViews, logged: Sequence[on.SourceEvent], pauses: PausedTables, *, edited: bool
) -> RuledEvents:
    """Apply the rules to a batch's events. Without rules, events are unchanged, or the results of earlier rules undone.

    Logs what users have to know. `before` are the tables before the batch, `pauses` the tables that it skips; `edited`:
    the rules may differ from those of the previous batch.

    Raises SpecError where a rule does not fit a table, TransformError where a change removes a column that a rule
    names.
    """
    if not (logged or edited):
        return RuledEvents(logged, before)
    walk = _Walk(rules, before, pauses)
    changed = walk.apply_edits(before) if edited else ()
    for event in logged:
        walk.apply(event)
    texts = texts_of(rules, walk.sources, walk.left_out, before.rule_texts)
    ruled = on.schemas_after(before.rules, [*changed, *walk.made])
    after = replace(before, source=walk.sources, rules=ruled, rule_texts=texts)
    stale = {table: why for table, why in walk.stale.items() if table not in walk.left_out}  # copied anyway
    return RuledEvents(walk.made, after, stale, changed)


class _Walk:
    """Processes the events of one batch in order.

    Attributes:
        made: the results of the batch's events so far.
        sources: current schemas of the source's tables.
        left_out: tables that are currently skipped.
        stale: as in `RuledEvents`.
    """

    def __init__(self, rules: Rules | None, before: TableViews, pauses: PausedTables) -> None:
        self._rules, self._paused = rules, pauses.paused
        self.made: list[on.SourceEvent] = []
        self.sources = dict(before.source)
        self.left_out = set(pauses.paused | pauses.resumed)
        self.stale: dict[TableId, str] = {}

    def apply_edits(self, before: TableViews) -> Sequence[on.SourceEvent]:
        """Return the changes due to edited rules, before the batch's events."""
        changes = edits(self._rules, before.source, before.rules, self.left_out)
        texts = texts_of(self._rules, before.source, self.left_out, before.rule_texts)
        for edit in rule_changes(before, texts, changes):
            log.warning("%s: %s", edit.table, edit.text)
            if edit.stale and self._is_lost(edit.table, edit.stale):
                self.stale[edit.table] = EDITED
        return on.events(changes)

    def _is_lost(self, table: TableId, columns: Collection[str]) -> bool:
        """Whether rows are found by one of these columns, whose values are computed differently from now on."""
        schema = self.sources.get(table)
        if schema is None or table in self.left_out:
            return False
        key = (schema if self._rules is None else self._rules.result(table, schema).schema).primary_key
        return not key or bool({*key} & {*columns})

    def apply(self, event: on.SourceEvent) -> None:
        """Process the next event of the source."""
        schema = self.sources.get(event.table)
        self.made += self._through(schema, event)
        self._note_renamed(schema, event)
        on.advance_schemas(self.sources, event)

    def _through(self, schema: TableSchema | None, event: on.SourceEvent) -> list[on.SourceEvent]:
        """Return the events of `through`, with notices."""
        holds = event.table in self.left_out
        if holds and isinstance(event, on.TableDropped | on.TableRenamed):
            self.left_out.discard(event.table)
        if holds and isinstance(event, on.TableRenamed):
            self.left_out.add(event.new_table)
        try:
            if self._rules is not None and schema is not None:
                _warn_stale(self._rules, schema, event)
            return through(self._rules, schema, event)
        except (SpecError, TransformError) as error:
            if not holds or isinstance(event, on.TableCreated) or not _stays(event, self._paused):
                raise
            log.warning("%s: it is paused: %s", event.table, error)
            return [] if isinstance(event, on.TableChanged) else [event]

    def _note_renamed(self, schema: TableSchema | None, event: on.SourceEvent) -> None:
        before = self.stale.get(event.table)
        if isinstance(event, on.TableDropped | on.TableRenamed):
            self.stale.pop(event.table, None)
        if not isinstance(event, on.TableRenamed) or schema is None:
            return
        if before or (self._rules is not None and not self._rules.same_rows(event.table, event.new_table, schema)):
            self.stale[event.new_table] = before or RENAMED


def _warn_stale(rules: Rules, schema: TableSchema, event: on.SourceEvent) -> None:
    """Log which computed columns are not recomputed when a column that they read gets another type."""
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
            "%s: the source changed the type of %s from %s to %s: existing rows keep what was computed from it in "
            "%s; `cdc resync FILE %s` re-snapshots it", change.table, before.name, before.type, change.column.type,
            ", ".join(names), change.table,
        )  # fmt: skip


def through(rules: Rules | None, schema: TableSchema | None, event: on.SourceEvent) -> list[on.SourceEvent]:
    """Apply the rules to one event of a source table, whose schema was `schema`. Raises TransformError, SpecError."""
    if rules is None:
        return [event]
    table = event.table
    match event:
        case on.TableCreated(created=created):
            return [replace(event, created=replace(_created(rules, created), statement=created.statement))]
        case on.TableChanged(change=change, uncertain=uncertain):
            changes = [replace(each, statement=change.statement) for each in rules.changes(table, schema, change)]
            if not changes and uncertain is not None:
                return [on.RowsUncertain(table, uncertain)]
            return [on.event(each, uncertain) for each in changes]
        case on.TableRenamed(new_table=new_table) if schema is not None:  # the new name may have another rule
            old, new = (rules.result(name, schema).schema for name in (table, new_table))
            return [event, *on.events(altered(new_table, old, new))]
        case on.SnapshotBegun() if schema is not None:
            return [replace(event, created=_created(rules, CreateTable(table, schema)))]
        case _:
            return [event]


def _created(rules: Rules, created: CreateTable) -> CreateTable:
    """Return the creation of a source table after its rule."""
    (change,) = rules.changes(created.table, None, created)
    assert isinstance(change, CreateTable), "a rule makes a table of a table"
    return change


def _stays(event: on.SourceEvent, paused: Collection[TableId]) -> bool:
    """Whether a table is still skipped after the event: a snapshot of a resumed table ends that."""
    return not isinstance(event, on.SnapshotBegun) or event.table in paused
