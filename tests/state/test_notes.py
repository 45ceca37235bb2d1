"""Names that tasks note: those that no decision covers are handed to an abort, no other is."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.retry import RetryPolicy
from cdc.state.directory import StateDir
from cdc.state.notes import Notes
from cdc.state.remote.run import hold_working_copy
from cdc.state.remote.store import store_at
from cdc.state.served.server import StateServer
from cdc.state.served.store import ServedStore
from cdc.state.store import LocalStore, Store


@pytest.fixture(params=["folder", "object store", "another machine"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Where a task may note: on the driver's machine, there with the state elsewhere, and on another machine."""
    if request.param == "folder":
        yield LocalStore(tmp_path)
    elif request.param == "object store":
        with hold_working_copy(f"memory:///{secrets.token_hex(8)}", tmp_path, RetryPolicy(timeout_s=0.0)):
            yield store_at(tmp_path)
    else:
        state = StateDir(tmp_path)
        state.open(name="p", source="list")
        server = StateServer(state, "127.0.0.1", "127.0.0.1")
        yield ServedStore(server.start())
        server.close()


def noted(notes: Notes, batch: int, *values: str, partition: int = 0, attempt: int = 0) -> str:
    noting = notes.of_attempt(batch, partition, 0, attempt)
    for value in values:
        noting(value)
    return noting.name


def test_an_abort_finds_what_was_noted_for_the_batch_and_later_ones(store: Store) -> None:
    notes = Notes(store.within("notes"))
    noted(notes, 9, "a", "b")
    noted(notes, 10, "c")
    noted(notes, 8, "decided, not committed")
    found = Notes(store.within("notes")).undecided(9, committed=7)
    assert found.values == ("a", "b", "c")
    notes.forget(found.names)
    assert notes.undecided(9, committed=7).values == ()
    assert notes.undecided(8, committed=7).values == ("decided, not committed",)


def test_what_was_decided_is_never_handed_to_an_abort(store: Store) -> None:
    notes = Notes(store.within("notes"))
    name = noted(notes, 3, "a", "b", attempt=2)
    noted(notes, 3, "b", "left", attempt=1)  # an attempt that lost: it had one name of the one that won
    notes.forget_decided(3, [name])
    notes.forget_decided(3, [name])
    assert notes.undecided(4, committed=2).values == ()
    assert notes.undecided(4, committed=3).values == ("left",)


def test_many_notes_keep_their_order_and_go_together(store: Store) -> None:
    notes = Notes(store.within("notes"))
    values = [f"{number}" for number in range(150)]
    name = noted(notes, 3, *values)
    assert notes.undecided(3, committed=2).values == tuple(values)
    assert len(store.within("notes").names()) == 3
    notes.forget_decided(3, [name])
    assert store.within("notes").names() == []


def test_an_attempt_that_notes_nothing_leaves_nothing(store: Store) -> None:
    notes = Notes(store.within("notes"))
    assert noted(notes, 1) == ""
    notes.forget_decided(1, [])
    assert store.within("notes").names() == []
