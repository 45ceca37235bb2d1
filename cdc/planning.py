"""What a pipeline would do, as a value: matched tables, routes, sink schemas, statements. Changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cdc.errors import EngineError, Problem, SpecError
from cdc.flow.route import check_collisions, route
from cdc.schema import CreateTable, TableId, TableSchema
from cdc.spec.rules import made_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from cdc.sink import Describes
    from cdc.spec.model import PipelineSpec
    from cdc.transform.rules import Rules


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One captured table.

    Attributes:
        source, sink: table ids before and after routing.
        schema: what the sink table gets.
        actual: the sink table as it is now, None when there is none or the sink cannot tell.
        statements: what would run in the sink before the first row.
    """

    source: TableId
    sink: TableId
    schema: TableSchema
    actual: TableSchema | None = None
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole pipeline, printable. `source` and `sink` are connector names."""

    name: str
    source: str
    sink: str
    tables: tuple[TablePlan, ...]

    def __str__(self) -> str:
        return plan_text(self)


def make_plan(spec: PipelineSpec, tables: Mapping[TableId, TableSchema], describes: Describes | None) -> Plan:
    """Plan for the tables the source has now; asks the sink what is there.

    Raises SpecError on collisions, and with every mistake of the rules.
    """
    check_routes(spec, tables)
    made = check_rules(made_rules(spec), tables)
    plans = [_plan_table(table, route(table, spec.route), schema, describes) for table, schema in sorted(made.items())]
    return Plan(spec.name, spec.source.type, spec.sink.type, tuple(plans))


def check_routes(spec: PipelineSpec, tables: Mapping[TableId, TableSchema] | Sequence[TableId]) -> None:
    """Raise SpecError when two of these tables would share a sink table, or one would need several."""
    check_collisions(tables, spec.route, first_match=spec.pipeline.route_mode == "first_match", file=spec.file)


def check_rules(rules: Rules | None, tables: Mapping[TableId, TableSchema]) -> Mapping[TableId, TableSchema]:
    """What the rules make of these tables. Raises SpecError with every mistake: unknown columns, types that do not fit.

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
    rules.prove(tables)
    return made


def router(spec: PipelineSpec) -> Callable[[TableId], TableId]:
    """Source table id to sink table id, picklable."""
    return partial(route, rules=spec.route)


def plan_file(spec: PipelineSpec) -> Plan:
    """Connect to source and sink and plan. Raises SourceError, SinkError, SpecError; EngineError without a driver."""
    from cdc.source import Context, close
    from cdc.state.store import LocalStore

    with tempfile.TemporaryDirectory(prefix="cdc-plan-") as folder:
        store = LocalStore(Path(folder))
        try:
            source = spec.source.build(Context(spec.name, store.within("source")))
            sink = spec.sink.build(Context(spec.name, store.within("sink")))
        except ImportError as error:
            raise EngineError(f"a connector cannot be loaded: {error}", hint="install what it needs") from error
        describes = cast("Describes", sink) if hasattr(sink, "describe") and hasattr(sink, "statements") else None
        try:
            return make_plan(spec, source.tables(), describes)
        finally:
            close(source)


def plan_text(plan: Plan) -> str:
    """The plan for people."""
    lines = [f"pipeline {plan.name}: {plan.source} -> {plan.sink}, {_count(len(plan.tables), 'table')}"]
    if not plan.tables:
        lines.append("no table matches `tables` now; tables created later that match will be captured")
    for table in plan.tables:
        lines += ["", f"{table.source} -> {table.sink}  ({_state(table)})"]
        lines += [f"    {_column(table.schema, index)}" for index in range(len(table.schema.columns))]
        key = ", ".join(table.schema.primary_key)
        lines.append(f"    primary key ({key})" if key else "    no primary key: changes are appended")
        for statement in table.statements:
            lines.append(f"  would run: {statement}")
    return "\n".join(lines)


def _plan_table(table: TableId, sink_table: TableId, schema: TableSchema, describes: Describes | None) -> TablePlan:
    if describes is None:
        return TablePlan(table, sink_table, schema)
    statements = tuple(describes.statements([CreateTable(sink_table, schema)]))
    return TablePlan(table, sink_table, schema, describes.describe(sink_table), statements)


def _state(table: TablePlan) -> str:
    if table.actual is None:
        return "to be created" if table.statements else "new"
    missing = [name for name in table.schema.names if name not in table.actual.names]
    return f"exists, without {', '.join(missing)}" if missing else "exists"


def _column(schema: TableSchema, index: int) -> str:
    column = schema.columns[index]
    width = max(len(name) for name in schema.names)
    return f"{column.name:<{width}}  {column.type}{'' if column.nullable else ' NOT NULL'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
