"""`on-error: dead-letter`: rows that an expression fails on are kept in files, and the sink has exactly the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc.testing import run_cases
from cdc.testing.case import CaseResult

COLUMNS = [
    {"name": "id", "type": "INT", "nullable": False},
    {"name": "n", "type": "INT"},
    {"name": "email", "type": "STRING"},
    {"name": "note", "type": "STRING"},
]
CREATE = {"change": "create.table", "table": "shop.orders", "schema": {"columns": COLUMNS, "primary_key": ["id"]}}
RULE = {"source-table": "shop.orders", "projection": "id, 100 / n AS share", "on-error": "dead-letter"}


def image(op: str, id_: int, n: int | None = None, **values: Any) -> dict[str, Any]:
    return {"op": op, "table": "shop.orders", "row": {"id": id_, "n": n, **values}}


def run(folder: Path, *lines: dict[str, Any], rule: dict[str, Any] | None = None) -> CaseResult:
    pipeline = {"transform": [{**RULE, **(rule or {})}], "pipeline": {"dead-letter.path": str(folder)}}
    (result,) = run_cases([{"name": "one", "pipeline": json.dumps(pipeline), "input": [CREATE, *lines]}])
    return result


def rows(result: CaseResult) -> list[list[Any]]:
    return [[line["op"], *line["row"].values()] for line in map(json.loads, result.output) if "op" in line]


def letters(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def test_a_row_that_fails_is_kept_with_table_key_column_and_expression(tmp_path: Path) -> None:
    result = run(tmp_path, image("+I", 1, 4), image("+I", 2, 0), image("+I", 3, None))
    assert result.error is None
    assert rows(result) == [["+I", 1, 25], ["+I", 3, None]]
    (letter,) = letters(tmp_path)
    assert letter["table"] == "shop.orders"
    assert letter["key"] == {"id": 2}
    (rejected,) = letter["rejected"]
    assert (rejected["column"], rejected["type"], rejected["expression"]) == ("share", "INT", "100 / n AS share")
    assert "zero" in rejected["reason"].lower()
    assert letter["row"] == {"id": 2, "n": 0}
    assert [file.parent.name for file in tmp_path.rglob("*.jsonl")] == ["shop.orders"]


def test_an_update_to_a_failing_row_takes_the_old_one_out_of_the_sink_and_one_from_it_brings_it_back(
    tmp_path: Path,
) -> None:
    broken = (image("-U", 1, 4), image("+U", 1, 0))
    mended = (image("-U", 1, 0), image("+U", 1, 5))
    result = run(tmp_path, image("+I", 1, 4), *broken, *mended, image("-D", 1, 5))
    assert rows(result) == [["+I", 1, 25], ["-D", 1, 25], ["+I", 1, 20], ["-D", 1, 20]]
    assert [letter["row"]["n"] for letter in letters(tmp_path)] == [0]


def test_a_failing_row_that_goes_leaves_nothing_to_be_done(tmp_path: Path) -> None:
    assert rows(run(tmp_path, image("+I", 1, 0), image("-D", 1, 0), image("+I", 2, 1))) == [["+I", 2, 100]]
    assert len(letters(tmp_path)) == 1


def test_a_filter_that_fails_names_itself(tmp_path: Path) -> None:
    rule = {"projection": "id", "filter": "100 / n > 1"}
    result = run(tmp_path, image("+I", 1, 0), image("+I", 2, 1), image("+I", 3, 100), rule=rule)
    assert rows(result) == [["+I", 2]]
    (letter,) = letters(tmp_path)
    assert letter["rejected"][0]["column"] == "(filter)"
    assert letter["rejected"][0]["expression"] == "100 / n > 1"


@pytest.mark.parametrize(
    ("rule", "secret"),
    [
        ({"projection": "id, 100 / n AS share, email", "mask": {"email": "REDACT"}}, "ada@example.org"),
        ({"projection": "id, 100 / n AS share, MASK(email) AS email"}, "ada@example.org"),
        ({"projection": "id, CAST(MASK(email, 4) AS INT) + n AS share"}, "ada@example.org"),
        ({"projection": "id, 100 / n AS share"}, "left out of the projection"),
        ({"projection": "id, 100 / n AS share, email", "filter": "CAST(email AS INT) > 0", "mask": {"email": "REDACT"}},
         "ada@example.org"),
    ],
)  # fmt: skip
def test_what_the_rule_hides_is_in_no_file(tmp_path: Path, rule: dict[str, Any], secret: str) -> None:
    row = image("+I", 1, 0, email="ada@example.org", note="left out of the projection")
    result = run(tmp_path, row, rule=rule)
    assert (result.error, rows(result)) == (None, [])
    assert len(letters(tmp_path)) == 1
    assert secret not in next(tmp_path.rglob("*.jsonl")).read_text(encoding="utf-8")


def test_a_masked_key_is_not_in_the_clear(tmp_path: Path) -> None:
    rule = {"projection": "id, 100 / n AS share", "mask": {"id": "HASH"}}
    pipeline = {
        "transform": [{**RULE, **rule}],
        "pipeline": {"dead-letter.path": str(tmp_path), "hash-key": "0123456789abcdef"},
    }
    (result,) = run_cases([{"name": "one", "pipeline": json.dumps(pipeline), "input": [CREATE, image("+I", 4711, 0)]}])
    assert result.error is None
    assert [letter["key"] for letter in letters(tmp_path)] == [{"id": "(masked)"}]


def test_without_a_place_the_file_is_refused() -> None:
    pipeline = {"transform": [RULE]}
    (result,) = run_cases([{"name": "one", "pipeline": json.dumps(pipeline), "input": [CREATE]}])
    assert result.error is not None
    assert "dead-letter.path" in result.error["message"]


def test_null_without_quotes_is_the_word(tmp_path: Path) -> None:
    result = run(tmp_path, image("+I", 2, 0), rule={"on-error": None})
    assert rows(result) == [["+I", 2, None]]
    assert letters(tmp_path) == []
