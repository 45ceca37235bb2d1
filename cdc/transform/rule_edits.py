"""The effect of edited rules on rows in the sink that were computed by the earlier rules."""

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
from cdc.transform.rules import DELETED

if TYPE_CHECKING:
    from cdc.transform.rules import Rules

log = logging.getLogger(__name__)

Texts = Mapping[TableId, Mapping[str, str]]
"""Expressions by source table and column, the filter under the empty name; without columns passed through."""


def texts_of(
    rules: Rules | None, sources: Schemas, left_out: Collection[TableId] = (), before: Texts = MappingProxyType({})
) -> Texts:
    """Return how the rules compute the columns of these source tables. Raises SpecError where a rule does not fit,
    except for `left_out` tables, which keep the texts of `before`."""
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
        text: its effect, in words that follow the table's name.
        stale: columns whose values in existing rows differ from those that the new rule computes; an empty name for the
            filter.
    """

    table: TableId
    text: str
    stale: tuple[str, ...]


def rule_changes(before: TableViews, now: Texts, changes: Sequence[SchemaChange]) -> Iterator[RuleEdit]:
    """Yield the source tables whose rules were edited, and the effect.

    `before` are the tables at the end of the last run; `changes` lead from the results of the earlier rules to those of
    the new ones.
    """
    by_table: dict[TableId, list[SchemaChange]] = {}
    for change in changes:
        by_table.setdefault(change.table, []).append(change)
    for table in dict.fromkeys((*by_table, *before.rule_texts, *now)):
        found = by_table.get(table, [])
        new = [change.column.name for change in found if isinstance(change, AddColumn) or _is_retyped(change)]
        dropped = [change.name for change in found if isinstance(change, DropColumn)]
        renamed = [name for each in found if isinstance(each, RenameColumn) for name in (each.old_name, each.new_name)]
        renamed += [name for each in found if isinstance(each, RenameColumns) for pair in each.names for name in pair]
        old, computed = (texts.get(table, {}) for texts in (before.rule_texts, now))
        other = [name for name in sorted({*old, *computed}) if old.get(name) != computed.get(name)]
        others = [name for name in other if name and name not in (*new, *dropped, *renamed)]
        if new or dropped or others or "" in other:
            sentence = _sentence(table, new, dropped, others, filtered="" in other)
            stale = (name for name in (*new, *others) if name != DELETED)
            yield RuleEdit(table, sentence, (*stale, *(("",) if "" in other else ())))


def _is_retyped(change: SchemaChange) -> TypeGuard[AlterColumnType]:
    """Whether the change is one of the type, not only of nullability."""
    return isinstance(change, AlterColumnType) and (change.old is None or change.old.type != change.column.type)


def _sentence(table: TableId, new: list[str], dropped: list[str], others: list[str], *, filtered: bool) -> str:
    text = "the rules have changed: "
    if not (new or others or filtered):
        return f"{text}{', '.join(dropped)} {'goes' if len(dropped) == 1 else 'go'}"
    text += "existing rows keep their values"
    text += f", without values in {', '.join(new)}" if new else ""
    text += f", as the earlier rules computed {', '.join(others)}" if others else ""
    text += ", those that the earlier filter rejected stay excluded" if filtered else ""
    return f"{text}; `cdc resync FILE {table}` re-snapshots it"


def edits(
    rules: Rules | None, sources: Schemas, ruled: Schemas, left_out: Collection[TableId] = ()
) -> list[SchemaChange]:
    """Return the changes from the results of the earlier rules to those of these. Raises SpecError, except for
    `left_out` tables."""
    changes: list[SchemaChange] = []
    for table, schema in sources.items():
        try:
            changes += altered(table, ruled[table], schema if rules is None else rules.result(table, schema).schema)
        except SpecError as error:
            if table not in left_out:
                raise
            log.warning("%s: it is paused, and the rule does not fit it: %s", table, error)
    return changes


def altered(table: TableId, old: TableSchema, new: TableSchema) -> list[SchemaChange]:
    """Return the changes of a table from the result of an earlier rule to that of the current one.

    Existing rows do not have what the new rule computes: added columns are NULL there, nullable ones stay nullable.
    """
    if (old, old.own_types) == (new, new.own_types):
        return []
    known = {column.name.lower(): column for column in old.columns}
    columns = tuple(_edited(column, known.get(column.name.lower()), new.primary_key) for column in new.columns)
    return diff(Table(table, old), Table(table, replace(new, columns=columns, comment=old.comment)))


def _edited(column: Column, old: Column | None, key: Sequence[str]) -> Column:
    if old is None:
        return replace(column, nullable=column.name not in key, default=None)
    nullable = column.nullable or (old.nullable and column.name not in key)
    return replace(column, nullable=nullable, default=old.default, comment=old.comment)
