"""Commits of a batch: every table is tried, and what is lost is named by table."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.errors import CommitFailed, LoadsLost, SinkError, from_json
from cdc.schema import TableId
from cdc.sink import Prepared
from connectors.shared.streamload.commits import LoadLost, commit_all

A, B, C = (TableId("shop", name) for name in "abc")


def run(
    fates: dict[tuple[TableId, int], SinkError], tables: dict[TableId, int], *, upserts: bool = True
) -> list[tuple[TableId, int]]:
    """Commit `tables[table]` loads of each table, a partition each; what was committed, in order within a table."""
    done: list[tuple[TableId, int]] = []

    def commit(table: TableId, handle: Any) -> None:
        if (table, handle["number"]) in fates:
            raise fates[table, handle["number"]]
        done.append((table, handle["number"]))

    prepared = [
        Prepared(table, number, {"number": number, "upserts": upserts})
        for table, loads in tables.items()
        for number in reversed(range(loads))
    ]
    try:
        commit_all(commit, 0, prepared, 4)
    finally:
        run.done = sorted(done, key=str)  # type: ignore[attr-defined]
    return done


def lost(*, forgotten: bool = False) -> LoadLost:
    return LoadLost("gone", where="shop.x", forgotten=forgotten)


def test_loads_of_a_table_are_committed_in_log_order() -> None:
    assert run({}, {A: 4}) == [(A, number) for number in range(4)]


def test_after_a_lost_load_the_later_ones_of_its_table_wait_for_it() -> None:
    with pytest.raises(LoadsLost) as caught:
        run({(A, 1): lost(), (C, 0): lost()}, {A: 3, B: 2, C: 1})
    assert run.done == [(A, 0), (B, 0), (B, 1)]  # type: ignore[attr-defined]
    assert (caught.value.tables, caught.value.uncertain) == ({"shop.a": 1, "shop.c": 0}, ())
    assert "shop.a, shop.c" in caught.value.message


def test_rows_that_may_be_there_are_never_sure_to_be_loaded_once_in_a_table_without_a_key() -> None:
    with pytest.raises(LoadsLost) as caught:
        run({(A, 0): lost(forgotten=True), (B, 0): lost()}, {A: 1, B: 1}, upserts=False)
    assert (caught.value.tables, caught.value.uncertain) == ({"shop.b": 0}, ("shop.a",))


def test_what_may_still_be_committed_is_tried_before_anything_is_lost() -> None:
    with pytest.raises(CommitFailed):
        run({(A, 0): lost(), (B, 0): CommitFailed("busy")}, {A: 1, B: 1})


def test_the_tables_cross_processes() -> None:
    error = LoadsLost("gone", where="w", hint="h", tables={"shop.a": 2}, uncertain=["shop.b"])
    again = from_json(error.to_json())
    assert isinstance(again, LoadsLost)
    assert (str(again), again.tables, again.uncertain) == (str(error), {"shop.a": 2}, ("shop.b",))
