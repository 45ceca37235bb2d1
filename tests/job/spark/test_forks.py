"""Spark's Python processes as forks, with a listening socket or pipes in Spark's place."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cdc_process import wait_for

from cdc.job.spark.fork_server import DAEMON, READER, _listen
from cdc.job.spark.forks import Forks


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    forks = Forks(tmp_path_factory.mktemp("forks"))
    forks.begin()
    forks.start()
    yield forks
    forks.stop()
    assert not forks.alive()


def spark() -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(60)
    return listening


def started(forks: Forks, listening: socket.socket, err: int | None = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """What Spark does to start a reader."""
    port = str(listening.getsockname()[1])
    env = {**os.environ, "PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": "secret"}
    return subprocess.Popen([str(forks.launcher), "-m", READER], env=env, stdout=subprocess.DEVNULL, stderr=err)


def connected(listening: socket.socket) -> tuple[socket.socket, int]:
    """The reader's connection and its process."""
    connection, _ = listening.accept()
    connection.settimeout(60)
    (length,) = struct.unpack("!i", connection.recv(4))
    assert connection.recv(length) == b"secret"
    connection.sendall(struct.pack("!i", 2) + b"ok")
    (pid,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
    return connection, pid


def server_of(forks: Forks) -> int:
    assert forks._process is not None
    return forks._process.pid


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_launcher_is_the_interpreter_for_everything_else(forks: Forks) -> None:
    done = subprocess.run([str(forks.launcher), "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"


def test_signals_of_a_terminal_do_not_reach_the_server(forks: Forks) -> None:
    assert os.getpgid(server_of(forks)) != os.getpgid(0)


def test_a_reader_is_a_fork_of_the_server_and_ends_when_spark_closes_its_connection(forks: Forks) -> None:
    with spark() as listening:
        launcher = started(forks, listening)
        connection, pid = connected(listening)
        assert launcher.wait(300) == 0
        assert parent_of(pid) == server_of(forks)
        assert READER.encode() in Path(f"/proc/{pid}/cmdline").read_bytes(), "lists of processes show what it is"
        assert there(pid)
        connection.close()
        wait_for("the end of the reader", lambda: not there(pid))
    assert forks.alive()


@pytest.mark.parametrize("ended_by", ["Spark", "a signal to the launcher"])
def test_a_daemon_is_a_fork_of_the_server_and_its_launcher_stands_for_it(forks: Forks, ended_by: str) -> None:
    launcher = subprocess.Popen(
        [str(forks.launcher), "-m", DAEMON, "pyspark.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "secret"},
    )  # fmt: skip
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    port = int.from_bytes(launcher.stdout.read(4), "big")
    (daemon,) = [pid for pid in children_of(server_of(forks)) if DAEMON in command_of(pid)]
    assert command_of(daemon).split("\0")[-2:] == [DAEMON, "pyspark.worker"]
    with socket.create_connection(("127.0.0.1", port)) as worker:
        worker.sendall(struct.pack("!i", 6) + b"secret")
        (pid,) = struct.unpack("!i", worker.recv(4, socket.MSG_WAITALL))
        assert worker.recv(6, socket.MSG_WAITALL) == struct.pack("!i", 2) + b"ok", "it takes signals from here on"
        assert children_of(daemon) == [pid]
        assert launcher.poll() is None
        if ended_by != "Spark":
            launcher.terminate()
            launcher.wait(300)
        launcher.stdin.close()  # as Java does for a process that has ended
        wait_for("the end of the daemon", lambda: not there(daemon))
        assert worker.recv(1) == b"", "its workers end with it"
    assert launcher.wait(300) is not None
    launcher.stdout.close()
    assert forks.alive()


def test_a_reader_that_spark_does_not_wait_for_any_more_says_nothing(forks: Forks) -> None:
    with spark() as listening:
        asked = started(forks, listening, subprocess.PIPE)
        listening.accept()[0].close()
        assert asked.communicate(timeout=60)[1] == b"", "the run says why its query has ended"


def test_what_cannot_be_loaded_is_told_and_harms_nobody(forks: Forks) -> None:
    assert forks.load(partial(int, "x")).startswith("ValueError: invalid literal")
    assert forks.load(int) == ""


def test_readers_are_forked_while_a_busy_server_has_a_load_tried_that_takes_long(forks: Forks, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    what = partial(Path.read_bytes, tmp_path / "go")  # in the fork, then in the server
    told = list[str]()
    loading = threading.Thread(target=lambda: told.append(forks.load(what, busy=True)))
    loading.start()
    with (tmp_path / "go").open("wb"):  # opens once the fork reads
        (tmp_path / "go").unlink()
        (tmp_path / "go").touch()  # the server finds what it has to wait for no more
        with spark() as listening:
            launcher = started(forks, listening)
            connection, _ = connected(listening)
            assert launcher.wait(300) == 0
            connection.close()
        assert loading.is_alive()
    loading.join(60)
    assert told == [""]
    assert forks.load(partial(int, "x"), busy=True).startswith("ValueError: invalid literal")


@pytest.mark.slow
def test_without_the_server_a_reader_starts_by_itself_and_says_so(tmp_path: Path) -> None:
    forks = Forks(tmp_path)
    forks.begin()
    forks.start()
    forks.stop()
    with spark() as listening, (tmp_path / "err").open("w") as err:
        process = started(forks, listening, err.fileno())
        connection, pid = connected(listening)
        assert pid == process.pid
        connection.close()
        process.wait(300)
    assert "the fork server does not answer" in (tmp_path / "err").read_text()


@pytest.mark.slow
def test_a_place_for_temporary_files_that_is_gone_is_named(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening,
        pytest.raises(SystemExit, match="gone/forks: cannot make a socket: No such file or directory"),
    ):
        _listen(listening, str(tmp_path / "gone" / "forks"))


def test_a_long_path_for_temporary_files_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 12) / ("longer-" * 12)
    folder.mkdir(parents=True)
    forks = Forks(folder)
    forks.begin()
    forks.start()
    try:
        assert forks.load(int) == ""
        with spark() as listening:
            launcher = started(forks, listening)
            connection, pid = connected(listening)
            assert (launcher.wait(300), pid == launcher.pid) == (0, False)
            connection.close()
    finally:
        forks.stop()


def test_a_file_of_the_current_folder_replaces_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "enum.py").write_text("raise RuntimeError\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    forks = Forks(tmp_path)
    forks.begin()
    try:
        forks.start()
    finally:
        forks.stop()
