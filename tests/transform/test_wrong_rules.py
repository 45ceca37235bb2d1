"""Every wrong rule in tests/golden/transform and exactly what is said about it, with its place in the YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.errors import SpecError
from cdc.transform.compiled import compile_rule
from cdc.transform.engine import Engine
from cdc.transform.rule import parse_rule
from cdc.transform.texts import RuleTexts
from tests.transform_rules import SCHEMA, ZONE, texts_in

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "transform"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(zone=ZONE)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
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
