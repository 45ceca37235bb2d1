"""Crashes at steps of the protocol, at every point where a server of the load sinks can fail; random runs of both.

After each case the tables equal the source, no load is open, and just the labels that were decided are in the tables.
Every fault is met at a third of the steps, every step with a third of the faults.

`CDC_FAULT_RUNS=1000` does more random runs of each sink, `CDC_FAULT_SEED=7` begins with that seed; a failing run prints
its own. `CDC_FAULT_MATRIX=all` takes every fault and table by itself at every step, and kills the server there, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from load_changes import Changes
from load_engine import IN_A_WORKER, LoadEngine
from load_places import FAULTS, KILLS, PLACES, WHILE_FINISHED, WHILE_PREPARED, Fault, Place
from tiers import EXHAUSTIVE
from trials import trials

from cdc.process.faults import POINTS

_RUNS = int(os.environ.get("CDC_FAULT_RUNS", trials(7)))
_SEED = int(os.environ.get("CDC_FAULT_SEED", "1"))
_ALL = os.environ.get("CDC_FAULT_MATRIX") == "all"
_KINDS = [("keyed",), ("keyless",)] if _ALL else [("keyed", "keyless")]
_RUNS_IN_A_TEST = 10
_WORKER = "worker"
"""A ninth step: only a Python worker dies, in a task."""
STEPS = (*POINTS, _WORKER)
_TURNS = 1 if _ALL else 3
_LATE = ("mid-commit", "after-commit")
"""Steps of the commit, which goes on while the next batch is prepared."""
_SELDOM = frozenset({
    "fe.txn.rollback", "fe.txn.rollback.done", "be.txn.rollback", "be.txn.rollback.done", "fe.state",
})  # fmt: skip
"""Points that a run without this fault does not come by at every crash."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=sorted(PLACES))
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.param]() as made:
        yield made


def _of_each_sink(name: str, of_kind: Callable[[str], Sequence[object]], every: int = 1) -> pytest.MarkDecorator:
    """All cases of each sink; one in `every` is not for the exhaustive tier alone."""
    cases = [
        pytest.param(
            kind, one, id=f"{kind}-{'+'.join(map(str, one)) if isinstance(one, tuple) else one}",
            marks=EXHAUSTIVE if number % every else (),
        )
        for kind in sorted(PLACES)
        for number, one in enumerate(of_kind(kind))
    ]  # fmt: skip
    return pytest.mark.parametrize(("place", name), cases, indirect=["place"], scope="module")


def _faults(kind: str) -> list[tuple[Fault, ...]]:
    """Two that are met in different phases in one case, or each in a case of its own."""
    if _ALL:
        return [(fault,) for fault in FAULTS[kind]]
    return list(zip(WHILE_PREPARED[kind], WHILE_FINISHED[kind], strict=True))


def _engine(place: Place, name: str, folder: Path, seed: int) -> LoadEngine:
    return LoadEngine(folder / name, place.sink(name), place.come_back, Random(seed))


def _crash_at(engine: LoadEngine, step: str, batch: int) -> None:
    worker = step == _WORKER
    engine.crashes.arm(IN_A_WORKER if worker else step, batch, worker=worker)


def _round(place: Place, engine: LoadEngine, changes: Changes, step: str, faults: Sequence[Fault]) -> None:
    """One batch, after a commit's step another one, with a crash and faults."""
    batch = engine.add(changes.every_table_changes())
    if step in _LATE:
        engine.add(changes.rows(2))
    _crash_at(engine, step, batch)
    for fault in faults:
        place.arm(fault)
    engine.catch_up()
    assert engine.crashes.happened, f"the process never came to {step}"
    engine.crashes.happened.clear()


@_of_each_sink("faults", _faults)
@pytest.mark.parametrize("kinds", _KINDS, ids="-".join)
def test_a_crash_at_every_step_with_a_fault(
    place: Place, faults: tuple[Fault, ...], kinds: tuple[str, ...], tmp_path: Path
) -> None:
    """One pipeline goes through steps, and meets the faults in each."""
    with place.case() as name:
        engine, changes = _engine(place, name, tmp_path, 1), Changes(Random(1), name, kinds)
        engine.add(changes.created())
        engine.catch_up()
        before = {fault.point: place.met(fault.point) for fault in faults}
        for step in STEPS[_faults(place.kind).index(faults) % _TURNS :: _TURNS]:
            _round(place, engine, changes, step, faults)
            place.check_loads(name, engine)
        place.check(name, engine, changes.tables)
        for point, met in before.items():
            assert place.met(point) > met or point in _SELDOM, f"the fault at {point} was never met"


@_of_each_sink("point", KILLS.__getitem__, every=3)
def test_a_crash_and_a_server_that_is_killed(place: Place, point: str, tmp_path: Path) -> None:
    """SIGKILL of the server at each point; the steps take turns."""
    turn = 2 * KILLS[place.kind].index(point)
    steps = STEPS if _ALL else (STEPS[turn % len(STEPS)],)
    with place.case() as name:
        engine, changes = _engine(place, name, tmp_path, 2), Changes(Random(2), name)
        engine.add(changes.created())
        engine.catch_up()
        for step in steps:
            _round(place, engine, changes, step, [Fault(point, "kill")])
            place.check(name, engine, changes.tables)


@pytest.mark.parametrize("first", range(_SEED, _SEED + _RUNS, _RUNS_IN_A_TEST))
def test_random_faults(place: Place, first: int, tmp_path: Path) -> None:
    """Random changes of two tables, several batches and parts, crashes and faults wherever they come."""
    for seed in range(first, min(first + _RUNS_IN_A_TEST, _SEED + _RUNS)):
        print(f"seed {seed}")
        _random_run(place, tmp_path, seed)


def _random_run(place: Place, folder: Path, seed: int) -> None:
    rng = Random(seed)
    with place.case() as name:
        engine, changes = _engine(place, name, folder, seed), Changes(rng, name)
        engine.parallelism = rng.randint(1, 3)
        engine.add(changes.created())
        for _ in range(rng.randint(1, 2)):
            batch = engine.add(changes.batch(schema_changes=rng.choice([0, 1, 1, 2, 3])))
            for _ in range(rng.randint(0, 1)):
                engine.add(changes.batch(schema_changes=rng.choice([0, 0, 0, 1])))
            step, passes = rng.choice(STEPS), rng.randint(1, 2)
            _crash_at(engine, step, batch)
            engine.crashes.passes = passes
            armed = _random_faults(place, rng)
            print(f"  batch {batch}: {step} ({passes}), {', '.join(map(str, armed))}")
            engine.catch_up()
            place.standin.revive()
        place.check(name, engine, changes.tables)


def _random_faults(place: Place, rng: Random) -> list[Fault]:
    faults = [rng.choice(FAULTS[place.kind]) for _ in range(rng.randint(0, 2))]
    if rng.random() < 0.05:
        faults.append(Fault(rng.choice(KILLS[place.kind]), "kill"))
    for fault in faults:
        place.arm(fault)
    return faults
