"""Checks of a pipeline file against the source's current tables: patterns, rules and merged tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc.errors import Problem, SpecError
from cdc.schema import CreateTable, TableId, TableSchema
from cdc.spec.patterns import unmatched
from cdc.tables.events import TableCreated
from cdc.tables.machine import BatchOutcome, batch_outcome
from cdc.tables.states import Tables
from cdc.tables.table_map import Circumstances

if TYPE_CHECKING:
    from cdc.flow.middle import Middle
    from cdc.route import RouteTable
    from cdc.spec.model import PipelineSpec
    from cdc.transform.rules import Rules


def check_patterns(
    spec: PipelineSpec,
    routes: RouteTable,
    tables: Collection[TableId],
    *,
    complete: bool,
    known: Collection[str] = (),
) -> list[Problem]:
    """Return the patterns of the file that match none of these tables, or none of their sink tables.

    `complete`: other tables can only be created later (`Source.lists_all_tables`). `known` are names of patterns of an
    earlier run, which are not checked. Raises SpecError for unmatched patterns if the file says so.
    """
    sink_tables = {sink: None for table in sorted(tables) for sink in routes(table)}
    patterns = [each for each in spec.patterns if each.name not in known]
    found = unmatched(patterns, sorted(tables), list(sink_tables))
    if found and complete and spec.pipeline.unmatched_patterns == "fail":
        raise SpecError(sorted(found, key=lambda each: (each.line, each.column)))
    return found


def check_merges(middle: Middle, tables: Mapping[TableId, TableSchema]) -> BatchOutcome:
    """Merge the tables into sink tables. Raises ChangeRefused when tables of one sink table have different keys."""
    created = [TableCreated(table, CreateTable(table, schema)) for table, schema in sorted(tables.items())]
    return batch_outcome(Circumstances(middle.routes, middle.policy), Tables(), created)


def check_rules(rules: Rules | None, tables: Mapping[TableId, TableSchema]) -> Mapping[TableId, TableSchema]:
    """Return the tables' schemas after the rules. Raises SpecError with every mistake: unknown columns, wrong types.

    A mistake of several tables is reported once, for the first of them.
    """
    if rules is None:
        return tables
    results: dict[TableId, TableSchema] = {}
    problems: dict[tuple[str, int, int], Problem] = {}
    for table, schema in sorted(tables.items()):
        try:
            results[table] = rules.result(table, schema).schema
        except SpecError as error:
            for each in error.problems:
                located = replace(each, message=f"{each.message} in {table}")
                problems.setdefault((each.file, each.line, each.column), located)
    if problems:
        raise SpecError(sorted(problems.values(), key=lambda each: (each.line, each.column)))
    from cdc.transform.runner import prove  # imports the engine, which is only needed with rules

    prove(rules, tables)
    return results


def unfit(rules: Rules | None, tables: Mapping[TableId, TableSchema]) -> Mapping[TableId, SpecError]:
    """Return the tables that their rule does not fit, with the reasons."""
    found: dict[TableId, SpecError] = {}
    if rules is None:
        return found
    for table, schema in sorted(tables.items()):
        try:
            rules.result(table, schema)
        except SpecError as error:
            found[table] = error
    return found
