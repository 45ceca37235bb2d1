"""Rows that differ are looked at again: source and sink change between two looks, as a running pipeline's do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdc.retry import RetryPolicy
from cdc.verify.compare import BITS, Buckets, Compared, Comparison, differing
from cdc.verify.hashing import RowHasher, open_engine
from cdc.verify.recheck import Log
from cdc.verify.report import DifferenceKind
from cdc.verify.table_verifier import kinds, shown_rows

Row = tuple[Any, ...]
_SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.string())])


class Moments:
    """One side, which has other rows at each look; the last ones for good."""

    def __init__(self, *moments: Sequence[Row]) -> None:
        self._moments = list(moments)

    def __call__(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        rows = self._moments[0] if len(self._moments) == 1 else self._moments.pop(0)
        for row in rows:
            yield pa.RecordBatch.from_arrays(
                [pa.array([row[0]], pa.int64()), pa.array([row[1]], pa.string())], schema=_SCHEMA
            )


def compared(
    source: Moments, sink: Moments, *, key: tuple[str, ...] = ("id",), committed: bool = True, quiet: bool = True
) -> Compared:
    log = Log(dict, lambda mark: committed, lambda start, end: quiet)
    retry = RetryPolicy(10.0, sleep=lambda seconds: None)
    with open_engine() as engine:
        return Comparison(source, sink, ("id", "a"), key, True, log, retry, engine)(5)


A, B, CHANGED = [(1, "x"), (2, "y")], [(2, "y"), (1, "x")], [(1, "x"), (2, "z")]


def test_equal_rows_in_any_order_are_equal_after_one_look() -> None:
    assert compared(Moments(A), Moments(B)) == Compared(2, 2)


def test_a_row_that_the_pipeline_brings_meanwhile_is_no_difference() -> None:
    found = compared(Moments(CHANGED), Moments(A, A, CHANGED)).verdicts
    assert found is not None
    assert not found.different.any()
    assert not found.open.any()


def test_a_row_that_differs_while_the_log_is_quiet_differs() -> None:
    found = compared(Moments(CHANGED), Moments(A)).verdicts
    assert found is not None
    assert kinds(found, keyed=True) == {DifferenceKind.MISSING: 0, DifferenceKind.EXTRA: 0, DifferenceKind.OTHER: 1}
    (row,) = shown_rows(found, ("id", "a"), ("id",), (), most=5, values=True)
    assert (row.key, row.columns) == ({"id": "2"}, {"a": ("z", "y")})


def test_a_row_that_changes_and_changes_back_needs_three_rounds_to_differ() -> None:
    back = Moments(A, A, *([A] * 6))
    late = Moments(CHANGED, CHANGED, CHANGED, CHANGED, A)
    found = compared(back, late, quiet=False).verdicts
    assert found is not None
    assert not found.different.any(), "the sink got there in the third round"
    found = compared(Moments(A), Moments(CHANGED), quiet=False).verdicts
    assert found is not None
    assert found.different.tolist() == [True]


def test_a_row_that_is_written_to_all_the_time_stays_open() -> None:
    source = Moments(*([(1, str(number))] for number in range(1000)))
    clock = iter(range(1000))
    log = Log(dict, lambda mark: True, lambda start, end: False)
    retry = RetryPolicy(5.0, clock=lambda: float(next(clock)), sleep=lambda seconds: None)
    with open_engine() as engine:
        sink = Moments([(1, "old")])
        found = Comparison(source, sink, ("id", "a"), ("id",), True, log, retry, engine)(5).verdicts
    assert found is not None
    assert (found.open.tolist(), found.different.tolist(), found.waited) == ([True], [False], False)


def test_nothing_differs_before_the_pipeline_has_come_as_far_as_the_source_was_read() -> None:
    found = compared(Moments(CHANGED), Moments(A), committed=False).verdicts
    assert found is not None
    assert (found.open.tolist(), found.different.tolist(), found.waited) == ([True], [False], True)


def test_a_row_is_not_both_different_and_open_when_the_pipeline_stops_committing() -> None:
    source, committed = Moments(*([(1, "x"), (2, str(look))] for look in range(9))), iter([True, False])
    log = Log(dict, lambda mark: next(committed), lambda start, end: True)
    retry = RetryPolicy(10.0, sleep=lambda seconds: None)
    with open_engine() as engine:
        sink = Moments([(1, "z"), (2, "old")])
        found = Comparison(source, sink, ("id", "a"), ("id",), True, log, retry, engine)(5).verdicts
    assert found is not None
    assert (sorted((found.different + 2 * found.open).tolist()), found.waited) == ([1, 2], True)


def test_rows_without_a_key_count_as_often_as_they_are_there() -> None:
    found = compared(Moments([(1, "x"), (1, "x"), (3, "q")]), Moments([(1, "x"), (4, None)]), key=()).verdicts
    assert found is not None
    assert kinds(found, keyed=False) == {DifferenceKind.MISSING: 2, DifferenceKind.EXTRA: 1, DifferenceKind.OTHER: 0}


@pytest.mark.slow
def test_more_differing_rows_than_are_held_are_told_as_at_least_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc.verify.compare.MOST_ROWS", 10)
    found = compared(Moments([(number, "x") for number in range(100)]), Moments([]))
    assert (found.source_rows, found.sink_rows, found.all) == (100, 0, False)
    assert found.verdicts is not None
    assert 1 <= found.verdicts.different.sum() <= 11


def test_exchanged_values_and_null_are_told_apart() -> None:
    sides = []
    with open_engine() as engine:
        hasher = RowHasher(engine, ("id", "a"), ("id",))
        for rows in ([(1, "x"), (2, "y")], [(1, "y"), (2, "x")], [(1, "x"), (2, None)], [(1, "x"), (2, "")]):
            side = Buckets()
            for batch in Moments(rows)(None):
                side.add(*hasher(batch))
            sides.append(side)
    for number, one in enumerate(sides):
        for other in sides[number + 1 :]:
            assert differing(one, other, 100)[0].any()
        chosen, complete = differing(one, one, 100)
        assert (chosen.any(), complete, len(chosen)) == (np.False_, True, 1 << BITS)
