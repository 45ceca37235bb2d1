"""Commands about a pipeline whose state is in an object store: beside a run on this machine, and without one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from together import together

import cdc
from cdc.errors import NotNow, StateError
from cdc.job.lock import RunLock
from cdc.job.run_status import check_local, last_run
from cdc.job.savepoint import begin_from, create_savepoint
from cdc.job.state_location import (
    alone,
    changing,
    lease_s,
    parse_location,
    reading,
    state_location,
    state_root,
    working_copy,
)
from cdc.retry import RetryPolicy
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.state.remote.bucket import Bucket
from cdc.state.remote.run import STATUS
from cdc.status.file import write_status
from cdc.status.model import StatusDocument
from cdc.status.recording import first_status

if TYPE_CHECKING:
    from s3_server import S3Server

FILE = "source:\n  type: values\n  rows: []\nsink:\n  type: duckdb\n  path: shop.duckdb\npipeline:\n  name: shop\n"
ONCE = RetryPolicy(timeout_s=0.0)


@pytest.fixture
def url(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CDC_STATE_CACHE", str(tmp_path / "cache"))
    return f"{s3.new_bucket()}/cdc/shop"


@pytest.fixture
def spec(tmp_path: Path) -> PipelineSpec:
    return cdc.load(tmp_path / "shop.yaml", text=FILE).spec


@contextmanager
def running(url: str, spec: PipelineSpec) -> Iterator[StateDir]:
    """A run of this machine, whose process is this one."""
    with alone(state_location(url, spec)) as state:
        state.open(name="shop", source="values")
        if state.initial_offset() is None:
            state.store_initial_offset({"batch": 0})
        yield state


def committed(state: StateDir, batch: int) -> None:
    log = CommitLog(state.commits)
    log.decide(Decision(batch, {"batch": batch}, {"batch": batch + 1}, (), ()))
    log.note_committed(batch)


def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From now on this is another machine."""
    monkeypatch.setenv("CDC_STATE_CACHE", str(tmp_path / "other"))


def status(state: StateDir) -> StatusDocument:
    return first_status(
        state.root, "shop-1", name="shop", source="values", sink="duckdb", file="", behavior="", bounded=False
    )


def test_what_changes_nothing_sees_the_state_with_and_without_a_run(url: str, spec: PipelineSpec) -> None:
    with running(url, spec) as state:
        committed(state, 0)
        with reading(url, spec) as beside:
            committed(state, 1)
            assert CommitLog(beside.commits).committed() == 1
    with reading(url, spec) as now:
        assert CommitLog(now.commits).committed() == 1
        assert now.root != state.root
    assert Bucket(url, ONCE).get("lock") is not None


def test_a_request_reaches_a_run_of_this_machine_and_the_next_run(
    url: str, spec: PipelineSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(url, spec) as state:
        with changing(url, spec) as beside:
            beside.store.within("requests").write("1.json", b"{}")
        with changing(state.root, spec) as beside:
            beside.store.within("requests").write("2.json", b"{}")
        assert state.store.within("requests").names() == ["1.json", "2.json"]
    with changing(state_root(url, spec), spec) as alone_now:
        alone_now.store.within("requests").write("3.json", b"{}")
    elsewhere(monkeypatch, tmp_path)
    with running(url, spec) as state:
        assert state.store.within("requests").names() == ["1.json", "2.json", "3.json"]


def test_nothing_is_left_in_a_working_copy_that_is_being_made(url: str, spec: PipelineSpec) -> None:
    with running(url, spec):
        pass
    lock = RunLock(parse_location(url).root)
    lock.acquire()
    try:
        (parse_location(url).root / "pipeline.json").write_bytes(b"{}")
        with reading(url, spec) as state:
            assert state.pipeline(source="values") is not None
        with pytest.raises(NotNow, match=r"a run starts or ends.*try again"), changing(url, spec):
            pytest.fail("it wrote")
    finally:
        lock.release()


@pytest.mark.slow
def test_a_request_beside_a_run_of_another_machine_is_refused(
    url: str, spec: PipelineSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_STATE_LEASE_S", "6")
    with running(url, spec):
        elsewhere(monkeypatch, tmp_path)
        with pytest.raises(StateError, match=rf"process {os.getpid()} is using this state"), changing(url, spec):
            pytest.fail("it wrote")
        with pytest.raises(NotNow, match=rf"process {os.getpid()} holds its state.*ask on that machine"):
            check_local("shop", url)
    with pytest.raises(NotNow, match="does not run"):
        check_local("shop", url)


def test_the_status_of_a_run_is_seen_from_everywhere(
    url: str, spec: PipelineSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert last_run(url) is None
    with running(url, spec) as state:
        write_status(state.root, status(state))
        found = last_run(url)
        assert found is not None
        assert found.alive
        check_local("shop", url)
        check_local("shop", state.root)
    elsewhere(monkeypatch, tmp_path)
    found = last_run(url)
    assert found is not None
    assert found.status.name == "shop"
    assert Bucket(url, ONCE).get(STATUS) is not None


def test_a_savepoint_is_kept_beside_the_file_and_put_into_another_place(
    url: str, spec: PipelineSpec, tmp_path: Path
) -> None:
    with pytest.raises(NotNow, match="has not run yet"):
        create_savepoint(spec, state_root(url, spec))
    with running(url, spec) as state:
        committed(state, 0)
        state.store.within("source").write("history", b"kept")
        with pytest.raises(StateError, match="another run is using this state"):
            create_savepoint(spec, state.root)
    made = create_savepoint(spec, state_root(url, spec))
    assert made.parent == tmp_path / ".cdc" / "savepoints"
    other = f"{url}-again"
    assert "after batch 0" in begin_from(spec, made, state_root(other, spec))
    with running(other, spec) as again:
        assert again.store.within("source").read("history") == b"kept"
        assert CommitLog(again.commits).committed() == 0
    with pytest.raises(StateError, match="there is a state already"):
        begin_from(spec, made, state_root(other, spec))
    begin_from(spec, made, tmp_path / "folder")
    assert CommitLog(StateDir(tmp_path / "folder").commits).committed() == 0


def test_a_folder_with_a_state_of_its_own_becomes_no_working_copy(url: str, spec: PipelineSpec, tmp_path: Path) -> None:
    own = StateDir(tmp_path / "own")
    own.open(name="shop", source="values")
    with pytest.raises(StateError, match="has a state of its own, which is not moved"):
        working_copy(own.root, url)
    assert own.store.read("pipeline.json") is not None
    folder = working_copy(tmp_path / "served", url)
    with running(str(folder), spec) as state:
        assert state.store.where() == url
    with pytest.raises(StateError, match=f"is for the state in {url}"):
        working_copy(folder, f"{url}-other")


def test_the_folder_is_free_after_a_command_that_failed(url: str, spec: PipelineSpec) -> None:
    with pytest.raises(ZeroDivisionError), running(url, spec):
        raise ZeroDivisionError
    lock = RunLock(parse_location(url).root)
    lock.acquire()
    lock.release()
    with running(url, spec):
        pass


@together("text", ["soon", "0", "1e9", "nan"])
def test_a_lease_has_a_length(text: str) -> None:
    assert lease_s({}) == 15.0
    assert lease_s({"CDC_STATE_LEASE_S": "30"}) == 30.0
    with pytest.raises(StateError, match=r"CDC_STATE_LEASE_S: is .*not the duration of a lease"):
        lease_s({"CDC_STATE_LEASE_S": text})
