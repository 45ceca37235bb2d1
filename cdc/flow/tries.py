"""Earlier tries of an interrupted batch: their leftovers in the sink if the pipeline file is edited. Pure; driver."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.evolution.journal import digest
from cdc.evolution.merge import find
from cdc.schema import RenameTable, SchemaChange, TableId
from cdc.schema_json import change_name
from cdc.tables.entry import Try
from cdc.tables.states import NO_MEMBER, Schemas, Tables
from cdc.tables.table_map import Leftovers

Renames = Sequence[tuple[TableId, TableId]]
"""Renames of sink tables as (old name, new name), in order."""

_SHADOW_CHANGES = frozenset(
    ("drop.shadow", "create.shadow", "drop.table", "rename.table", "swap.shadow", "truncate.table")
)
"""Names of changes that create or remove a shadow table, alone or together with its table."""
_TAKEN_AWAY = frozenset(("drop.column", "drop.table", "rename.column"))
"""Names of changes after which a table or a column is missing."""


def try_of(operations: Sequence[SchemaChange]) -> Try:
    """The operations about to be applied, as the table log stores them."""
    if not operations:
        return Try()
    renames = tuple((each.table, each.new_table) for each in operations if isinstance(each, RenameTable))
    return Try(tuple((change_name(each), each.table) for each in operations), digest(operations), renames)


def leftovers(tries: Sequence[Try], this: Try) -> Leftovers:
    """The leftovers of earlier tries of a batch, which had other operations than `this`."""
    shadows = {table for one in tries for name, table in one.operations if name in _SHADOW_CHANGES}
    firsts = {each for one in tries for each in one.by_first_names()}
    lacking = {table for name, table in firsts if name in _TAKEN_AWAY}
    altered = firsts - set(this.by_first_names())
    narrow = {table for name, table in altered if name == "alter.column.type"} - lacking
    rekeyed = {table for name, table in altered if name == "alter.primary.key"} - lacking
    return Leftovers(sorted(shadows), sorted(lacking), sorted(narrow), sorted(rekeyed))


def tables_without_values(
    tries: Sequence[Try], this: Try, before: Schemas, rules: Schemas, after: Tables
) -> set[TableId]:
    """Source tables with a column whose values an earlier try has dropped in the sink, and which is there after all.

    `before` and `after` are the sink's tables, `rules` the schemas of the rows.
    """
    last = {this.last_name(table): (table, schema) for table, schema in before.items()}
    found = set[TableId]()
    for (source, table), pair in after.pairs.items():
        if pair.state in NO_MEMBER or table not in last or source not in rules:
            continue
        first, old = last[table]
        kept = [name for name in old.names if find(rules[source], name) and find(after.sinks.get(table, old), name)]
        schemas = [one.sink.get(one.last_name(first), old) for one in tries]
        if any(schema is None or find(schema, name) is None for schema in schemas for name in kept):
            found.add(source)
    return found
