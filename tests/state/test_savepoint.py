"""Savepoints: whole copies of a state directory, and state directories made from them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

import cdc
from cdc.errors import NotNow, StateError
from cdc.job.lock import RunLock
from cdc.job.savepoint import begin_from, create_savepoint
from cdc.state import savepoint
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.state.savepoint import read_savepoint

FILE = "source:\n  type: values\n  rows: []\nsink:\n  type: {sink}\n{more}pipeline:\n  name: shop\n"
DUCKDB = FILE.format(sink="duckdb", more="  path: shop.duckdb\n")
VALUES = FILE.format(sink="values", more="  path: out.jsonl\n")


def spec(folder: Path, text: str = DUCKDB) -> cdc.spec.model.PipelineSpec:
    return cdc.load(folder / "shop.yaml", text=text).spec


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    """That of a pipeline that has committed batch 0."""
    state = StateDir(tmp_path / "shop")
    state.open(name="shop", source="values")
    state.store_initial_offset({"batch": 0})
    decide(state, 0)
    CommitLog(state.commits).note_committed(0)
    return state


def decide(state: StateDir, batch: int) -> None:
    CommitLog(state.commits).decide(Decision(batch, {"batch": batch}, {"batch": batch + 1}, (), ()))


def test_a_savepoint_becomes_a_state_directory_without_what_belongs_to_a_run(state: StateDir, tmp_path: Path) -> None:
    state.request_stop()
    (state.root / "run.log").write_text("{}\n")
    (state.root / "source" / "history").write_text("kept")
    made = create_savepoint(spec(tmp_path), state.root)
    assert made.parent == tmp_path / "savepoints"
    assert (read_savepoint(made).name, read_savepoint(made).batch, read_savepoint(made).sink) == ("shop", 0, "duckdb")
    again = StateDir(tmp_path / "again")
    begin_from(spec(tmp_path), made, again.root)
    assert (again.root / "source" / "history").read_text() == "kept"
    assert not (again.root / "run.log").exists()
    assert again.open(name="shop", source="values") == state.open(name="shop", source="values")
    assert CommitLog(again.commits).committed() == 0
    assert not again.stop_requested()


def test_what_an_interrupted_savepoint_has_left_is_removed_by_the_next(
    state: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(savepoint.os, "rename", Mock(side_effect=KeyboardInterrupt))
        killed.setattr(savepoint.shutil, "rmtree", Mock())
        with pytest.raises(KeyboardInterrupt):
            create_savepoint(spec(tmp_path), state.root)
    assert [path.suffix for path in (tmp_path / "savepoints").iterdir()] == [".tmp"]
    made = create_savepoint(spec(tmp_path), state.root)
    assert list((tmp_path / "savepoints").iterdir()) == [made]


def test_what_a_killed_start_has_left_is_removed_by_the_next_and_a_start_underway_is_not(
    state: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, folder = create_savepoint(spec(tmp_path), state.root), tmp_path / "new"
    for pid in (1 << 30, os.getppid()):
        with monkeypatch.context() as killed:
            killed.setattr(savepoint.os, "rename", Mock(side_effect=KeyboardInterrupt))
            killed.setattr(savepoint.os, "getpid", lambda pid=pid: pid)
            killed.setattr(savepoint.shutil, "rmtree", Mock())
            with pytest.raises(KeyboardInterrupt):
                begin_from(spec(tmp_path), made, folder / "shop")
    assert len(list(folder.iterdir())) == 2
    begin_from(spec(tmp_path), made, folder / "shop")
    assert {path.name for path in folder.iterdir()} == {"shop", f".shop.{os.getppid()}.tmp"}


def test_where_the_sink_cannot_tell_what_it_has_the_pipeline_gets_a_new_id(state: StateDir, tmp_path: Path) -> None:
    made = create_savepoint(spec(tmp_path, VALUES), state.root)
    again = StateDir(tmp_path / "again")
    assert "tables without a key get those rows twice" in begin_from(spec(tmp_path, VALUES), made, again.root)
    before, now = (each.open(name="shop", source="values") for each in (state, again))
    assert before != now
    assert now.startswith("shop-")


def test_a_state_directory_that_is_there_is_not_replaced(state: StateDir, tmp_path: Path) -> None:
    made = create_savepoint(spec(tmp_path), state.root)
    with pytest.raises(StateError, match="there is a state directory already"):
        begin_from(spec(tmp_path), made, state.root)
    with pytest.raises(StateError, match="is not a savepoint"):
        begin_from(spec(tmp_path), tmp_path, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_savepoint_of_a_newer_version_is_refused(state: StateDir, tmp_path: Path) -> None:
    made = create_savepoint(spec(tmp_path), state.root)
    fields = json.loads((made / "savepoint.json").read_text())
    (made / "savepoint.json").write_text(json.dumps({**fields, "format": 99}))
    with pytest.raises(StateError, match="has format 99"):
        read_savepoint(made)


def test_none_is_made_while_it_runs_or_in_the_middle_of_something(state: StateDir, tmp_path: Path) -> None:
    lock = RunLock(state.root)
    lock.acquire()
    with pytest.raises(StateError, match=r"another run is using .*stop it \(cdc stop FILE\)"):
        create_savepoint(spec(tmp_path), state.root)
    lock.release()
    state.store.write_json("snapshot.json", {"tables": {"a.b": {"state": "copying"}, "a.c": {"state": "done"}}})
    with pytest.raises(NotNow, match=r"tables are being snapshotted: a\.b"):
        create_savepoint(spec(tmp_path), state.root)
    decide(state, 1)
    with pytest.raises(NotNow, match="a batch is decided and not committed yet"):
        create_savepoint(spec(tmp_path), state.root)
    with pytest.raises(NotNow, match="has not run yet"):
        create_savepoint(spec(tmp_path), tmp_path / "none")
    assert not (tmp_path / "savepoints").exists()


def test_savepoints_of_a_sink_are_not_among_the_states_of_sinks(tmp_path: Path) -> None:
    """A folder there would be one more sink to `cdc status DIR`."""
    text = "source: {type: values, rows: []}\nsink:\n- {name: lake, type: values, path: a}\npipeline: {name: shop}\n"
    state = StateDir(tmp_path / ".cdc" / "shop" / "sinks" / "lake")
    state.open(name="shop/lake", source="values")
    state.store_initial_offset({"batch": 0})
    decide(state, 0)
    CommitLog(state.commits).note_committed(0)
    made = create_savepoint(spec(tmp_path, text), state.root)
    assert made.parent == tmp_path / ".cdc" / "savepoints"
    assert made.name.startswith("shop-lake-")
    assert read_savepoint(made).name == "shop/lake"
    assert [path.name for path in state.root.parent.iterdir()] == ["lake"]
