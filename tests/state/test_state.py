"""The state directory: atomic files, whose it is, the decisions, and what is said when something is wrong with it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from together import together

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.sink import Prepared
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.state.durable import write_file
from cdc.state.store import LocalStore
from cdc.tables.requests import Mailbox, RequestKind

ORDERS = TableId("shop", "orders.2024")


def decision(batch: int) -> Decision:
    handles = (
        Prepared(ORDERS, 0, {"file": "a.arrow", "rows": [1, 2]}, inserts=3, updates=1, deletes=2),
        Prepared(TableId("", "topic"), 1, "label-1"),
        Prepared(ORDERS, 1, None),
    )
    return Decision(
        batch, {"file": "binlog.000001", "position": 4, "gtids": None}, {"position": 99}, handles, ({"chunk": 1},)
    )


def opened(folder: Path) -> StateDir:
    state = StateDir(folder)
    state.open(name="Shop orders", source="mysql")
    return state


def temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_file(path, b"old")
    with path.open() as reader:
        write_file(path, b"new content")
        assert reader.read() == "old"  # whoever has it open keeps reading the old one
    assert path.read_text() == "new content"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_a_start_leaves_what_another_thread_is_writing(tmp_path: Path) -> None:
    """`cdc serve` writes a pipeline's history while its run starts."""
    being_written, left = temporary(tmp_path / "runs.json"), tmp_path / ".runs.json.0-1.tmp"
    for path in (being_written, left):
        path.touch()
    opened(tmp_path)
    assert (being_written.exists(), left.exists()) == (True, False)


def test_a_record_is_on_disk_with_its_name_before_anybody_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to copy, the rows that are let go for it, a decision: nothing else knows of them after a crash."""
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def synced(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        done.append("folder" if path.is_dir() else "file")
        sync(handle)

    def renamed(old: Path, new: Path) -> None:
        done.append("name")
        rename(old, new)

    store = LocalStore(tmp_path)
    log = CommitLog(store.within("commits"))
    records: tuple[Callable[[], object], ...] = (
        lambda: Mailbox(store).add(ORDERS, RequestKind.SNAPSHOT), lambda: log.decide(decision(0)),
    )  # fmt: skip
    for record in records:
        record()  # folders are made
        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", renamed)
        record()
        monkeypatch.undo()
        assert done[-1] == "folder"
        assert done.index("file") < done.index("name") < len(done) - 1
        done.clear()


def test_a_full_disk_leaves_the_old_content_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_file(path, b"old")
    temporary(path).symlink_to("/dev/full")
    with pytest.raises(StateError, match=r"x\.json: cannot write the state: No space left on device \(.*lost\)"):
        write_file(path, b"new")
    assert path.read_text() == "old"
    assert not temporary(path).is_symlink()


def test_a_folder_in_the_way_is_a_state_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(StateError, match="cannot write the state"):
        opened(tmp_path / "state")


def test_the_pipeline_keeps_its_id(tmp_path: Path) -> None:
    first = StateDir(tmp_path).open(name="Shop: orders & more!", source="mysql")
    assert first.startswith("shop-orders-more-")
    assert StateDir(tmp_path).open(name="renamed", source="mysql") == first
    assert StateDir(tmp_path / "other").open(name="Shop: orders & more!", source="mysql") != first
    assert StateDir(tmp_path / "none").open(name="???", source="mysql").startswith("pipeline-")


def test_another_source_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    with pytest.raises(StateError, match="belongs to a pipeline that reads mysql, this one reads values"):
        StateDir(tmp_path).open(name="p", source="values")


@together("content", ["", '{"format": 1', "[]", "{}", '"x"', "\x00"])
def test_a_torn_file_is_named(tmp_path: Path, content: str) -> None:
    opened(tmp_path)
    (tmp_path / "pipeline.json").write_text(content)
    with pytest.raises(StateError, match=r"pipeline\.json: cannot be read: .*restore the state"):
        opened(tmp_path)
    if content != "{}":
        (tmp_path / "initial_offset.json").write_text(content)
        with pytest.raises(StateError, match=r"initial_offset\.json: cannot be read"):
            StateDir(tmp_path).initial_offset()
    (tmp_path / "commits" / "3.json").write_text(content)
    with pytest.raises(StateError, match=r"3\.json: cannot be read"):
        CommitLog(LocalStore(tmp_path / "commits")).get(3)


def test_a_pipeline_that_has_run_gets_no_other_id(tmp_path: Path) -> None:
    """What sinks have of it is found by its id."""
    opened(tmp_path).store_initial_offset({"item": 0})
    (tmp_path / "pipeline.json").unlink()
    with pytest.raises(StateError, match=r"pipeline\.json: is missing, while the pipeline has run"):
        opened(tmp_path)


def test_a_note_of_the_last_commit_without_its_batch_is_named(tmp_path: Path) -> None:
    (tmp_path / "committed").write_text('{"bytch": 3}')
    with pytest.raises(StateError, match="committed: cannot be read"):
        CommitLog(LocalStore(tmp_path)).committed()


def test_what_a_crash_left_half_written_is_not_seen(tmp_path: Path) -> None:
    state = opened(tmp_path)
    temporary(tmp_path / "initial_offset.json").write_text('{"positi')
    temporary(tmp_path / "commits" / "7.json").write_text('{"batch"')
    assert state.initial_offset() is None
    log = CommitLog(LocalStore(tmp_path / "commits"))
    assert log.get(7) is None
    log.decide(decision(7))
    log.prune(1000)
    assert log.get(7) is None


def test_the_first_offset_stays(tmp_path: Path) -> None:
    state = opened(tmp_path)
    assert state.initial_offset() is None
    state.store_initial_offset({"file": "binlog.000001", "gtids": None, "position": 2**53 + 1})
    assert opened(tmp_path).initial_offset() == {"file": "binlog.000001", "gtids": None, "position": 2**53 + 1}


def test_a_decision_is_read_as_it_was_written(tmp_path: Path) -> None:
    opened(tmp_path)
    CommitLog(LocalStore(tmp_path / "commits")).decide(decision(12))
    assert CommitLog(LocalStore(tmp_path / "commits")).get(12) == decision(12)
    assert CommitLog(LocalStore(tmp_path / "commits")).get(13) is None
    assert Decision.from_json(json.loads(json.dumps(decision(1).to_json()))) == decision(1)


def test_old_decisions_go_and_recent_ones_stay(tmp_path: Path) -> None:
    opened(tmp_path)
    log = CommitLog(LocalStore(tmp_path / "commits"))
    for batch in range(30):
        log.decide(decision(batch))
    (tmp_path / "commits" / "notes.txt").write_text("kept")
    log.prune(29)
    kept = sorted(int(path.stem) for path in (tmp_path / "commits").glob("*.json"))
    assert kept == list(range(29 - CommitLog.KEEP, 30))
    assert (tmp_path / "commits" / "notes.txt").exists()


def test_stop_requests_are_forgotten_at_the_next_start(tmp_path: Path) -> None:
    state = opened(tmp_path)
    assert not state.stop_requested()
    assert not state.stop_confirmed()
    state.request_stop()
    StateDir(tmp_path).confirm_stop()
    assert state.stop_requested()
    assert state.stop_confirmed()
    state.clear_control()
    assert not state.stop_requested()
    assert not state.stop_confirmed()
    state.clear_control()


def test_a_request_that_cannot_be_written_is_a_state_error(tmp_path: Path) -> None:
    state = opened(tmp_path)
    (tmp_path / "control").rmdir()
    with pytest.raises(StateError, match=r"control/stop: cannot write the state"):
        state.request_stop()
