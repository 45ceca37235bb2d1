"""The meaning of edited rules for rows that are in the sink already, made by the earlier rules."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeGuard

from cdc.errors import SpecError
from cdc.evolution.diff import Table, diff
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    DropColumn,
    RenameColumn,
    RenameColumns,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.tables.entry import TableViews
from cdc.tables.states import Schemas
from cdc.transform.rules import DELETED, SETTINGS

if TYPE_CHECKING:
    from cdc.transform.rules import Rules

log = logging.getLogger(__name__)

Texts = Mapping[TableId, Mapping[str, str]]
"""By source table and column how it is computed, the filter under the empty name; those that pass are left out."""


def texts_of(
    rules: Rules | None, sources: Schemas, left_out: Collection[TableId] = (), before: Texts = MappingProxyType({})
) -> Texts:
    """How the rules compute the columns of these source tables. Raises SpecError where a rule does not fit a table;
    those that are `left_out` have the texts of `before` then."""
    found: dict[TableId, Mapping[str, str]] = {}
    for table, schema in sources.items():
        try:
            texts: Mapping[str, str] = {} if rules is None else rules.texts(table, schema)
        except SpecError:
            if table not in left_out:
                raise
            texts = before.get(table, {})
        if texts:
            found[table] = texts
    return found


@dataclass(frozen=True, slots=True)
class RuleEdit:
    """An edit of the rule of one source table.

    Attributes:
        text: what it means, in words that follow the table's name.
        stale: columns in which rows that are there have other values than the rule of now makes of them; an empty name
            for the filter.
    """

    table: TableId
    text: str
    stale: tuple[str, ...]


def rule_changes(before: TableViews, now: Texts, changes: Sequence[SchemaChange]) -> Iterator[RuleEdit]:
    """The source tables whose rules were edited, and what that means.

    `before` are the tables as the run before has left them; `changes` lead from what the earlier rules made of them to
    what these make.
    """
    made: dict[TableId, list[SchemaChange]] = {}
    for change in changes:
        made.setdefault(change.table, []).append(change)
    for table in dict.fromkeys((*made, *before.rule_texts, *now)):
        own = made.get(table, [])
        new = [change.column.name for change in own if isinstance(change, AddColumn) or _is_retyped(change)]
        gone = [change.name for change in own if isinstance(change, DropColumn)]
        renamed = [name for each in own if isinstance(each, RenameColumn) for name in (each.old_name, each.new_name)]
        renamed += [name for each in own if isinstance(each, RenameColumns) for pair in each.names for name in pair]
        old, computed = (texts.get(table, {}) for texts in (before.rule_texts, now))
        other = [name for name in sorted({*old, *computed}) if _differ(old.get(name), computed.get(name))]
        others = [name for name in other if name and name not in (*new, *gone, *renamed)]
        if new or gone or others or "" in other:
            sentence = _sentence(table, new, gone, others, filtered="" in other)
            stale = (name for name in (*new, *others) if name != DELETED)
            yield RuleEdit(table, sentence, (*stale, *(("",) if "" in other else ())))


def _is_retyped(change: SchemaChange) -> TypeGuard[AlterColumnType]:
    """Whether the change is one of the type, not of NULL alone."""
    return isinstance(change, AlterColumnType) and (change.old is None or change.old.type != change.column.type)


def _differ(old: str | None, new: str | None) -> bool:
    """Whether two texts are others; an earlier version kept no settings."""
    if old is None or new is None or SETTINGS in old:
        return old != new
    return old != new.partition(SETTINGS)[0]


def _sentence(table: TableId, new: list[str], gone: list[str], others: list[str], *, filtered: bool) -> str:
    text = "the rules have changed: "
    if not (new or others or filtered):
        return f"{text}{', '.join(gone)} {'goes' if len(gone) == 1 else 'go'}"
    text += "rows that are there keep what they have"
    text += f", without values in {', '.join(new)}" if new else ""
    text += f", as the earlier rules made {', '.join(others)}" if others else ""
    text += ", those that the earlier filter held back stay out" if filtered else ""
    return f"{text}; `cdc resync FILE {table}` re-snapshots it"


def edits(
    rules: Rules | None, sources: Schemas, behind: Schemas, left_out: Collection[TableId] = ()
) -> list[SchemaChange]:
    """The changes from the tables that earlier rules have made to those that these make. Raises SpecError, but not for
    those that are `left_out`."""
    made: list[SchemaChange] = []
    for table, schema in sources.items():
        try:
            made += altered(table, behind[table], schema if rules is None else rules.result(table, schema).schema)
        except SpecError as error:
            if table not in left_out:
                raise
            log.warning("%s: it is paused, and the rule does not fit it: %s", table, error)
    return made


def altered(table: TableId, old: TableSchema, new: TableSchema) -> list[SchemaChange]:
    """The changes of a table from what an earlier rule made of it to what a rule makes now.

    Old rows know nothing of what the new rule computes: what is added is NULL there, what could be NULL stays so.
    """
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
