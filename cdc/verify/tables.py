"""Pairs of tables to compare, with their columns, and the reasons why some cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc.evolution.merge import column_index
from cdc.route import RouteTable, Target
from cdc.schema import TableId, TableSchema
from cdc.tables.sinks import with_shard

if TYPE_CHECKING:
    from cdc.transform.rules import Rules


@dataclass(frozen=True)
class RoutedTable:
    """A source table of a sink table, with its schema there: after its rule, with the shard column."""

    table: TableId
    target: Target
    schema: TableSchema


@dataclass(frozen=True)
class Pair:
    """A sink table and its source tables.

    Attributes:
        schema: the sink table's schema as the engine knows it; None when the pipeline has not created it yet.
        columns: the compared columns, in schema order.
        left_out: the other columns, each with the reason.
        key: the key; empty without one or when one of its columns is not compared.
        masked: columns that a rule masks.
        skip_reason: why the sink may differ from the source; empty when it must not.
    """

    table: TableId
    routed: tuple[RoutedTable, ...]
    schema: TableSchema | None
    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    masked: frozenset[str] = frozenset()
    skip_reason: str = ""


def pairs(
    sources: Mapping[TableId, TableSchema],
    sinks: Mapping[TableId, TableSchema],
    routes: RouteTable,
    rules: Rules | None,
    partial: Callable[[TableId], str],
    held: Collection[TableId] = (),
) -> list[Pair]:
    """Return the sink tables of these source tables, sorted. `sinks` are the schemas that the engine knows. The rules
    of `held` source tables, which are not compared, are not evaluated: they need not fit.

    Raises SpecError where a rule does not fit a table, ChangeRefused for a shard column that does not.
    """
    routed: dict[TableId, list[RoutedTable]] = {}
    for table, schema in sorted(sources.items()):
        schema_after = schema if rules is None or table in held else rules.result(table, schema).schema
        for target in routes.targets(table):
            routed.setdefault(target.table, []).append(RoutedTable(table, target, with_shard(schema_after, target)))
    return [_pair(table, own, sources, sinks.get(table), rules, partial, held) for table, own in sorted(routed.items())]


def _pair(
    table: TableId,
    routed: Sequence[RoutedTable],
    sources: Mapping[TableId, TableSchema],
    schema: TableSchema | None,
    rules: Rules | None,
    partial: Callable[[TableId], str],
    held: Collection[TableId],
) -> Pair:
    if schema is None:
        return Pair(table, tuple(routed), None)
    changing = set[str]()
    masked = set[str]()
    reasons = [f"{each.table}: {partial(each.table)}" for each in routed if partial(each.table)]
    for each in routed:
        if rules is None or each.table in held:
            continue
        found, rule = rules.unrepeatable(each.table, sources[each.table]), rules.rule(each.table)
        changing |= {name.casefold() for name in found}
        if "the filter" in found:
            reasons.append(f"{each.table}: its filter depends on more than the row")
        if rule is not None:
            masked |= {mask.column.casefold() for mask in rule.masks}
            if rule.soft_delete:
                reasons.append(f"{each.table}: deleted rows stay in the sink (SOFT_DELETE)")
    missing = [name for name in schema.names if all(column_index(each.schema, name) is None for each in routed)]
    other = [name for name in schema.names if name not in missing and name.casefold() in changing]
    columns = tuple(name for name in schema.names if name not in missing and name not in other)
    left_out = (
        *(f"{name} (the source has no such column)" for name in missing),
        *(f"{name} (computed from the change, not from the row)" for name in other),
    )
    key = schema.primary_key if set(schema.primary_key) <= set(columns) else ()
    shown = frozenset(name for name in columns if name.casefold() in masked)
    if not columns:
        reasons.append("no column can be compared")
    return Pair(table, tuple(routed), schema, columns, left_out, key, shown, "; ".join(reasons))


def keys_in_source(
    pair: Pair, routed: RoutedTable, source_key: Sequence[str], rules: Rules | None, source: TableSchema
) -> bool:
    """Whether the sink's key, without the shard column, is the source's unchanged key."""
    key = [name for name in pair.key if name != routed.target.shard_column]
    computed = set() if rules is None else set(rules.computed(routed.table, source))
    return bool(key) and set(key) == set(source_key) and not computed & set(key)
