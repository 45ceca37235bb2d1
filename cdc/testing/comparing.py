"""Compares expected with actual lines by meaning, and describes the differences for people. Pure.

Both sides are normalized first: a row has all columns of its table in order, a value the spelling of its type (`9.5` of
a DECIMAL(10, 2) is `9.50`), a JSON value normalized spaces.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cdc.errors import EngineError
from cdc.evolution.apply import apply_changes
from cdc.lines.format import Commit, RowImage, change_line, decoded, encoded, line_from_json, row_line
from cdc.schema import Kind, TableId, TableSchema
from cdc.schema_json import schema_from_json, schema_to_json
from cdc.testing.case import CaseResult
from cdc.testing.suite import ERROR_KEYS, PipelineTest

Tables = Mapping[TableId, TableSchema]


def differences(test: PipelineTest, result: CaseResult) -> list[str]:
    """Return lines that describe the differences; none when the test passes."""
    found = list(_error_differences(test, result))
    if test.output is not None:
        times = any(isinstance(line, dict) and "ts_ms" in line for line in test.output)
        expected = _canonical(test.output, test.case.sink_tables, times=times)
        actual = _canonical(map(json.loads, result.output), test.case.sink_tables, times=times)
        found += _diff(expected, actual)
    if test.schemas is not None:
        wanted_schemas = [f"{table}: {_schema(schema)}" for table, schema in sorted(test.schemas.items())]
        schemas = result.schemas
        actual_schemas = [
            f"{table}: {_schema(schemas[table])}" if table in schemas else f"{table}: there is no such table"
            for table in sorted(test.schemas)
        ]
        found += _diff(wanted_schemas, actual_schemas)
    return found


def _error_differences(test: PipelineTest, result: CaseResult) -> Iterator[str]:
    error = result.error
    if error is None:
        if test.error is not None:
            yield f"should have failed with {test.error.get('type', 'an error')}, but did not"
        return
    if test.error is None:
        yield f"failed with {error['type']}: {error['where']}: {error['message']}"
        return
    for key in (key for key in ERROR_KEYS if key in test.error):
        expected, actual = test.error[key], error[key]
        if not (actual == expected if key == "type" else expected in actual):
            yield f"error.{key} should {'be' if key == 'type' else 'contain'} {expected!r}, it is {actual!r}"


def _diff(expected: Sequence[str], actual: Sequence[str]) -> list[str]:
    return list(difflib.unified_diff(expected, actual, "expected", "actual", n=2, lineterm=""))


def _schema(value: Any) -> str:
    try:
        return json.dumps(schema_to_json(schema_from_json(value)), ensure_ascii=False)
    except ValueError:
        return json.dumps(value, ensure_ascii=False)


def _canonical(values: Iterable[object], tables: Tables, *, times: bool) -> list[str]:
    """Normalize each line to a text. An invalid line is shown unchanged: it equals no output."""
    known, texts = dict(tables), []
    for value in values:
        try:
            line = line_from_json(value)
            if isinstance(line, RowImage):
                schema = known.get(line.table)
                row = line.row if schema is None else _row(line.row, schema)
                texts.append(row_line(RowImage(line.kind, line.table, row, line.ts_ms if times else 0)))
            elif not isinstance(line, Commit):
                known = apply_changes(known, [line])
                texts.append(change_line(line))
        except (ValueError, EngineError):
            texts.append(json.dumps(value, ensure_ascii=False, default=str))
    return [text.rstrip("\n") for text in texts]


def _row(row: Mapping[str, Any], schema: TableSchema) -> dict[str, Any]:
    unknown = row.keys() - set(schema.names)
    if unknown:
        raise ValueError(f"no column {sorted(unknown)[0]}")
    return {column.name: _value(row.get(column.name), column.type) for column in schema.columns}


def _value(value: Any, data_type: Any) -> object:
    read = decoded(value, data_type)
    if read is not None and data_type.kind is Kind.JSON:
        return json.dumps(json.loads(read), ensure_ascii=False)
    if read is not None and data_type.kind is Kind.DECIMAL and (data_type.length or 0) <= 38:
        return f"{read:.{data_type.scale or 0}f}"
    return encoded(read, data_type)
