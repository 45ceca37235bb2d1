"""The plan of a pipeline as a value: matched tables, routes, sink schemas, statements. Changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.errors import ChangeRefused, EngineError, Problem, SpecError
from cdc.evolution.merge import merge_all
from cdc.flow.altered import check_expected, check_there
from cdc.schema import CreateTable, TableId, TableSchema
from cdc.schema_json import schema_to_json
from cdc.sink import KeylessRows, Sink
from cdc.spec.compiled import compiled
from cdc.spec.patterns import unmatched
from cdc.tables.events import TableCreated
from cdc.tables.held import Held
from cdc.tables.machine import BatchOutcome, batch_outcome
from cdc.tables.sinks import with_shard
from cdc.tables.states import Tables
from cdc.tables.table_map import Circumstances

if TYPE_CHECKING:
    from cdc.evolution.behavior import Policy
    from cdc.flow.middle import Middle
    from cdc.route import RouteTable
    from cdc.spec.model import PipelineSpec
    from cdc.state.directory import StateDir
    from cdc.transform.rules import Rules


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One sink table.

    Attributes:
        source, sink: table ids before and after routing.
        others: more source tables that go to the same sink table, whose schema is then that of all of them.
        why: why a column has its type, by name, for columns that are not the same in all of those.
        schema: what the sink table gets.
        actual: the sink table as it is now, None when there is none or the sink cannot tell.
        statements: what would run in the sink before the first row.
        refused: why the sink takes no such table, with what to do; empty when it does, as far as can be told.
        rules: the transform rules that its rows come through, each once.
        filter: what passes, as written; and
        computed: how columns are computed, by name, as written: both where all rows come through one rule.
        gone: what becomes of the rows of one of several source tables that is truncated or dropped.
    """

    source: TableId
    sink: TableId
    schema: TableSchema
    actual: TableSchema | None = None
    statements: tuple[str, ...] = ()
    refused: str = ""
    others: tuple[TableId, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()
    filter: str = ""
    computed: Mapping[str, str] = field(default_factory=dict)
    gone: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole pipeline, printable. `source` and `sink` are connector names, `behavior` is what they do with changes.

    `notes` are about what was edited in the file, or altered in the sink, since the last run; `unmatched` are patterns
    that match no table now. `keyless`: how the sink keeps rows of tables without a key.
    """

    name: str
    source: str
    sink: str
    tables: tuple[TablePlan, ...]
    behavior: str = ""
    notes: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    keyless: KeylessRows = KeylessRows.EQUAL

    def __str__(self) -> str:
        return plan_text(self)

    def to_json(self) -> dict[str, object]:
        """The plan as JSON values, for `cdc plan --json`."""
        return {
            "name": self.name, "source": self.source, "sink": self.sink, "schema_changes": self.behavior,
            "since_last_run": list(self.notes), "unmatched": list(self.unmatched),
            "tables": [_table_json(table) for table in self.tables],
        }  # fmt: skip

    def check(self) -> None:
        """Raise ChangeRefused when the sink refuses tables."""
        refused = [table for table in self.tables if table.refused]
        if refused:
            reason = f"{self.sink} refuses {len(refused)} of {_count(len(self.tables), 'table')}: {refused[0].refused}"
            raise ChangeRefused(reason, hint="a run would stop: mend it, or take such tables out with tables.exclude")


def _table_json(table: TablePlan) -> dict[str, object]:
    return {
        "sources": [str(each) for each in (table.source, *table.others)],
        "sink": str(table.sink),
        "schema": schema_to_json(table.schema),
        "actual": None if table.actual is None else schema_to_json(table.actual),
        "statements": list(table.statements),
        "refused": table.refused,
        "rules": list(table.rules),
        "filter": table.filter,
        "computed": dict(table.computed),
    }


def make_plan(
    spec: PipelineSpec,
    middle: Middle,
    tables: Mapping[TableId, TableSchema],
    sink: Sink | None,
    known: Collection[TableId] = (),
    paused: Collection[TableId] = (),
    keyless: KeylessRows = KeylessRows.EQUAL,
) -> Plan:
    """Plan for the tables the source has now; asks the sink what is there, and marks tables that a run would stop at.

    `middle` is the pipeline file, compiled. `known` are sink tables of the runs before: they may differ, as changes of
    theirs were held back. Source tables that are `paused` are left out where their rule does not fit them, with a note,
    as a run does.

    Raises SpecError on collisions, and with every mistake of the rules.
    """
    middle.routes.check(tables)
    rules = middle.rules
    unfit_tables = unfit(rules, {table: schema for table, schema in tables.items() if table in paused})
    made = check_rules(rules, {table: schema for table, schema in tables.items() if table not in unfit_tables})
    found = check_merges(middle, made)
    sources: dict[TableId, dict[TableId, TableSchema]] = {}
    for table, schema in sorted(made.items()):
        for target in middle.routes.targets(table):
            sources.setdefault(target.table, {})[table] = with_shard(schema, target)
    plans = [_plan_table(to, own, found.after.sinks[to], sink) for to, own in sources.items()]
    plans = [replace(plan, gone=_rows_of_gone(plan, middle)) if plan.others else plan for plan in plans]
    plans = [_with_rules(plan, rules, tables) for plan in plans]
    plans = [plan if plan.sink in known else _with_stop(plan, middle.policy, found, sink) for plan in plans]
    plans = _each_statement_once(sorted(plans, key=lambda plan: (plan.source, plan.sink)))
    notes = tuple(
        f"{table}: it is paused, and the rule does not fit it; mend the rule before `cdc resume`: {error}"
        for table, error in unfit_tables.items()
    )
    return Plan(spec.label, spec.source.type, spec.sink.type, tuple(plans), str(middle.policy), notes, keyless=keyless)


def check_patterns(
    spec: PipelineSpec,
    routes: RouteTable,
    tables: Collection[TableId],
    *,
    complete: bool,
    known: Collection[str] = (),
) -> list[Problem]:
    """The patterns of the file that match none of these tables, or of those that they become in the sink.

    `complete`: there are no others but those created later (`Source.lists_all_tables`). `known` are names of patterns
    that an earlier run has been through. Raises SpecError for the others, unless the file lets them be.
    """
    sink_tables = {sink: None for table in sorted(tables) for sink in routes(table)}
    asked = [each for each in spec.patterns if each.name not in known]
    found = unmatched(asked, sorted(tables), list(sink_tables))
    if found and complete and spec.pipeline.unmatched_patterns == "fail":
        raise SpecError(sorted(found, key=lambda each: (each.line, each.column)))
    return found


def check_merges(middle: Middle, tables: Mapping[TableId, TableSchema]) -> BatchOutcome:
    """The sink tables of these tables. Raises ChangeRefused when tables that go to one have different keys."""
    created = [TableCreated(table, CreateTable(table, schema)) for table, schema in sorted(tables.items())]
    return batch_outcome(Circumstances(middle.routes, middle.policy), Tables(), created)


def check_rules(rules: Rules | None, tables: Mapping[TableId, TableSchema]) -> Mapping[TableId, TableSchema]:
    """The tables behind the rules. Raises SpecError with every mistake: unknown columns, types that do not fit.

    A mistake that several tables have is told once, with the first of them.
    """
    if rules is None:
        return tables
    made: dict[TableId, TableSchema] = {}
    problems: dict[tuple[str, int, int], Problem] = {}
    for table, schema in sorted(tables.items()):
        try:
            made[table] = rules.result(table, schema).schema
        except SpecError as error:
            for each in error.problems:
                told = replace(each, message=f"{each.message} in {table}")
                problems.setdefault((each.file, each.line, each.column), told)
    if problems:
        raise SpecError(sorted(problems.values(), key=lambda each: (each.line, each.column)))
    from cdc.transform.runner import prove  # with the engine, which a pipeline without rules does without

    prove(rules, tables)
    return made


def unfit(rules: Rules | None, tables: Mapping[TableId, TableSchema]) -> Mapping[TableId, SpecError]:
    """The tables that their rule does not fit, with the reasons."""
    found: dict[TableId, SpecError] = {}
    if rules is None:
        return found
    for table, schema in sorted(tables.items()):
        try:
            rules.result(table, schema)
        except SpecError as error:
            found[table] = error
    return found


def plan_file(spec: PipelineSpec, state: StateDir | None = None) -> Plan:
    """Connect to source and sink and plan; `state` is of the runs before, None when there were none.

    Raises SourceError, SinkError, SpecError, StateError; EngineError without a driver.
    """
    from cdc.replanning import known_tables, notes_since
    from cdc.source import Context
    from cdc.state.fingerprint import Fingerprints
    from cdc.state.store import LocalStore

    with tempfile.TemporaryDirectory(prefix="cdc-plan-") as folder:
        store = LocalStore(Path(folder))
        try:
            source = spec.source.build(Context(spec.name, store.within("source")))
            sink = spec.sink.build(Context(spec.name, store.within("sink")))
        except ImportError as error:
            raise EngineError(f"a connector cannot be loaded: {error}", hint="install what it needs") from error
        try:
            middle = compiled(spec)
            tables, kept = source.tables(), None if state is None else Fingerprints(state.store).read()
            known = () if kept is None else kept.patterns
            missing = check_patterns(spec, middle.routes, tables, complete=source.lists_all_tables, known=known)
            paused = () if state is None else Held(state).tables().paused
            known_sinks = () if state is None else known_tables(state)
            plan = make_plan(spec, middle, tables, sink, known_sinks, paused, sink.keyless)
            since = () if state is None else notes_since(state, middle.rules, sink, spec.sink, paused)
            return replace(plan, notes=(*plan.notes, *since), unmatched=tuple(map(str, missing)))
        finally:
            source.stop()


_KEYLESS = {
    KeylessRows.EQUAL: "kept equal, as many equal rows as the source has",
    KeylessRows.INSERTS: "the table only grows, sink.keyless-changes says what becomes of updates and deletes",
    KeylessRows.CHANGES: "every change is kept",
    KeylessRows.REFUSED: "the sink takes no such table",
}


def plan_text(plan: Plan) -> str:
    """The plan for people."""
    lines = [f"pipeline {plan.name}: {plan.source} -> {plan.sink}, {_count(len(plan.tables), 'table')}"]
    if plan.behavior:
        lines.append(f"schema changes: {plan.behavior}")
    if not plan.tables:
        lines.append("no table matches `tables` now; tables created later that match will be captured")
    lines += [f"warning: {note}" for note in plan.unmatched]
    lines += [f"since the last run: {note}" for note in plan.notes]
    for table in plan.tables:
        lines += ["", f"{_sources(table)} -> {table.sink}  ({_state(table)})"]
        lines += [_rule_line(table)] if table.rules else []
        lines += [f"    {_column(table, index)}" for index in range(len(table.schema.columns))]
        key = ", ".join(table.schema.primary_key)
        lines.append(f"    primary key ({key})" if key else f"    no primary key: {_KEYLESS[plan.keyless]}")
        lines += [f"    {table.gone}"] if table.gone else []
        lines += [f"  would run: {statement}" for statement in table.statements]
        lines += [f"  would stop: {table.refused}"] if table.refused else []
    return "\n".join(lines)


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


def _each_statement_once(plans: Sequence[TablePlan]) -> list[TablePlan]:
    """Statements that several tables need, such as CREATE SCHEMA, kept for the first: each was planned as if alone."""
    seen = set[str]()
    found = []
    for plan in plans:
        found.append(replace(plan, statements=tuple(each for each in plan.statements if each not in seen)))
        seen.update(plan.statements)
    return found


def _rows_of_gone(plan: TablePlan, middle: Middle) -> str:
    rules = {target.shard_gone for target in middle.routes.targets(plan.source) if target.table == plan.sink}
    if "delete" in rules and middle.policy.mirrors:
        return "rows of one that is truncated or dropped go: the others are copied anew"
    return "rows of one that is truncated or dropped stay here"


def _with_stop(plan: TablePlan, policy: Policy, found: BatchOutcome, sink: Sink | None) -> TablePlan:
    """The plan with what a run finds missing in the sink, where nothing is created or added there."""
    expected = [creation for creation in found.expected if creation.table == plan.sink]
    if sink is None:
        return replace(plan, statements=()) if expected else plan
    try:
        check_expected(sink, expected)
        if not expected:
            check_there(sink, policy, [CreateTable(plan.sink, plan.schema)])
    except ChangeRefused as error:
        return replace(plan, refused=plan.refused or str(error), statements=())
    return replace(plan, statements=()) if expected else plan


def _with_rules(plan: TablePlan, rules: Rules | None, tables: Mapping[TableId, TableSchema]) -> TablePlan:
    """The plan with what the rules of its source tables do."""
    if rules is None:
        return plan
    found = [rules.rule(table) for table in (plan.source, *plan.others)]
    own = {rule.name: rule for rule in found if rule is not None}
    plan = replace(plan, rules=tuple(own))
    if len(own) != 1 or None in found:
        return plan
    (rule,) = own.values()
    passing = "" if rule.filter is None else rule.filter.text.text.strip()
    return replace(plan, filter=passing, computed=rules.computed(plan.source, tables[plan.source]))


def _rule_line(table: TablePlan) -> str:
    passing = f", rows where {table.filter}" if table.filter else ""
    return f"    behind {', '.join(table.rules)}{passing}"


def _sources(table: TablePlan) -> str:
    if len(table.others) < _NAMED:
        return ", ".join(map(str, (table.source, *table.others)))
    return f"{', '.join(map(str, (table.source, *table.others[: _NAMED - 1])))} and {len(table.others) - 2} more"


_NAMED = 3


def _state(table: TablePlan) -> str:
    if table.actual is None:
        return "to be created" if table.statements else "new"
    missing = [name for name in table.schema.names if name not in table.actual.names]
    return f"exists, without {', '.join(missing)}" if missing else "exists"


def _column(table: TablePlan, index: int) -> str:
    column = table.schema.columns[index]
    width = max(len(name) for name in table.schema.names)
    text = f"{column.name:<{width}}  {column.type}{'' if column.nullable else ' NOT NULL'}"
    computed, why = table.computed.get(column.name), table.why.get(column.name)
    return text + (f"  = {computed}" if computed else "") + (f"  ({why})" if why else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
