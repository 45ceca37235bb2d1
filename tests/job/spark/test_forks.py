"""Stream readers as forks, with a listening socket in Spark's place."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cdc_process import wait_for

from cdc.job.spark.forks import Forks

READER = "pyspark.sql.streaming.python_streaming_source_runner"


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    forks = Forks(tmp_path_factory.mktemp("forks"))
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
    assert forks._process is not None
    assert os.getpgid(forks._process.pid) != os.getpgid(0)


def test_a_reader_is_a_fork_of_the_server_and_ends_when_spark_closes_its_connection(forks: Forks) -> None:
    with spark() as listening:
        launcher = started(forks, listening)
        connection, pid = connected(listening)
        assert launcher.wait(300) == 0
        assert b"cdc.job.spark.fork_server" in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert there(pid)
        connection.close()
        wait_for("the end of the reader", lambda: not there(pid))
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
def test_a_long_path_for_temporary_files_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("long-" * 12) / ("longer-" * 12)
    folder.mkdir(parents=True)
    forks = Forks(folder)
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
