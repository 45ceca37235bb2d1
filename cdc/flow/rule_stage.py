"""The transform rules' stage on the way of schema changes: source schemas on one side, the rules' results on the other.

Rules that were edited between two runs make other results of the same tables: the first batch of the run then begins
with the changes that lead there.

A rule need not fit a table that is paused: its changes are noted, and the rule meets the table again with its copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc.errors import SpecError, TransformError
from cdc.evolution.apply import apply_changes
from cdc.evolution.diff import Table, diff
from cdc.flow.held import HeldTables
from cdc.flow.rule_edits import texts_of, told_edits
from cdc.schema import (
    AlterColumnType,
    Column,
    CreateShadow,
    CreateTable,
    DropTable,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.tables.entry import TableViews, Try
from cdc.tables.states import Schemas

if TYPE_CHECKING:
    from cdc.transform.rules import Rules


log = logging.getLogger(__name__)


RENAMED = "it was renamed, and the rule of its new name makes other rows"
"""Why a table is copied anew."""


class RuleStage:
    """See `cdc.flow.derive.Stage`. Without rules nothing is changed, or what earlier ones have made is undone.

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

    def begin(self, tries: Sequence[Try]) -> None:
        """The rules may have been edited since the last run."""
        self._edited = True

    def derive(
        self, batch: int, before: TableViews, after: TableViews, changes: Sequence[SchemaChange]
    ) -> tuple[Sequence[SchemaChange], TableViews]:
        """The changes behind the rules. Raises SpecError where a rule does not fit a table, TransformError where a
        change takes a column away that a rule names."""
        self.renamed = set()
        if not (changes or self._edited):
            return changes, after
        sources, held = dict(before.source), self._held(before)
        left_out = set(held.paused | held.resumed)
        made = self._edits(before, left_out) if self._edited else []
        for change in changes:
            made += self._through(sources.get(change.table), change, held.paused, left_out)
            self._note_renamed(sources.get(change.table), change)
            sources = apply_changes(sources, [change])
        self.renamed -= left_out  # their copy comes when they are resumed
        self._edited = False
        behind = apply_changes(before.rules, made)
        texts = texts_of(self._rules, sources, left_out, before.rule_texts)
        return made, replace(after, source=sources, rules=behind, rule_texts=texts)

    def _through(
        self, schema: TableSchema | None, change: SchemaChange, paused: Collection[TableId], left_out: set[TableId]
    ) -> list[SchemaChange]:
        """The changes of `through`, with notices. `left_out` follows tables that are renamed or dropped."""
        holds = change.table in left_out
        if holds and isinstance(change, DropTable | RenameTable):
            left_out.discard(change.table)
        if holds and isinstance(change, RenameTable):
            left_out.add(change.new_table)
        try:
            if self._rules is not None and schema is not None:
                _tell_stale(self._rules, schema, change)
            return [_stated(each, change) for each in through(self._rules, schema, change)]
        except (SpecError, TransformError) as error:
            if not holds or isinstance(change, CreateTable) or not _stays(change, paused):
                raise
            log.warning("%s: it is paused: %s", change.table, error)
            return [change] if isinstance(change, RenameTable) else []

    def _note_renamed(self, schema: TableSchema | None, change: SchemaChange) -> None:
        before = change.table in self.renamed
        if isinstance(change, DropTable | RenameTable):
            self.renamed.discard(change.table)
        if not isinstance(change, RenameTable) or self._rules is None or schema is None:
            return
        if before or not self._rules.same_rows(change.table, change.new_table, schema):
            self.renamed.add(change.new_table)

    def _edits(self, before: TableViews, left_out: Collection[TableId]) -> list[SchemaChange]:
        """The changes of `edits`, with notices."""
        made = edits(self._rules, before.source, before.rules, left_out)
        for table, text in told_edits(before, texts_of(self._rules, before.source, left_out, before.rule_texts), made):
            log.warning("%s: %s", table, text)
        return made


def _stated(made: SchemaChange, change: SchemaChange) -> SchemaChange:
    """A change that another one has become, with the statement of that."""
    return replace(made, statement=change.statement)


def _tell_stale(rules: Rules, schema: TableSchema, change: SchemaChange) -> None:
    """Say which computed columns are not computed again when a column that they read gets another type."""
    if not isinstance(change, AlterColumnType) or change.copied:
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


def through(rules: Rules | None, schema: TableSchema | None, change: SchemaChange) -> list[SchemaChange]:
    """One change of a source table, whose schema was `schema`, behind the rules. Raises TransformError."""
    if rules is None:
        return [change]
    made = rules.changes(change.table, schema, change)
    if isinstance(change, RenameTable) and schema is not None:  # the new name may have another rule
        old, new = (rules.result(table, schema).schema for table in (change.table, change.new_table))
        return [*made, *_edit(change.new_table, old, new)]
    if isinstance(change, AlterColumnType) and change.copied:
        return [replace(each, copied=True) if isinstance(each, AlterColumnType) else each for each in made]
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


def _stays(change: SchemaChange, paused: Collection[TableId]) -> bool:
    """Whether a change of a table that is left out does not end that: a copy of one that is resumed does."""
    return not isinstance(change, CreateShadow) or change.schema is None or change.table in paused


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
