"""`run_cases`: runs thousands of small pipelines in one process, without Spark or servers.

Each case runs through the engine's own flow (`cdc.flow`), batch by batch, from lines to lines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from cdc.flow.middle import Middle
from cdc.lines.source import LineSource
from cdc.planning.table_checks import check_merges, check_rules
from cdc.schema_json import schema_to_json
from cdc.spec.check import check
from cdc.spec.compiled import compile_spec
from cdc.spec.model import PipelineSpec
from cdc.testing.case import CaseResult, PipelineCase, case_from, error_from, name_of
from cdc.testing.line_sink import LineSink
from cdc.testing.memory import run_in_memory
from cdc.testing.memory_state import MemoryState

STAND_INS = b"source: {type: values, rows: [], metadata.list: op_ts}\nsink: {type: values}\n"

logging.getLogger("cdc").addHandler(logging.NullHandler())
"""Keeps Python from printing warnings of cases where logging is not configured."""


def run_cases(cases: Iterable[Mapping[str, Any]]) -> list[CaseResult]:
    """Run each case separately, from an empty state; return the results in the same order.

    A case is a mapping: `name`, `pipeline` (YAML text), `input` (list of lines), and optionally `sink`, `sink_tables`,
    `variables` and `now`; a result has `name`, `output`, `schemas` and `error`. docs/testing.md describes them. Errors
    in a case, its pipeline or its lines are in the `error` of its result: nothing is raised.
    """
    return [_run(value, number) for number, value in enumerate(cases)]


def run_case(case: PipelineCase, sink: LineSink, file: str = "pipeline.yaml", *, dead_letters: str = "") -> None:
    """Run a case into a sink; `file` is the pipeline's name in messages, `dead_letters` as in `middle`.

    Raises CdcError.
    """
    checked = check(file, case.pipeline.encode(), env=case.variables, stand_ins=STAND_INS)
    spec = (checked.with_sink(case.sink) if case.sink else checked).spec
    source, between = CaseSource(case.input), middle(spec, dead_letters=dead_letters)
    tables = source.first_tables()
    between.routes.check(tables)
    check_merges(between, check_rules(between.rules, tables))
    run_in_memory(source, sink, state=MemoryState(), middle=between, now=case.now)


def middle(spec: PipelineSpec, *, dead_letters: str = "") -> Middle:
    """Compile the rules and routes of a pipeline file; drops cached functions of other pipelines.

    `dead_letters` replaces `dead-letter.path`, so that the letters of real runs are not touched.
    """
    if dead_letters and spec.rule_settings.dead_letters:
        settings = replace(spec.rule_settings, dead_letters=dead_letters)
        spec = spec.model_copy(update={"rule_settings": settings})
    if spec.rules:
        from cdc.transform.rule_cache import forget

        forget()
    return compile_spec(spec)


class CaseSource(LineSource):
    """The input of a case."""

    def __init__(self, lines: Iterable[tuple[str, object]]) -> None:
        super().__init__()
        self._lines = tuple(lines)

    def lines(self) -> Iterator[tuple[str, object]]:
        """Return the position of each line, and its JSON value."""
        return iter(self._lines)


def finish_case(case: PipelineCase, file: str = "pipeline.yaml", *, dead_letters: str = "") -> CaseResult:
    """Run a valid case and return its result, including an error that stops it."""
    sink, error = LineSink(case.sink_tables), None
    try:
        run_case(case, sink, file, dead_letters=dead_letters)
    except Exception as raised:  # noqa: BLE001 - a case must not stop the others of the suite
        error = error_from(raised)
    schemas = {str(table): schema_to_json(schema) for table, schema in sorted(sink.tables.items())}
    return CaseResult(name=case.name, output=list(sink.lines), schemas=schemas, error=error)


def _run(value: object, number: int) -> CaseResult:
    try:
        case = case_from(value, number)
    except Exception as raised:  # noqa: BLE001 - a mapping of the caller may raise anything
        return CaseResult(name=name_of(value, number), output=[], schemas={}, error=error_from(raised))
    return finish_case(case)
