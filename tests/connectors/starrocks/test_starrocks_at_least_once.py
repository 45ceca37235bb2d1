"""`sink.delivery-guarantee: at-least-once`: files wait in the state directory, the driver loads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from starrocks_harness import Harness

from cdc.errors import CommitFailed, SinkError
from cdc.testing.delivery_conformance import LOG, ORDERS, by_id, keyed, keyless, prepare, row

pytestmark = pytest.mark.slow  # a stand-in at work

GUARANTEE = {"sink.delivery-guarantee": "at-least-once"}


def files(harness: Harness) -> list[Path]:
    return [path for path in (harness.state / "loads").rglob("*") if path.is_file()]


def test_nothing_is_in_starrocks_before_the_commit(harness: Harness) -> None:
    sink = harness.sink(**GUARANTEE)
    prepared = prepare(sink, 0, [keyed("+I", row(1, "a")), keyless("+I", row(9))], create=True)
    assert harness.states() == []
    assert len(files(harness)) == 2
    sink.commit(0, prepared)
    sink.commit(0, prepared)
    assert (harness.rows(ORDERS), harness.rows(LOG)) == ([row(1, "a")], [row(9)])
    assert files(harness) == []


def test_the_later_part_wins_and_abort_leaves_nothing(harness: Harness) -> None:
    sink = harness.sink(**GUARANTEE)
    parts = [
        *prepare(sink, 0, [keyed("+I", row(1, "a"))], create=True),
        *prepare(sink, 0, [keyed("-U", row(1, "a"), "+U", row(1, "b"))], partition=1),
    ]
    sink.commit(0, parts)
    prepare(sink, 1, [keyed("+I", row(2, "lost"))])
    sink.abort(1)
    assert files(harness) == []
    assert by_id(harness.rows(ORDERS)) == [row(1, "b")]


@pytest.mark.parametrize("point", ["fe.load", "be.load", "be.load.body", "be.load.done"])
def test_a_lost_answer_loads_once(harness: Harness, point: str) -> None:
    sink = harness.sink(**GUARANTEE)
    prepared = prepare(sink, 0, [keyless("+I", row(9))], create=True)
    standin = harness.server.standin
    assert standin is not None
    standin.fault(point)
    try:
        sink.commit(0, prepared)
    except CommitFailed:
        sink.commit(0, prepared)
    assert harness.rows(LOG) == [row(9)]


def test_a_batch_that_was_prepared_in_the_other_mode_is_committed(harness: Harness) -> None:
    for batch, (first, second) in enumerate(((GUARANTEE, {}), ({}, GUARANTEE))):
        harness.server.query("DROP DATABASE IF EXISTS shop FORCE")
        prepared = prepare(harness.sink(**first), batch, [keyed("+I", row(1))], create=True)
        harness.sink(**second).commit(batch, prepared)
        assert harness.rows(ORDERS) == [row(1)]


def test_a_file_that_is_gone_is_an_error(harness: Harness) -> None:
    sink = harness.sink(**GUARANTEE)
    prepared = prepare(sink, 0, [keyed("+I", row(1))], create=True)
    for path in files(harness):
        path.unlink()
    with pytest.raises(SinkError, match="cannot be read"):
        sink.commit(0, prepared)
