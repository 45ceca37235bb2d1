"""A schema change of the source, seen through a rule: what changes in the rule's result."""

from __future__ import annotations

from cdc.errors import SpecError, TransformError
from cdc.evolution.apply import apply_change
from cdc.evolution.diff import Hints, Table, diff
from cdc.evolution.renames import pairs
from cdc.schema import (
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    TableSchema,
    TruncateTable,
)
from cdc.transform.rule import Rule
from cdc.transform.rule_types import Typing, typing_of


def rule_changes(rule: Rule, schema: TableSchema, change: SchemaChange) -> list[SchemaChange]:
    """The changes of the rule's result that a change of the source table means; empty when the result stays.

    Columns that `*` stands for follow: added, dropped, renamed, retyped. Computed columns take their new types.

    Args:
        rule: the rule of the table.
        schema: the source table's schema before the change.
        change: the source's change; its table id is kept.

    Raises TransformError naming rule and column when the projection, the filter, a key or a mask names a column that
    the change takes away or renames, or when an expression no longer fits.
    """
    if isinstance(change, TruncateTable | DropTable | RenameTable):
        return [change]
    after = apply_change(schema, change)
    assert after is not None, "only DropTable leaves no schema"
    new = _typed(rule, after, change)
    if isinstance(change, CreateTable):
        return [CreateTable(change.table, new.schema)]
    if isinstance(change, RenameColumns):
        _typed(rule, _under_no_name(schema, change), change)
    old = typing_of(rule, schema)
    return diff(Table(change.table, old.schema), Table(change.table, new.schema), Hints(_origins(old, new, change)))


def _origins(old: Typing, new: Typing, change: SchemaChange) -> dict[str, str | None]:
    """New column of the result -> the old one that it was: by its source column when it passes, else by its name."""
    renamed = _new_names(change)
    passing = {output.source: output.column.name for output in old.outputs if output.star}
    names = {output.column.name for output in old.outputs}
    origins: dict[str, str | None] = {}
    for output in new.outputs:
        if output.star:
            source = output.source
            origins[output.column.name] = passing.get(renamed.get(source, source))
        else:
            origins[output.column.name] = output.column.name if output.column.name in names else None
    return origins


def _new_names(change: SchemaChange) -> dict[str, str]:
    """New column name -> old one."""
    match change:
        case RenameColumn(old_name=old, new_name=new):
            return {new: old}
        case RenameColumns(names=names):
            return {new: old for old, new in names}
        case _:
            return {}


def _under_no_name(schema: TableSchema, change: RenameColumns) -> TableSchema:
    """The schema with those columns under names that no rule names: a rule that names one names another one now."""
    names = tuple((old, f"\x00{old}") for old, _ in change.names)
    after = apply_change(schema, RenameColumns(change.table, names))
    assert after is not None, "a renamed column is of a table"
    return after


def _typed(rule: Rule, schema: TableSchema, change: SchemaChange) -> Typing:
    try:
        return typing_of(rule, schema)
    except SpecError as error:
        problem = error.problems[0]
        place = f"{problem.file}:{problem.line}:{problem.column}" if problem.file else rule.name
        raise TransformError(
            f"{_described(change)}, which the rule names: {problem.message}",
            where=f"{place}: {problem.path or rule.name}: table {change.table}",
            hint="change the rule to the new column, and start again; the source's change is not lost",
        ) from error


def _described(change: SchemaChange) -> str:
    if isinstance(change, RenameColumn):
        return f"the source renamed the column {change.old_name} to {change.new_name}"
    if isinstance(change, RenameColumns):
        return f"the source renamed the columns {pairs(change)}"
    if isinstance(change, DropColumn):
        return f"the source dropped the column {change.name}"
    return f"the source changed the table ({type(change).__name__})"
