"""`run_cases` as an outside suite uses it: mappings in, mappings out, and never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from together import together

from cdc.testing import run_cases

COLUMNS = [{"name": "id", "type": "INT", "nullable": False}, {"name": "note", "type": "STRING"}]
SCHEMA = {"columns": COLUMNS, "primary_key": ["id"]}
CREATE = {"change": "create.table", "table": "shop.orders", "schema": SCHEMA}
ROUTE = "route:\n  - source-table: shop.orders\n    sink-table: ods.orders\n"


def row(op: str, id_: int, note: str | None = None, table: str = "shop.orders") -> dict[str, Any]:
    return {"op": op, "table": table, "row": {"id": id_, "note": note}}


def of(**case: Any) -> dict[str, Any]:
    (result,) = run_cases([{"name": "one", "pipeline": "", "input": [], **case}])
    return result


def test_a_result_says_what_the_values_sink_would_write_and_what_the_tables_are_in_the_end() -> None:
    added = {"change": "add.column", "table": "shop.orders", "column": {"name": "qty", "type": "INT"}}
    lines = [CREATE, row("+I", 1, "a"), row("-U", 1, "a"), row("+U", 1, "b"), added, row("-D", 1, "b")]
    result = of(pipeline=ROUTE, input=[json.dumps(line) for line in lines])
    assert result["error"] is None
    assert result["name"] == "one"
    expected = [json.loads(json.dumps(line).replace("shop.orders", "ods.orders")) for line in lines]
    expected[-1]["row"]["qty"] = None
    assert [json.loads(line) for line in result["output"]] == expected
    assert result["schemas"] == {"ods.orders": {**SCHEMA, "columns": [*COLUMNS, {"name": "qty", "type": "INT"}]}}
    assert json.loads(json.dumps(result)) == result


def test_keys_of_a_result_are_attributes_too() -> None:
    (result,) = run_cases([{"name": "one", "pipeline": "{}", "input": [CREATE]}])
    assert (result.name, result.error) == ("one", None)
    assert (len(result.output), set(result.schemas)) == (1, {"shop.orders"})


def test_what_is_written_can_be_read_again() -> None:
    first = of(input=[CREATE, {**row("+I", 1), "ts_ms": 1767225600000}, row("-D", 1)])
    assert of(input=first["output"])["output"] == first["output"]


def test_cases_know_nothing_of_each_other() -> None:
    results = run_cases({"name": str(number), "input": [CREATE, row("+I", number)]} for number in range(3))
    assert [result["name"] for result in results] == ["0", "1", "2"]
    assert [json.loads(result["output"][-1])["row"]["id"] for result in results] == [0, 1, 2]


def test_a_table_that_the_sink_has_already_keeps_its_own_columns() -> None:
    there = {"columns": [COLUMNS[0], {"name": "loaded", "type": "TIMESTAMP"}], "primary_key": ["id"]}
    result = of(input=[CREATE, row("+I", 1)], sink_tables={"shop.orders": there, "other": SCHEMA})
    assert [column["name"] for column in result["schemas"]["shop.orders"]["columns"]] == ["id", "loaded", "note"]
    assert result["schemas"]["other"] == SCHEMA


def test_variables_are_the_cases_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINK_TABLE", "from.environment")
    pipeline = ROUTE.replace("ods.orders", "${SINK_TABLE}")
    assert set(of(pipeline=pipeline, input=[CREATE], variables={"SINK_TABLE": "from.case"})["schemas"]) == {"from.case"}
    assert of(pipeline=pipeline, input=[CREATE])["error"]["type"] == "SpecError"


def test_what_was_committed_before_an_error_is_in_the_output() -> None:
    gone = {"change": "drop.table", "table": "shop.orders"}
    clash = {**CREATE, "table": "shop.invoices"}
    pipeline = ROUTE.replace("shop.orders", r"shop.\.*").replace("ods.orders", "ods.<>\n    replace-symbol: <>")
    pipeline += "pipeline:\n  schema.change.behavior: evolve\n"
    result = of(
        pipeline=pipeline, input=[CREATE, row("+I", 1), gone, clash], sink_tables={"ods.invoices": {"columns": COLUMNS}}
    )
    assert [json.loads(line).get("op") for line in result["output"]] == [None, "+I", None]
    assert (result["error"]["type"], result["error"]["where"]) == ("ChangeRefused", "ods.invoices")
    assert result["error"]["message"].startswith("exists with the key (), it should be (id) (")


MALFORMED: list[tuple[Any, str, str]] = [
    (None, "", "a case is a mapping, got None"),
    ("text", "", "a case is a mapping, got 'text'"),
    ({"input": 5}, "input", "must be a list of lines, got 5"),
    ({"input": "{}"}, "input", "must be a list of lines, got '{}'"),
    ({}, "input", "must be a list of lines, got None"),
    ({"input": ["{"]}, "input[0]", "is not JSON: "),
    ({"input": [CREATE, 7]}, "input[1]", "a line is a JSON object, got 7"),
    ({"input": [row("+I", 1)]}, "input[0]", "there is no table shop.orders at this point"),
    ({"input": [CREATE, row("+I", 2**40)]}, "input[1]", "column id: "),
    ({"input": [], "pipeline": 5}, "pipeline", "must be YAML text, got 5"),
    ({"input": [], "pipeline": "- a"}, "pipeline.yaml:1:1", "must be a mapping with `source` and `sink`"),
    ({"input": [], "pipeline": "a: ["}, "pipeline.yaml:1:5", ""),
    ({"input": [], "pipeline": "rout: []"}, "pipeline.yaml:1:1", "rout: unknown key (did you mean `route`?)"),
    ({"input": [], "pipeline": "source: {type: values}"}, "pipeline.yaml:1:1", "source.path: needs either"),
    ({"input": [], "sink_tables": 5}, "sink_tables", "must be a mapping of tables and schemas, got 5"),
    ({"input": [], "sink_tables": {"a.b": {}}}, "sink_tables.a.b", "a schema needs a list of columns"),
    ({"input": [], "sink_tables": {5: SCHEMA}}, "sink_tables.5", ""),
    ({"input": [], "variables": {"A": 5}}, "variables", "must be a mapping of names and texts"),
    ({"input": [], "now": "today"}, "now", "must be a moment such as 2026-01-01T00:00:00Z, got 'today'"),
    ({"input": [], "expected": []}, "expected", "a case has no such key (known: name, pipeline,"),
]


@together("case, where, message", MALFORMED)
def test_a_malformed_case_is_told_in_its_result(case: Any, where: str, message: str) -> None:
    broken, sound = run_cases([case, {"name": "sound", "input": [CREATE]}])
    assert broken["name"] == "case 0"
    assert [line for line in broken["output"] if "op" in json.loads(line)] == []
    assert broken["error"]["type"] in ("SpecError", "SourceError")
    assert (broken["error"]["where"], broken["error"]["message"][: len(message)]) == (where, message)
    assert (sound["error"], len(sound["output"])) == (None, 1)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    error = of(input=5, variables=[1], sink_tables={"a.b": 5})["error"]
    assert error["where"] == "input"
    assert [line.split(": ")[0] for line in error["message"].splitlines()[1:]] == ["sink_tables.a.b", "variables"]
    error = of(pipeline="rout: []\npipelin: {}\n")["error"]
    assert error["where"] == "pipeline.yaml:1:1"
    assert error["message"].splitlines()[1].startswith("pipeline.yaml:2:1: pipelin: unknown key")
