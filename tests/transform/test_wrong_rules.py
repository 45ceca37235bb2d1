"""Every wrong rule in tests/golden/transform and exactly what is said about it, with its place in the YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
from together import together
from transform_rules import ROW, SCHEMA, ZONE, applied, compiled, texts_in

from cdc.errors import SpecError
from cdc.transform.compiler import compile_rule
from cdc.transform.engine import Engine
from cdc.transform.rule import parse_rule
from cdc.transform.texts import RuleTexts

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "transform"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(zone=ZONE)


@together("file", FILES)
def test_a_wrong_rule_is_refused_with_these_words(file: Path, engine: Engine, update_golden: bool) -> None:
    said = ""
    for number, keys in enumerate(texts_in(file.read_text(encoding="utf-8"), file.name)):
        with pytest.raises(SpecError) as caught:
            compile_rule(parse_rule(f"transform[{number}]", RuleTexts(**keys), keyed=False), SCHEMA, engine)
        said += f"{caught.value}\n"
    expected = file.with_suffix(".txt")
    if update_golden:
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")


def test_there_are_wrong_rules_and_no_orphans() -> None:
    assert len(FILES) >= 8
    assert {file.stem for file in FOLDER.glob("*.txt")} == {file.stem for file in FILES}


@together(
    "wrong, hint, followed",
    [
        ("REGEXP(s, 'a')", "write REGEXP_LIKE(text, pattern)", "REGEXP_LIKE(s, 'a')"),
        ("RLIKE(s, 'a')", "write REGEXP_LIKE(text, pattern)", "REGEXP_LIKE(s, 'a')"),
        ("s REGEXP 'a'", "write REGEXP_LIKE(text, pattern)", "REGEXP_LIKE(s, 'a')"),
        ("s RLIKE 'a'", "write REGEXP_LIKE(text, pattern)", "REGEXP_LIKE(s, 'a')"),
        ("s ILIKE 'a'", "write LOWER(text) LIKE LOWER(pattern)", "LOWER(s) LIKE LOWER('a')"),
        ("ISNULL(s)", "write value IS NULL", "s IS NULL"),
        ("NVL(s, 'a') = 'b'", "write COALESCE(value, other)", "COALESCE(s, 'a') = 'b'"),
        ("JSON_EXTRACT(j, '$.k') = 'v'", "write JSON_VALUE(json, path)", "JSON_VALUE(j, '$.k') = 'v'"),
    ],
)
def test_what_a_hint_says_to_write_can_be_written(wrong: str, hint: str, followed: str) -> None:
    with pytest.raises(SpecError) as refused:
        compiled(projection="id", filter=wrong)
    assert hint in str(refused.value)
    assert "docs/functions.md" not in str(refused.value)
    applied(compiled(projection="id", filter=followed), [("+I", ROW)])
