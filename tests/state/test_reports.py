"""What a source told an attempt whose rows a sink has committed, kept for its repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.errors import StateError
from cdc.state.reports import Reports
from cdc.state.store import LocalStore


@pytest.fixture
def reports(tmp_path: Path) -> Reports:
    return Reports(LocalStore(tmp_path))


def test_what_was_kept_counts_and_not_what_a_repeat_was_told(reports: Reports) -> None:
    said: list[dict[str, Any]] = []
    first = reports.of_attempt(3, 1, said)
    said.append({"chunk": 1})
    kept = first.save()
    repeat = reports.of_attempt(3, 1, [{"chunk": 2}])
    repeat.restore(kept)
    assert (first.reports, repeat.reports) == ([{"chunk": 1}], [{"chunk": 1}])


def test_nothing_is_written_where_nothing_was_told(reports: Reports) -> None:
    assert reports.of_attempt(0, 0, []).save() == ""
    assert list(reports.store.names()) == []
    repeat = reports.of_attempt(0, 0, [{"chunk": 2}])
    repeat.restore("")
    assert repeat.reports == []


def test_attempts_that_overlap_keep_apart(reports: Reports) -> None:
    kept = [reports.of_attempt(0, 0, [{"chunk": number}]).save() for number in range(2)]
    for number, id_ in enumerate(kept):
        repeat = reports.of_attempt(0, 0, [])
        repeat.restore(id_)
        assert repeat.reports == [{"chunk": number}]


def test_a_repeat_whose_earlier_rows_stay_has_wider_reports(reports: Reports) -> None:
    def widened(told: Any) -> Any:
        return [{"chunk": report["chunk"] - 1} for report in told]

    hidden, seen = (reports.of_attempt(0, 0, [{"chunk": 5}], widened) for _ in range(2))
    seen.note_visible()
    assert (hidden.valid, seen.valid) == ([{"chunk": 5}], [{"chunk": 4}])
    later = reports.of_attempt(0, 0, [{"chunk": 9}], widened)
    later.note_visible()
    later.restore(seen.save())
    assert later.valid == [{"chunk": 4}], "they are wider already"


def test_a_decision_takes_those_of_its_batch_and_of_earlier_ones(reports: Reports) -> None:
    for batch in range(4):
        reports.of_attempt(batch, 0, [{"chunk": batch}]).save()
    reports.forget_decided(1, [])
    assert len(list(reports.store.names())) == 4, "a batch without reports has kept none"
    reports.forget_decided(2, [{"chunk": 2}])
    assert [name.partition("-")[0] for name in reports.store.names()] == ["3"]


def test_reports_that_are_gone_stop_the_run(reports: Reports) -> None:
    kept = reports.of_attempt(5, 0, [{"chunk": 1}]).save()
    reports.forget_decided(5, [{"chunk": 1}])
    with pytest.raises(StateError, match="is lost") as caught:
        reports.of_attempt(5, 0, []).restore(kept)
    assert f"5-0-{kept}.json" in str(caught.value)
