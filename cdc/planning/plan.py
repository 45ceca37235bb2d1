"""The plan of a pipeline as a value, for people and as JSON: matched tables, routes, sink schemas, statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc.errors import ChangeRefused
from cdc.evolution.merge import missing_columns
from cdc.schema import TableId, TableSchema
from cdc.schema_json import schema_to_json
from cdc.sink import KeylessRows
from cdc.tables.table_map import ExistingRows


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One sink table.

    Attributes:
        source, sink: table ids before and after routing.
        others: further source tables of the same sink table, whose schema is then the merged one.
        why: the reason for a column's type, by name, for columns that differ between the source tables.
        schema: the sink table's planned schema.
        actual: the sink table's actual schema; None when it does not exist or is unknown.
        statements: statements that would run in the sink before the first row.
        refused: why the sink refuses the table, with what to do; empty when it accepts it, as far as known.
        rules: the transform rules of its rows, each once.
        filter: the rule's filter, as written; set if all rows have the same rule.
        computed: expressions of computed columns, by name, as written; set if all rows have the same rule.
        removal: what happens to the rows of one of several source tables that is truncated or dropped.
        rows: what happens to existing rows of the sink table before its first snapshot; None without any.
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
    removal: str = ""
    rows: ExistingRows | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a pipeline, printable. `source` and `sink` are connector names, `behavior` is that of schema changes.

    `notes` describe what was edited in the file, or altered in the sink, since the last run; `unmatched` are patterns
    that currently match no table. `keyless`: how the sink handles rows of tables without a key.
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
            raise ChangeRefused(reason, hint="a run would stop: correct it, or exclude such tables with tables.exclude")


def _table_json(table: TablePlan) -> dict[str, object]:
    return {
        "sources": [str(each) for each in (table.source, *table.others)],
        "sink": str(table.sink),
        "schema": schema_to_json(table.schema),
        "actual": None if table.actual is None else schema_to_json(table.actual),
        "statements": list(table.statements),
        "refused": table.refused,
        "existing_rows": table.rows,
        "rules": list(table.rules),
        "filter": table.filter,
        "computed": dict(table.computed),
    }


_KEYLESS = {
    KeylessRows.EQUAL: "kept equal, as many equal rows as the source has",
    KeylessRows.INSERTS: "the table only grows, sink.keyless-changes determines what happens to updates and deletes",
    KeylessRows.CHANGES: "every change is kept",
    KeylessRows.REFUSED: "the sink does not accept such a table",
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
        lines += [f"    {table.removal}"] if table.removal else []
        lines += [f"  would run: {statement}" for statement in table.statements]
        lines += [f"  would stop: {table.refused}"] if table.refused else []
    return "\n".join(lines)


def _rule_line(table: TablePlan) -> str:
    passing = f", rows where {table.filter}" if table.filter else ""
    return f"    after {', '.join(table.rules)}{passing}"


def _sources(table: TablePlan) -> str:
    if len(table.others) < _NAMED:
        return ", ".join(map(str, (table.source, *table.others)))
    return f"{', '.join(map(str, (table.source, *table.others[: _NAMED - 1])))} and {len(table.others) - 2} more"


_NAMED = 3


def _state(table: TablePlan) -> str:
    if table.actual is None:
        return "to be created" if table.statements else "new"
    missing = missing_columns(table.actual, table.schema)
    rows = "" if table.rows is None else _ROWS[table.rows is ExistingRows.REPLACE]
    return (f"exists, without {', '.join(missing)}" if missing else "exists") + rows


_ROWS = {
    False: ", with rows: those that the source does not have stay",
    True: ", with rows: the snapshot replaces them",
}


def _column(table: TablePlan, index: int) -> str:
    column = table.schema.columns[index]
    width = max(len(name) for name in table.schema.names)
    text = f"{column.name:<{width}}  {column.type}{'' if column.nullable else ' NOT NULL'}"
    computed, why = table.computed.get(column.name), table.why.get(column.name)
    return text + (f"  = {computed}" if computed else "") + (f"  ({why})" if why else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
