"""Loads that were decided, and given up by the server before they were committed: each row is in the tables once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from load_changes import Changes
from load_engine import LoadEngine
from load_places import PLACES, Place

from cdc.state.decisions import CommitLog

_EXPIRED_S = {"doris": 3_700.0, "starrocks": 90_000.0}
"""Longer than the server keeps a prepared load, shorter than it remembers the label of one that is committed."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=sorted(PLACES))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.param]() as made:
        yield made


def once(action: Callable[[], None]) -> Callable[[], None]:
    """Does it the first time, then nothing."""
    left = [action]
    return lambda: left.pop()() if left else None


def lose(place: Place, folder: Path, name: str, crash: str, then: Callable[[LoadEngine], None]) -> None:
    """A batch of two tables in several parts is decided, the process dies, and the server gives up what is prepared."""
    engine, changes = (
        LoadEngine(folder / name, place.sink(name), place.come_back, Random(1), 3),
        Changes(Random(1), name),
    )
    engine.add(changes.created())
    engine.catch_up()
    batch = engine.add(changes.rows(6))
    engine.crashes.arm(crash, batch)

    def between() -> None:
        place.standin.advance(_EXPIRED_S[place.kind])
        then(engine)

    engine.between = once(between)
    engine.catch_up()
    assert engine.crashes.happened[0] == f"{crash}:{batch}"
    decision = CommitLog(engine.state.commits).get(batch)
    assert decision is not None
    assert decision.generation == 1
    engine.add(changes.rows(2))
    engine.catch_up()
    place.check(name, engine, changes.tables)


def nothing(engine: LoadEngine) -> None:
    """All goes well from there."""


@pytest.mark.parametrize("crash", ["after-decide", "mid-commit"])
def test_loads_that_expired_before_their_commit_are_read_again(place: Place, crash: str, tmp_path: Path) -> None:
    """With mid-commit a part of them is committed, and stays as it is."""
    with place.case() as name:
        lose(place, tmp_path, name, crash, nothing)


@pytest.mark.parametrize(
    ("step", "passes"),
    [("in-prepare", 1), ("in-prepare", 2), ("mid-commit", 1), ("mid-commit", 2), ("after-commit", 1)],
)
def test_a_crash_while_lost_loads_are_read_again(place: Place, step: str, passes: int, tmp_path: Path) -> None:
    """Before the new decision the loads are read once more, after it they are committed."""

    def crash(engine: LoadEngine) -> None:
        engine.crashes.arm(step, 1, passes=passes)

    with place.case() as name:
        lose(place, tmp_path, name, "after-decide", crash)
