"""All rules of a pipeline: the rule of each table, and its effect on schemas.

The first rule whose patterns match a table applies; a table without a match is passed through unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cdc.errors import Problem, SpecError, TransformError
from cdc.evolution.apply import apply_change
from cdc.evolution.diff import Hints, Table, diff
from cdc.evolution.renames import pairs
from cdc.pattern import TablePattern
from cdc.schema import (
    CreateTable,
    DropColumn,
    DropTable,
    Kind,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.transform.inputs import OF_CHANGE, OF_TABLE
from cdc.transform.model_use import uses_model
from cdc.transform.models import loaded_models
from cdc.transform.rule import CustomFunction, Rule, parse_rule
from cdc.transform.rule_types import Typing, typing_of
from cdc.transform.texts import RuleSettings, RuleSource
from cdc.transform.typed import Typed, columns, walk
from cdc.transform.types import kind_of
from cdc.transform.user import LoadedFunction, load

SETTINGS = "  -- "
"""Separates an expression's text from the settings that it depends on; the log of tables stores both."""
DELETED = "deleted rows"
"""Takes the place of a column in the texts of rules that keep deleted rows."""
_OF_CLOCK = ("CURRENT_DATE", "FROM_UNIXTIME", "UNIX_TIMESTAMP")
"""Functions that depend on `local-time-zone` although their type does not show it."""


@dataclass(frozen=True)
class Result:
    """A table after its rule: the schema, and the options for creating the sink table."""

    schema: TableSchema
    partition_keys: tuple[str, ...] = ()
    table_options: tuple[tuple[str, str], ...] = ()


class Rules:
    """The parsed rules. Picklable: a task parses them again from the same text.

    The constructor raises SpecError with the problems of all rules, FunctionError for a function that cannot be loaded.
    """

    def __init__(self, sources: Sequence[RuleSource], settings: RuleSettings) -> None:
        self.sources, self.settings = tuple(sources), settings
        self.loaded: tuple[LoadedFunction, ...] = tuple(map(load, settings.functions))
        self.models, asking = loaded_models(settings.models)
        functions = asking | {each.function.name.upper(): each.custom_function() for each in self.loaded}
        self._rules = _parsed(self.sources, settings, functions)

    def __reduce__(self) -> tuple[object, ...]:
        return (_load_pickled, (pickle.dumps((self.sources, self.settings)),))

    def rule(self, table: TableId) -> Rule | None:
        """Return the rule of a source table, None when it is passed through unchanged."""
        return next((rule for pattern, rule in self._rules if pattern.matches(table)), None)

    def result(self, table: TableId, schema: TableSchema) -> Result:
        """Return the table after its rule. Pure, without an engine. Raises SpecError with the rule's problems."""
        rule = self.rule(table)
        if rule is None:
            return Result(schema)
        return Result(typing_of(rule, schema).schema, rule.partition_keys, tuple(rule.table_options.items()))

    def reading(self, table: TableId, schema: TableSchema, column: str) -> list[str]:
        """Return the names of the computed columns that read a source column, and `the filter`."""
        rule = self.rule(table)
        if rule is None:
            return []
        typing = typing_of(rule, schema)
        found = [each.column.name for each in typing.outputs if not each.passes and column in columns(each.node)]
        filtered = typing.condition is not None and column in columns(typing.condition)
        return [*found, *(["the filter"] if filtered else [])]

    def unrepeatable(self, table: TableId, schema: TableSchema) -> list[str]:
        """Return the computed columns that depend on more than the row: the change, its position, the time, a model.

        Names of resulting columns, and `the filter`. The same row, read at another time, may have other values there.
        """
        rule = self.rule(table)
        if rule is None:
            return []
        rule_types, of_change = typing_of(rule, schema), OF_CHANGE - set(schema.names)
        found = [
            each.column.name
            for each in rule_types.outputs
            if of_change & set(columns(each.node)) or uses_model(each.node)
        ]
        return [
            *found,
            *(
                ["the filter"]
                if rule_types.condition is not None and of_change & set(columns(rule_types.condition))
                else []
            ),
        ]

    def same_rows(self, before: TableId, after: TableId, schema: TableSchema) -> bool:
        """Whether the rules of a table's two names give the same rows, so that existing rows can stay."""
        old, new = self.rule(before), self.rule(after)
        if old is not new and _makes(old) != _makes(new):
            return False
        typing = None if new is None else typing_of(new, schema)
        nodes = [] if typing is None else [output.node for output in typing.outputs]
        nodes += [typing.condition] if typing is not None and typing.condition is not None else []
        return not any(OF_TABLE & set(columns(node)) for node in nodes)

    def computed(self, table: TableId, schema: TableSchema) -> dict[str, str]:
        """Return the expressions of the computed columns, by name, as in the file; without columns passed through."""
        rule = self.rule(table)
        columns = () if rule is None else typing_of(rule, schema).outputs
        named = {output.column.name: _without_alias(output.sql, output.column.name) for output in columns}
        return {name: text for name, text in named.items() if text.strip("`") != name}

    def texts(self, table: TableId, schema: TableSchema) -> dict[str, str]:
        """Return the texts of `computed`, with the filter under the empty name and SOFT_DELETE under `DELETED`, and the
        settings that they depend on (`SETTINGS`)."""
        rule = self.rule(table)
        if rule is None:
            return {}
        typing = typing_of(rule, schema)
        nodes = {output.column.name: output.node for output in typing.outputs}
        texts = self.computed(table, schema)
        if rule.filter is not None and typing.condition is not None:
            texts, nodes = {**texts, "": rule.filter.text.text.strip()}, {**nodes, "": typing.condition}
        made_by = {name: text + self._settings_of(nodes[name]) for name, text in texts.items()}
        return {**made_by, DELETED: "SOFT_DELETE"} if rule.soft_delete else made_by

    def _settings_of(self, node: Typed) -> str:
        """Return the settings that an expression depends on: the time zone, the hash key, the code of user functions,
        models and their prompts."""
        own = {each.op: (each.source, each.function.module, sorted(each.function.options.items()))
               for each in self.loaded}  # fmt: skip
        models = {each.op: (each.model.model, each.model.prompt, each.model.answer_inputs()) for each in self.models}
        found = set()
        for each in walk(node):
            if each.op in _OF_CLOCK or (kind_of(each.type) is Kind.TIMESTAMP_LTZ):
                found.add(self.settings.zone)
            elif each.op == "HASH":
                found.add(hmac.digest(self.settings.hash_key or b"", b"hash-key", "sha256").hex()[:12])
            elif (text := own.get(each.op) or models.get(each.op)) is not None:
                found.add(hashlib.sha256(repr(text).encode()).hexdigest()[:12])
        return f"{SETTINGS}{', '.join(sorted(found))}" if found else ""

    def changes(self, table: TableId, schema: TableSchema | None, change: SchemaChange) -> list[SchemaChange]:
        """Return the changes of the rule's result due to a change of the source table, whose schema was `schema`.

        Raises TransformError when the rule names a column that the change removes.
        """
        rule = self.rule(table)
        if rule is None:
            return [change]
        if isinstance(change, CreateTable):
            result = self.result(table, change.schema)
            return [CreateTable(change.table, result.schema, result.table_options, result.partition_keys)]
        return [change] if schema is None else rule_changes(rule, schema, change)


def _makes(rule: Rule | None) -> tuple[object, ...]:
    """Return the effect of a rule on rows, as in the file."""
    if rule is None:
        return "", "", (), False
    projection = "" if rule.projection is None else rule.projection.text.text.strip()
    passing = "" if rule.filter is None else rule.filter.text.text.strip()
    masks = sorted((mask.column, mask.function, mask.number or 0) for mask in rule.masks)
    return projection, passing, tuple(masks), rule.soft_delete


def _without_alias(item: str, name: str) -> str:
    """Return an item of a projection without its alias."""
    return re.sub(rf"\s+(?:AS\s+)?`?{re.escape(name)}`?\s*$", "", item, flags=re.IGNORECASE)


_Parsed = list[tuple[TablePattern, Rule]]
_last: tuple[tuple[RuleSource, ...], RuleSettings, _Parsed] | None = None


def _parsed(sources: tuple[RuleSource, ...], settings: RuleSettings, custom: Mapping[str, CustomFunction]) -> _Parsed:
    """Parse the rules of these texts. The last result is cached, as a file is checked and then run.

    Rules with user functions are not cached, as each load creates a new function. Raises SpecError with the problems of
    all rules.
    """
    global _last
    if not custom and _last is not None and _last[:2] == (sources, settings):
        return _last[2]
    problems: list[Problem] = []
    parsed: _Parsed = []
    for source in sources:
        try:
            rule = parse_rule(
                source.name, source.texts, metadata=settings.metadata, own=custom, on_error=source.on_error,
                keyed=settings.hash_key is not None, namespaces=settings.namespaces,
            )  # fmt: skip
            parsed.append((TablePattern(source.tables), rule))
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(sorted(problems, key=lambda problem: (problem.line, problem.column)))
    if not custom:
        _last = sources, settings, parsed
    return parsed


@lru_cache(maxsize=4)
def _load_pickled(pickled: bytes) -> Rules:
    """Load pickled rules; a process that gets the same rules for many tasks parses them once."""
    return Rules(*pickle.loads(pickled))


def rule_changes(rule: Rule, schema: TableSchema, change: SchemaChange) -> list[SchemaChange]:
    """Return the changes of the rule's result due to a change of the source table; empty when it does not change.

    Columns of `*` follow the source: added, dropped, renamed, retyped. Computed columns take their new types.

    Args:
        rule: the rule of the table.
        schema: the source table's schema before the change.
        change: the source's change; the result has the same table id.

    Raises TransformError, with rule and column, when the projection, the filter, a key or a mask names a column that
    the change removes or renames, or when an expression no longer fits.
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
    """Return the old column of each new one: by its source column if it comes from `*`, else by its name."""
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
    """Return old column names by new name."""
    match change:
        case RenameColumn(old_name=old, new_name=new):
            return {new: old}
        case RenameColumns(names=names):
            return {new: old for old, new in names}
        case _:
            return {}


def _under_no_name(schema: TableSchema, change: RenameColumns) -> TableSchema:
    """Return the schema with impossible names for the renamed columns: a rule that names one would mean another now."""
    names = tuple((old, f"\x00{old}") for old, _ in change.names)
    after = apply_change(schema, RenameColumns(change.table, names))
    assert after is not None, "a renamed column is of a table"
    return after


def _typed(rule: Rule, schema: TableSchema, change: SchemaChange) -> Typing:
    try:
        return typing_of(rule, schema)
    except SpecError as error:
        problem = error.problems[0]
        location = f"{problem.file}:{problem.line}:{problem.column}" if problem.file else rule.name
        raise TransformError(
            f"{_described(change)}, which the rule names: {problem.message}",
            where=f"{location}: {problem.path or rule.name}: table {change.table}",
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
