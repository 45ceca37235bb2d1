"""Tables that are created side by side."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cdc.errors import ChangeRefused
from cdc.schema import CreateTable, DropTable, SchemaChange, TableId
from cdc.testing.sink_conformance import KEYED
from connectors.streamload.schema_changes import creations, side_by_side


class Sessions:
    """Hands out sessions, and knows how many are open."""

    def __init__(self) -> None:
        self.opened = self.closed = 0

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        self.opened += 1
        try:
            yield object()
        finally:
            self.closed += 1


def table(name: str) -> TableId:
    return TableId("shop", name)


def test_creations_go_up_to_the_next_other_change() -> None:
    changes: list[SchemaChange] = [
        CreateTable(table("a"), KEYED), CreateTable(table("b"), KEYED), DropTable(table("a")),
        CreateTable(table("a"), KEYED),
    ]  # fmt: skip
    assert [change.table.table for change in creations(changes, 0)] == ["a", "b"]
    assert creations(changes, 2) == []
    assert [change.table.table for change in creations(changes, 3)] == ["a"]


def test_the_same_table_is_not_created_twice_at_once() -> None:
    twice = [CreateTable(table("a"), KEYED), CreateTable(table("a"), KEYED)]
    assert len(creations(twice, 0)) == 1


def test_pieces_run_at_the_same_time_each_once() -> None:
    sessions, met, done = Sessions(), threading.Barrier(4, timeout=30), list[int]()

    def piece(number: int) -> Any:
        def run(session: Any) -> None:
            met.wait()  # nobody gets through alone
            done.append(number)

        return run

    side_by_side(sessions, [piece(number) for number in range(8)])
    assert sorted(done) == list(range(8))
    assert sessions.opened == sessions.closed <= 8


def test_after_an_error_what_has_not_begun_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.streamload.schema_changes._SESSIONS", 1)
    sessions, done = Sessions(), list[int]()

    def fail(_: Any) -> None:
        raise ChangeRefused("no", where="shop.orders")

    with pytest.raises(ChangeRefused, match="no"):
        side_by_side(sessions, [lambda _: done.append(1), fail, lambda _: done.append(2)])
    assert done == [1]
    assert sessions.opened == sessions.closed == 1


def test_nothing_to_do_needs_no_session() -> None:
    sessions = Sessions()
    side_by_side(sessions, [])
    assert sessions.opened == 0
