"""Builds the plan of a pipeline (`cdc.planning.plan`). Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc.errors import ChangeRefused
from cdc.evolution.merge import merge_all
from cdc.flow.expected import check_existing_tables, check_expected
from cdc.planning.last_run import LastRun
from cdc.planning.plan import Plan, TablePlan
from cdc.planning.table_checks import check_merges, check_rules, unfit
from cdc.schema import CreateTable, TableId, TableSchema
from cdc.sink import KeylessRows, Sink
from cdc.tables.sinks import with_shard

if TYPE_CHECKING:
    from cdc.evolution.behavior import Policy
    from cdc.flow.middle import Middle
    from cdc.spec.model import PipelineSpec
    from cdc.transform.rules import Rules


def plan_pipeline(
    spec: PipelineSpec,
    middle: Middle,
    tables: Mapping[TableId, TableSchema],
    sink: Sink | None,
    last: LastRun | None = None,
    keyless: KeylessRows = KeylessRows.EQUAL,
) -> Plan:
    """Plan for the source's current tables; queries the sink's tables, and marks tables at which a run would stop.

    `middle` is the compiled pipeline file. Sink tables of the `last` run may differ, as changes of them were skipped.
    No statements are planned for those of source tables that have changed since, as the log has those changes, or whose
    key is changed by edited rules. As in a run, paused source tables whose rule does not fit are skipped, with a note.

    Raises SpecError on collisions, and with every mistake of the rules.
    """
    middle.routes.check(tables)
    rules, last = middle.rules, last or LastRun()
    unfit_tables = unfit(rules, {table: schema for table, schema in tables.items() if table in last.paused})
    result = check_rules(rules, {table: schema for table, schema in tables.items() if table not in unfit_tables})
    found = check_merges(middle, result)
    sources: dict[TableId, dict[TableId, TableSchema]] = {}
    for table, schema in sorted(result.items()):
        for target in middle.routes.targets(table):
            sources.setdefault(target.table, {})[table] = with_shard(schema, target)
    plans = [_plan_table(to, own, found.after.sinks[to], sink) for to, own in sources.items()]
    plans = [replace(plan, removal=_removal_text(plan, middle)) if plan.others else plan for plan in plans]
    plans = [_with_rules(plan, rules, tables) for plan in plans]
    known = last.sink_tables
    plans = [plan if plan.sink in known else _with_stop(plan, middle.policy, found.expected, sink) for plan in plans]
    ruled = last.ruled_tables
    rekeyed = {
        table for table, old in ruled.items() if table in result and old.primary_key != result[table].primary_key
    }
    pending = rekeyed.union(last.changed_tables(tables))
    plans = [plan if plan.sink not in known else _without_changes(plan, pending) for plan in plans]
    plans = _each_statement_once(sorted(plans, key=lambda plan: (plan.source, plan.sink)))
    notes = tuple(
        f"{table}: it is paused, and the rule does not fit it; correct the rule before `cdc resume`: {error}"
        for table, error in unfit_tables.items()
    )
    return Plan(spec.label, spec.source.type, spec.sink.type, tuple(plans), str(middle.policy), notes, keyless=keyless)


def _plan_table(
    sink_table: TableId, sources: Mapping[TableId, TableSchema], schema: TableSchema, sink: Sink | None
) -> TablePlan:
    first, *others = sources
    why = merge_all(sources).why if others else {}
    plan = TablePlan(first, sink_table, schema, others=tuple(others), why=why)
    if sink is None:
        return plan
    try:
        statements = sink.plan_text([CreateTable(sink_table, schema)])
    except ChangeRefused as error:
        return replace(plan, actual=sink.describe(sink_table), refused=str(error))
    if statements is None:
        return plan
    return replace(plan, actual=sink.describe(sink_table), statements=tuple(statements))


def _without_changes(plan: TablePlan, changed: Collection[TableId]) -> TablePlan:
    """Remove the statements of a table with changes in the log: a run will find it with other columns."""
    if not {plan.source, *plan.others}.intersection(changed):
        return plan
    return replace(plan, statements=(), refused="")


def _each_statement_once(plans: Sequence[TablePlan]) -> list[TablePlan]:
    """Keep statements that several tables need, such as CREATE SCHEMA, only for the first: each was planned alone."""
    seen = set[str]()
    found = []
    for plan in plans:
        found.append(replace(plan, statements=tuple(each for each in plan.statements if each not in seen)))
        seen.update(plan.statements)
    return found


def _removal_text(plan: TablePlan, middle: Middle) -> str:
    rules = {target.shard_gone for target in middle.routes.targets(plan.source) if target.table == plan.sink}
    if "delete" in rules and middle.policy.mirrors:
        return "rows of one that is truncated or dropped go: the others are re-snapshotted"
    return "rows of one that is truncated or dropped stay here"


def _with_stop(plan: TablePlan, policy: Policy, creations: Iterable[CreateTable], sink: Sink | None) -> TablePlan:
    """Add to the plan what a run finds missing in the sink, where nothing is created or added there."""
    expected = [creation for creation in creations if creation.table == plan.sink]
    if sink is None:
        return replace(plan, statements=()) if expected else plan
    try:
        check_expected(sink, expected)
        if not expected:
            check_existing_tables(sink, policy, [CreateTable(plan.sink, plan.schema)])
    except ChangeRefused as error:
        return replace(plan, refused=plan.refused or str(error), statements=())
    return replace(plan, statements=()) if expected else plan


def _with_rules(plan: TablePlan, rules: Rules | None, tables: Mapping[TableId, TableSchema]) -> TablePlan:
    """Add to the plan what the rules of its source tables do."""
    if rules is None:
        return plan
    found = [rules.rule(table) for table in (plan.source, *plan.others)]
    by_name = {rule.name: rule for rule in found if rule is not None}
    plan = replace(plan, rules=tuple(by_name))
    if len(by_name) != 1 or None in found:
        return plan
    (rule,) = by_name.values()
    passing = "" if rule.filter is None else rule.filter.text.text.strip()
    return replace(plan, filter=passing, computed=rules.computed(plan.source, tables[plan.source]))
