"""A case of a suite and its result as values: `cdc.testing.run_cases` takes and returns them as mappings.

    case    {"name": "paid orders only",
             "pipeline": "transform:\\n  - {source-table: shop.orders, filter: paid}\\n",
             "input": ['{"change": "create.table", ...}', '{"op": "+I", ...}'],
             "sink_tables": {"ods.orders": {"columns": [...], "primary_key": ["id"]}},
             "variables": {"HASH_KEY": "k"}, "now": "2026-01-01T00:00:00Z"}
    result  {"name": "paid orders only", "output": ['{"change": "create.table", ...}'],
             "schemas": {"shop.orders": {"columns": [...]}}, "error": None}

docs/testing.md has every key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cdc.errors import CdcError, Problem, SpecError
from cdc.schema import TableId, TableSchema
from cdc.schema_json import schema_from_json

KEYS = ("name", "pipeline", "sink", "input", "sink_tables", "variables", "now")


@dataclass(frozen=True, slots=True)
class PipelineCase:
    """A valid case.

    Attributes:
        pipeline: YAML text; a missing `source` or `sink` is the values connector.
        input: the position of each line, for messages, and its JSON value.
        sink_tables: tables that already exist in the sink.
        variables: values of `${NAME}`.
        now: the time of every batch; None for the clock.
        sink: the name of the tested sink, of several; empty for a single sink.
    """

    name: str
    pipeline: str
    input: tuple[tuple[str, object], ...]
    sink_tables: Mapping[TableId, TableSchema] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    now: datetime | None = None
    sink: str = ""


class CaseResult(dict[str, Any]):
    """The result of a case: a mapping of JSON values, with the keys also as attributes.

    | key | value |
    |---|---|
    | `name` | the case's name |
    | `output` | list of text: the lines of committed batches as the values sink writes them, without line ends |
    | `schemas` | the final schema of each sink table by `db.table`, as in a `create.table` line |
    | `error` | None, or the error: `type` (its class), `message` with the next step, `where` |
    """

    @property
    def name(self) -> str:
        """The case's name."""
        return str(self["name"])

    @property
    def output(self) -> list[str]:
        """The output lines."""
        return list(self["output"])

    @property
    def schemas(self) -> dict[str, Any]:
        """The final schemas."""
        return dict(self["schemas"])

    @property
    def error(self) -> dict[str, str] | None:
        """The error that stopped the case."""
        found: dict[str, str] | None = self["error"]
        return found


def case_from(value: object, number: int) -> PipelineCase:
    """Read a case from a mapping. Raises SpecError with all its problems."""
    name = name_of(value, number)
    if not isinstance(value, Mapping):
        raise SpecError([_problem("", f"a case is a mapping, got {_excerpt(value)}")])
    problems = [_problem(str(key), "a case has no such key", f"known: {', '.join(KEYS)}")
                for key in value if key not in KEYS]  # fmt: skip
    read = _CaseKeys(value, problems)
    case = PipelineCase(
        name, read.pipeline(), tuple(read.input()), read.sink_tables(), read.variables(), read.now(), read.sink()
    )
    if problems:
        raise SpecError(problems)
    return case


def name_of(value: object, number: int) -> str:
    """Return a case's name, or `case N` without one."""
    name = value.get("name") if isinstance(value, Mapping) else None
    return name if isinstance(name, str) and name else f"case {number}"


def error_from(error: Exception) -> dict[str, str]:
    """Convert an error for a result: for several problems in a pipeline, the position of the first and all texts."""
    kind = type(error).__name__
    if isinstance(error, SpecError) and error.problems:
        first, *others = error.problems
        lines = [_described(first), *(f"{_place(other)}: {_described(other)}" for other in others)]
        return {"type": kind, "message": "\n".join(lines), "where": _place(first)}
    if isinstance(error, CdcError):
        message = f"{error.message} ({error.hint})" if error.hint else error.message
        return {"type": kind, "message": message, "where": error.where}
    return {"type": kind, "message": f"internal error: {error}", "where": ""}


def _place(problem: Problem) -> str:
    """Return a position in the pipeline, or a key of the case."""
    return f"{problem.file}:{problem.line}:{problem.column}" if problem.file else problem.path


def _described(problem: Problem) -> str:
    text = f"{problem.path}: {problem.message}" if problem.file and problem.path else problem.message
    return f"{text} ({problem.hint})" if problem.hint else text


def _problem(key: str, message: str, hint: str = "") -> Problem:
    return Problem("", 0, 0, key, message, hint)


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _CaseKeys:
    """Reads the keys of a case; an invalid value is added to `problems` and replaced by the key's default."""

    def __init__(self, value: Mapping[Any, Any], problems: list[Problem]) -> None:
        self._value, self._problems = value, problems

    def pipeline(self) -> str:
        text = self._value.get("pipeline", "")
        if isinstance(text, str):
            return text if text.strip() else "{}"
        self._wrong("pipeline", f"must be YAML text, got {_excerpt(text)}")
        return ""

    def input(self) -> Iterator[tuple[str, object]]:
        lines = self._value.get("input")
        if not isinstance(lines, Sequence) or isinstance(lines, str | bytes):
            self._wrong("input", f"must be a list of lines, got {_excerpt(lines)}")
            return
        for number, line in enumerate(lines):
            where = f"input[{number}]"
            try:
                yield where, json.loads(line) if isinstance(line, str | bytes) else line
            except (ValueError, RecursionError) as error:
                self._wrong(where, f"is not JSON: {error}", "write one JSON object a line")

    def sink_tables(self) -> dict[TableId, TableSchema]:
        tables = self._value.get("sink_tables") or {}
        if not isinstance(tables, Mapping):
            self._wrong("sink_tables", f"must be a mapping of tables and schemas, got {_excerpt(tables)}")
            return {}
        found = {}
        for table, schema in tables.items():
            try:
                found[TableId.parse(table)] = schema_from_json(schema)
            except (ValueError, AttributeError) as error:
                self._wrong(f"sink_tables.{table}", str(error))
        return found

    def variables(self) -> dict[str, str]:
        variables = self._value.get("variables") or {}
        if isinstance(variables, Mapping) and all(isinstance(text, str) for pair in variables.items() for text in pair):
            return dict(variables)
        self._wrong("variables", f"must be a mapping of names and texts, got {_excerpt(variables)}")
        return {}

    def now(self) -> datetime | None:
        text = self._value.get("now")
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except (ValueError, TypeError):
            self._wrong("now", f"must be a moment such as 2026-01-01T00:00:00Z, got {_excerpt(text)}")
            return None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def sink(self) -> str:
        name = self._value.get("sink") or ""
        if isinstance(name, str):
            return name
        self._wrong("sink", f"must be the name of a sink, got {_excerpt(name)}")
        return ""

    def _wrong(self, key: str, message: str, hint: str = "") -> None:
        self._problems.append(_problem(key, message, hint))
