"""Payloads of handles: beside the decision in every store, whole or an error, gone with the decision."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from cdc.errors import StateError
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.sink import Prepared
from cdc.state.decisions import CommitLog, Decision
from cdc.state.remote.run import hold_working_copy
from cdc.state.remote.store import store_at

ORDERS = TableId("shop", "orders")
BYTES = bytes(range(256)) * 40
OpenState = Callable[[Path], AbstractContextManager[None]]


def decision(batch: int, *payloads: bytes, generation: int = 0) -> Decision:
    handles = [Prepared(ORDERS, part, {"n": part}, payload=each) for part, each in enumerate(payloads)]
    return Decision(batch, {"item": batch}, {"item": batch + 1}, tuple(handles), generation=generation)


@pytest.fixture(params=["folder", "object store"])
def opened(request: pytest.FixtureRequest) -> OpenState:
    """A state in a folder of a machine, which stays there; or in an object store, found again by another machine."""
    if request.param == "folder":
        return lambda folder: nullcontext()
    url = f"memory:///{secrets.token_hex(8)}"
    return lambda folder: hold_working_copy(url, folder, RetryPolicy(timeout_s=0.0))


def log_in(folder: Path) -> CommitLog:
    return CommitLog(store_at(folder).within("commits"))


def places(opened: OpenState, tmp_path: Path) -> list[Path]:
    """The folders of two runs: on one machine, or on two."""
    return [tmp_path, tmp_path] if isinstance(opened(tmp_path), nullcontext) else [tmp_path / "a", tmp_path / "b"]


def test_the_next_run_commits_the_very_bytes(opened: OpenState, tmp_path: Path) -> None:
    first, second = places(opened, tmp_path)
    with opened(first):
        log_in(first).decide(decision(7, BYTES, b"", BYTES + b"x", BYTES))
    with opened(second):
        assert log_in(second).uncommitted() == [decision(7, BYTES, b"", BYTES + b"x", BYTES)]
        looked_at = log_in(second).get(7)
        assert looked_at is not None
        assert [handle.payload for handle in looked_at.prepared] == [b""] * 4


def test_a_recreated_decision_has_its_own_payloads(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.decide(decision(7, b"first"))
    log.decide(decision(7, b"second", generation=1))
    assert log.uncommitted() == [decision(7, b"second", generation=1)]


def test_payloads_go_with_their_decision(opened: OpenState, tmp_path: Path) -> None:
    first, second = places(opened, tmp_path)
    with opened(first):
        log = log_in(first)
        for batch in range(CommitLog.KEEP + 3):
            log.decide(decision(batch, b"%d" % batch))
            log.note_committed(batch)
            log.prune(batch)
        log.decide(decision(CommitLog.KEEP + 3, b"last"))
    with opened(second):
        folder = store_at(second).within("commits").bulk("payloads")
        assert sorted(int(each.name) for each in folder.iterdir()) == list(range(2, CommitLog.KEEP + 4))
        assert log_in(second).uncommitted() == [decision(CommitLog.KEEP + 3, b"last")]


@pytest.mark.parametrize("harm", ["shorter", "other", "gone"])
def test_damaged_bytes_are_never_committed(tmp_path: Path, harm: str) -> None:
    log_in(tmp_path).decide(decision(7, BYTES))
    (file,) = (tmp_path / "commits" / "payloads" / "7").iterdir()
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(BYTES[:-1] if harm == "shorter" else BYTES[:-1] + b"?")
    with pytest.raises(StateError, match=r"payload of shop\.orders in batch 7") as caught:
        log_in(tmp_path).uncommitted()
    assert caught.value.where == str(file)
