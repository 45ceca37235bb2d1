"""Every wrong pipeline file in tests/golden/spec and exactly what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from together import together

from cdc.errors import SpecError
from cdc.spec.check import check

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "spec"
FILES = sorted(FOLDER.glob("*.yaml"))
SECRET = "s3cr3t(*pass"


@together("file", FILES)
def test_a_wrong_file_is_refused_with_these_words(
    file: Path, update_golden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(SpecError) as caught:
        check(file.name, file.read_bytes(), env={"MYSQL_PASSWORD": SECRET})
    said = f"{caught.value}\n"
    assert SECRET not in said
    assert SECRET not in repr(caught.value)
    expected = file.with_suffix(".txt")
    if update_golden:
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")


def test_there_are_many_wrong_files_and_no_orphans() -> None:
    assert len(FILES) >= 40
    assert {file.stem for file in FOLDER.glob("*.txt")} == {file.stem for file in FILES}


def test_five_mistakes_are_all_reported_in_file_order() -> None:
    file = FOLDER / "five_mistakes.yaml"
    with pytest.raises(SpecError) as caught:
        check(str(file), file.read_bytes(), env={"MYSQL_PASSWORD": SECRET})
    places = [(problem.line, problem.column) for problem in caught.value.problems]
    assert len(places) == 5
    assert places == sorted(places)
