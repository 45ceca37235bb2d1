"""Small pipelines by hand, as somebody outside would write them: what goes in, and what SQL says must come out.

A file has cases, and perhaps an `input` that they share. A case has a `pipeline` (YAML as a mapping) or the keys of one
`rule` for all tables, and expects some of:

    rows     [[op, {column: value}], ...] of all tables in order; with several tables [op, table, {...}]
    columns  ["id BIGINT NOT NULL", ...] of the only table in the end, or by table
    changes  the kinds of schema changes, in order, such as [create.table, add.column]
    output   whole lines
    schemas, error  as in a test file of `cdc test`
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc.spec import reader, tree
from cdc.testing import run_cases
from cdc.testing.case import case_from
from cdc.testing.comparing import differences
from cdc.testing.suite import PipelineTest

GIVEN = {"name", "rule", "pipeline", "input", "sink_tables", "now", "variables"}
EXPECTED = {"rows", "columns", "changes", "output", "schemas", "error"}
FILES = sorted(Path(__file__).parent.glob("*.yaml"))


def cases_of(file: Path) -> list[dict[str, Any]]:
    root, problems = reader.read(str(file), file.read_bytes(), env=None, read_file=str)
    assert problems == []
    assert isinstance(root, tree.Mapping)
    found = tree.plain(root)
    return [{"input": found.get("input", []), **case} for case in found["cases"]]


def as_case(case: dict[str, Any]) -> dict[str, Any]:
    pipeline = case.get("pipeline")
    if "rule" in case:
        rules = [{"source-table": r"\.*.\.*", **case["rule"]}]
        pipeline = {"transform": rules, "pipeline": {"schema.change.behavior": "evolve"}, **(pipeline or {})}
    given = {key: case[key] for key in ("name", "input", "sink_tables", "now", "variables") if key in case}
    return {**given, "pipeline": yaml.safe_dump(pipeline or {}, allow_unicode=True, width=1000)}


def wrong(case: dict[str, Any], result: Any) -> list[str]:
    output = tuple(case["output"]) if "output" in case else None
    test = PipelineTest("", case_from(as_case(case), 0), output, case.get("schemas"), case.get("error"))
    found = differences(test, result)
    lines = [json.loads(line) for line in result.output]
    rows = [line for line in lines if "op" in line]
    for key, actual in (
        ("rows", [[line["op"], line["row"]] for line in rows]),
        ("changes", [line["change"] for line in lines if "change" in line]),
        ("columns", {table: _columns(schema) for table, schema in result.schemas.items()}),
    ):
        wanted = case.get(key)
        if wanted is None:
            continue
        if key == "rows" and any(len(row) == 3 for row in wanted):
            actual = [[line["op"], line["table"], line["row"]] for line in rows]
        if key == "columns" and isinstance(wanted, list):
            actual = next(iter(actual.values()), None)  # type: ignore[attr-defined]
        if wanted != actual:
            found.append(f"{key}: expected {json.dumps(wanted)}\n{' ' * len(key)}    actual {json.dumps(actual)}")
    return found


def _columns(schema: dict[str, Any]) -> list[str]:
    return [
        f"{column['name']} {column['type']}{'' if column.get('nullable', True) else ' NOT NULL'}"
        for column in schema["columns"]
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_cases(file: Path) -> None:
    cases = cases_of(file)
    assert len({case["name"] for case in cases}) == len(cases)
    for case in cases:
        assert case.keys() <= GIVEN | EXPECTED, case["name"]
        assert case.keys() & EXPECTED, f"{case['name']} expects nothing"
    results = run_cases(map(as_case, cases))
    found = {case["name"]: wrong(case, result) for case, result in zip(cases, results, strict=True)}
    failed = [f"{name}\n    " + "\n    ".join(lines) for name, lines in found.items() if lines]
    assert not failed, f"{len(failed)} of {len(cases)} cases:\n" + "\n".join(failed)
