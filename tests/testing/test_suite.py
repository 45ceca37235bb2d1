"""`cdc test`: what counts as equal, what a difference looks like, and what is said of a wrong test file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from command_runner import CliRunner
from together import together

from cdc.cli import app
from cdc.errors import SpecError
from cdc.testing.command import run_tests

PIPELINE = "source: {type: values, rows: []}\nsink: {type: values}\npipeline: {schema.change.behavior: evolve}\n"
CREATE = {
    "change": "create.table", "table": "a.b",
    "schema": {"columns": [{"name": "id", "type": "INT"}, {"name": "d", "type": "DECIMAL(10, 2)"},
                           {"name": "f", "type": "FLOAT"}, {"name": "j", "type": "JSON"}], "primary_key": ["id"]},
}  # fmt: skip
ROW = {"id": 1, "d": "9.50", "f": 0.1, "j": '{"a":1}'}


def line(op: str = "+I", table: str = "a.b", **row: Any) -> dict[str, Any]:
    return {"op": op, "table": table, "row": row}


def outcome(folder: Path, pipeline: str = PIPELINE, **test: Any) -> list[str]:
    (folder / "p.yaml").write_text(pipeline)
    (folder / "p.test.yaml").write_text(yaml.safe_dump({"version": 1, "tests": [{"name": "t", **test}]}))
    (found,) = run_tests(str(folder / "p.yaml"))
    return list(found.differences)


EQUAL = [
    line(id=1, d="9.50", f=0.1, j='{"a":1}'),
    line(id=1, d=9.5, f=0.1, j={"a": 1}),
    line(j='{"a": 1}', f=0.1, d="9.5", id=1),
]


@pytest.mark.parametrize("expected", EQUAL)
def test_lines_that_mean_the_same_are_equal(tmp_path: Path, expected: dict[str, Any]) -> None:
    assert outcome(tmp_path, input=[CREATE, {**line(**ROW), "ts_ms": 5}], output=[CREATE, expected]) == []


def test_columns_that_are_left_out_are_null(tmp_path: Path) -> None:
    assert outcome(tmp_path, input=[CREATE, line(id=1)], output=[CREATE, line(id=1, d=None, f=None, j=None)]) == []
    assert outcome(tmp_path, input=[CREATE, line(**ROW)], output=[CREATE, line(id=1)]) != []


DIFFERENT = [
    line(id=1, d="9.51", f=0.1, j='{"a":1}'),
    line("-D", id=1, d="9.50", f=0.1, j='{"a":1}'),
    line(id=1, d="9.50", f=0.2, j='{"a":1}'),
    line(id=1, d="9.50", f=0.1, j='{"a":2}'),
    line(id=1, d="9.50", f=0.1, j='{"a":1}', table="a.c"),
    line(id=1, d="9.50", f=0.1, j='{"a":1}', more=None),
    {**line(**ROW), "ts_ms": 6},
    {"change": "truncate.table", "table": "a.b"},
    "no line",
]


@together("expected", DIFFERENT)
def test_lines_that_differ_are_shown_side_by_side(tmp_path: Path, expected: Any) -> None:
    found = outcome(tmp_path, input=[CREATE, {**line(**ROW), "ts_ms": 5}], output=[CREATE, expected])
    assert found[:2] == ["--- expected", "+++ actual"]
    assert sorted(text[0] for text in found[3:]) == [" ", "+", "-"]


def test_order_and_number_of_lines_count(tmp_path: Path) -> None:
    rows = [line(id=1), line(id=2)]
    assert outcome(tmp_path, input=[CREATE, *rows], output=[CREATE, *reversed(rows)]) != []
    assert outcome(tmp_path, input=[CREATE, *rows], output=[CREATE, rows[0]]) != []


def test_schemas_are_those_of_the_end(tmp_path: Path) -> None:
    dropped = {"change": "drop.column", "table": "a.b", "name": "j"}
    wanted = {"a.b": {"columns": CREATE["schema"]["columns"][:3], "primary_key": ["id"]}}  # type: ignore[index]
    assert outcome(tmp_path, input=[CREATE, dropped], schemas=wanted) == []
    assert outcome(tmp_path, input=[CREATE], schemas=wanted) != []
    assert outcome(tmp_path, input=[], schemas=wanted)[-1] == "+a.b: there is no such table"


def test_an_error_is_expected_by_type_and_by_parts_of_its_words(tmp_path: Path) -> None:
    wrong = [line(id=1)]
    place = str(tmp_path / "p.test.yaml")
    right = {"type": "SourceError", "message": "no table a.b", "where": place}
    assert outcome(tmp_path, input=wrong, error=right) == []
    found = outcome(tmp_path, input=wrong, error={"type": "SinkError", "message": "full"})
    assert found[0] == "error.type should be 'SinkError', it is 'SourceError'"
    assert found[1].startswith("error.message should contain 'full', it is 'there is no table a.b")
    assert outcome(tmp_path, input=wrong, output=[])[0].startswith(f"failed with SourceError: {place}:")
    assert outcome(tmp_path, input=[CREATE], error={}) == ["should have failed with an error, but did not"]


def test_dead_letters_of_tests_are_not_in_the_place_of_those_of_runs(tmp_path: Path) -> None:
    pipeline = PIPELINE.replace("{schema", "{dead-letter.path: letters, schema") + (
        "transform:\n  - {source-table: a.b, projection: 'id, 1 / id AS a', on-error: dead-letter}\n"
    )
    found = outcome(tmp_path, pipeline, input=[CREATE, line(id=0), line(id=1)], output=[])
    assert not any("failed with" in each for each in found)
    assert {file.name for file in tmp_path.iterdir()} == {"p.yaml", "p.test.yaml"}


def test_a_pipeline_that_is_wrong_fails_its_tests_with_file_and_line(tmp_path: Path) -> None:
    found = outcome(tmp_path, PIPELINE + "rout: []\n", input=[], output=[])
    assert found == [f"failed with SpecError: {tmp_path}/p.yaml:4:1: rout: unknown key (did you mean `route`?)"]


def test_variables_come_from_the_test_file_then_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM", "a.b")
    (tmp_path / "p.yaml").write_text(PIPELINE + "route: [{source-table: '${FROM}', sink-table: '${TO}'}]\n")
    output = [{**CREATE, "table": "x.y"}, line(table="x.y", id=1)]
    tests = [{"name": "t", "input": [CREATE, line(id=1)], "output": output}]
    document = {"version": 1, "variables": {"TO": "x.y"}, "tests": tests}
    (tmp_path / "p.test.yaml").write_text(yaml.safe_dump(document))
    assert [each.differences for each in run_tests(str(tmp_path / "p.yaml"))] == [()]


WRONG = [
    ("tests: [{name: t, input: [], output: []}]", "1:1: version: must be 1"),
    ("version: 2\ntests: [{name: t, input: [], output: []}]", "1:10: version: must be 1"),
    ("version: 1", "1:1: tests: must be a list of tests"),
    ("version: 1\ntests: []", "2:8: tests: must be a list of tests"),
    ("version: 1\ntest: []\ntests: [{input: [], output: []}]", "2:1: test: unknown key (known: version,"),
    ("version: 1\ntests: [5]", "2:9: tests[0]: must be a mapping"),
    ("version: 1\ntests:\n  - {name: t, input: []}", "3:5: tests[0]: expects nothing (add the expected result:"),
    ("version: 1\ntests:\n  - {input: 5, output: []}", "3:13: tests[0].input: must be a list of lines, got 5"),
    ("version: 1\ntests:\n  - {input: [], output: 5}", "3:25: tests[0].output: must be a list of lines"),
    (
        "version: 1\ntests:\n  - {input: [], error: x}",
        "3:24: tests[0].error: must be a mapping of type",
    ),
    ("version: 1\ntests:\n  - {input: [], error: {kind: x}}", "3:25: tests[0].error.kind: unknown key"),
    ("version: 1\ntests:\n  - {input: [], output: [], now: x}", "3:34: tests[0].now: must be a moment such as"),
    ("version: 1\ntests:\n  - {input: [], output: [], sinks: x}", "3:29: tests[0].sinks: unknown key"),
    ("[]", "1:1: must be a mapping with `version` and `tests`"),
    ("a: [", ""),
]


@together("text, said", WRONG)
def test_a_wrong_test_file_is_refused_with_line_and_column(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    file = tmp_path / "p.test.yaml"
    file.write_text(text)
    with pytest.raises(SpecError) as refused:
        list(run_tests(str(tmp_path / "p.yaml")))
    assert str(refused.value).startswith(f"{file}:{said}")


def test_the_command_says_what_failed_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    document = {"version": 1, "tests": [{"name": "one", "input": [CREATE], "output": []},
                                        {"name": "two", "input": [CREATE], "output": [CREATE]}]}  # fmt: skip
    (tmp_path / "p.test.yaml").write_text(yaml.safe_dump(document))
    done = CliRunner().invoke(app, ["test", str(tmp_path / "p.test.yaml")])
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].endswith(": one: failed")
    assert lines[-2].startswith('  +{"change": "create.table"')
    assert lines[-1] == f"{tmp_path}/p.test.yaml: 2 tests, 1 failed"
    missing = CliRunner().invoke(app, ["test", str(tmp_path / "q.yaml")])
    assert isinstance(missing.exception, SpecError)
