"""One run at a time for a state directory, and none while the Java process of the one before is alive."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from together import together

from cdc.errors import StateError
from cdc.job.lock import RunLock
from cdc.process.pids import start_time


def never(seconds: float) -> None:
    raise AssertionError("there is nothing to wait for")


def acquired_and_released(lock: RunLock) -> None:
    lock.acquire()
    lock.release()


def left(folder: Path, **holder: object) -> None:
    (folder / "lock").write_text(json.dumps(holder))


@pytest.fixture
def stranger() -> subprocess.Popen[bytes]:
    """A process that lives until it is killed, in Java's place."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()  # type: ignore[union-attr]


def test_a_second_run_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    first = RunLock(tmp_path, sleep=never)
    first.acquire()
    with pytest.raises(StateError, match=rf"another run is using this state directory \(process {os.getpid()}\)"):
        RunLock(tmp_path, sleep=never).acquire()
    first.release()
    second = RunLock(tmp_path, sleep=never)
    second.acquire()
    second.release()
    second.release()


def test_a_run_begins_while_somebody_looks_whether_there_is_one(tmp_path: Path) -> None:
    left(tmp_path)
    with open(tmp_path / "lock") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        acquired_and_released(RunLock(tmp_path, sleep=lambda seconds: fcntl.flock(looking, fcntl.LOCK_UN)))
        fcntl.flock(looking, fcntl.LOCK_SH)
        with pytest.raises(StateError, match="another run is using this state directory"):
            RunLock(tmp_path, sleep=lambda seconds: None).acquire()


def test_another_process_is_refused_too(tmp_path: Path) -> None:
    first = RunLock(tmp_path)
    first.acquire()
    program = f"from pathlib import Path; from cdc.job.lock import RunLock; RunLock(Path({str(tmp_path)!r})).acquire()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"process {os.getpid()}" in done.stderr
    first.release()
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_java_process_is_on_record_while_it_runs(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    lock.acquire()
    lock.name_java(os.getpid())
    assert json.loads((tmp_path / "lock").read_text()) == {
        "driver": os.getpid(), "driver_started": start_time(os.getpid()),
        "java": os.getpid(), "java_started": start_time(os.getpid()),
    }  # fmt: skip
    lock.release()
    assert json.loads((tmp_path / "lock").read_text()) == {}


def test_a_killed_run_whose_java_is_gone_is_followed_at_once(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    since = start_time(process.pid)
    process.wait()
    left(tmp_path, driver=1, java=process.pid, java_started=since)
    acquired_and_released(RunLock(tmp_path, sleep=never))


def test_a_pid_that_was_given_to_another_process_is_not_java(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    left(tmp_path, driver=1, java=stranger.pid, java_started="12345")
    acquired_and_released(RunLock(tmp_path, sleep=never))


def test_it_waits_until_java_is_gone(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    left(tmp_path, driver=1, java=stranger.pid, java_started=start_time(stranger.pid))
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            stranger.kill()
            stranger.wait()

    acquired_and_released(RunLock(tmp_path, sleep=sleep))
    assert len(waits) == 3


def test_a_java_process_that_stays_is_named(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    left(tmp_path, driver=1, java=stranger.pid, java_started=start_time(stranger.pid))
    waits: list[float] = []
    with pytest.raises(StateError, match=rf"Java process {stranger.pid} .* is still alive .*kill -9 {stranger.pid}"):
        RunLock(tmp_path, wait_s=1.0, sleep=waits.append).acquire()
    assert sum(waits) == pytest.approx(1.0, abs=0.11)
    stranger.kill()
    stranger.wait()
    acquired_and_released(RunLock(tmp_path, sleep=never))  # the refused run does not hold it


def test_a_copy_of_an_active_run_s_directory_is_refused(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    """The error told to kill the Java process of the other run, which was in order."""
    left(tmp_path, driver=stranger.pid, driver_started=start_time(stranger.pid), java=1, java_started=start_time(1))
    with pytest.raises(StateError, match=rf"is a copy of the state directory .* \(process {stranger.pid}\)"):
        RunLock(tmp_path, sleep=never).acquire()
    left(tmp_path, driver=stranger.pid, driver_started="12345")
    acquired_and_released(RunLock(tmp_path, sleep=never))


@together("content", ["", "{", "[]", '{"java": "x"}', "\x00"])
def test_a_damaged_lock_file_is_no_obstacle(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    acquired_and_released(RunLock(tmp_path, sleep=never))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's place for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_temporary_files_go_with_the_run(tmp_path: Path, temporary: Path) -> None:
    lock = RunLock(tmp_path, sleep=never)
    lock.acquire()
    scratch = lock.create_scratch_folder()
    assert scratch.parent == temporary
    assert scratch.stat().st_mode & 0o077 == 0
    (scratch / "blockmgr").mkdir()
    lock.release()
    assert not list(temporary.iterdir())


def test_temporary_files_of_a_killed_run_go_with_the_next(tmp_path: Path, temporary: Path) -> None:
    program = (
        "import os, tempfile; from pathlib import Path; from cdc.job.lock import RunLock; "
        f"tempfile.tempdir = {str(temporary)!r}; lock = RunLock(Path({str(tmp_path)!r})); lock.acquire(); "
        "(lock.create_scratch_folder() / 'spark').mkdir(); lock.name_java(os.getpid()); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    assert [folder.name for folder in temporary.glob("*/*")] == ["spark"]
    acquired_and_released(RunLock(tmp_path, sleep=never))
    assert not list(temporary.iterdir())


def test_nothing_but_such_a_folder_is_removed(tmp_path: Path, temporary: Path) -> None:
    mine = temporary / "mine"
    mine.mkdir()
    link = temporary / "cdc-scratch-link"
    link.symlink_to(mine)
    not_to_be_looked_at = temporary / ("cdc-scratch-" + "x" * 300)
    for folder in (mine, link, "", not_to_be_looked_at):
        left(tmp_path, driver=1, scratch=str(folder))
        acquired_and_released(RunLock(tmp_path, sleep=never))
        assert mine.is_dir()


def test_no_place_for_temporary_files(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = RunLock(tmp_path, sleep=never)
    lock.acquire()
    temporary.rmdir()
    with pytest.raises(StateError, match=r"cannot make a temporary folder: No such file or directory .*TMPDIR"):
        lock.create_scratch_folder()
    temporary.mkdir()
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(StateError, match=r"cdc-scratch.*No space left .*TMPDIR"):
        lock.create_scratch_folder()
    lock.release()
    assert not list(temporary.iterdir())
