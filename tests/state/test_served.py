"""The state as an executor has it, which sees nothing of the driver's disk: it asks, and hands over staged rows."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from cdc.errors import StateError, StateUnavailable
from cdc.retry import RetryPolicy
from cdc.state.directory import StateDir
from cdc.state.remote.bucket import Bucket
from cdc.state.remote.run import hold_working_copy
from cdc.state.served.server import StateServer
from cdc.state.served.store import ServedStop, ServedStore, _connection_to
from cdc.state.served.wire import StateEndpoint, begin, client_context
from cdc.state.store import LocalStore

LOCAL = "127.0.0.1"


@pytest.fixture(autouse=True)
def executor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its staged files are in a folder of the test."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "executor"))


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    made = StateDir(tmp_path / "state")
    made.open(name="p", source="list")
    return made


@pytest.fixture
def server(state: StateDir) -> Iterator[StateServer]:
    server = StateServer(state, LOCAL, LOCAL)
    server.start()
    yield server
    server.close()


@pytest.fixture
def endpoint(server: StateServer) -> StateEndpoint:
    """Where nobody is waited for."""
    return replace(server.endpoint, timeout_s=0.0)


def test_documents_are_those_of_the_driver(state: StateDir, endpoint: StateEndpoint) -> None:
    there = pickle.loads(pickle.dumps(ServedStore(endpoint))).within("source")
    assert there.read("a.json") is None
    state.source.write("a.json", b"1")
    assert there.read("a.json") == b"1"
    there.write("b.json", b"2")
    there.write_later("c.json", b"3")
    there.remove("a.json")
    assert state.source.names() == there.names() == ["b.json", "c.json"]
    assert state.source.read("b.json") == b"2"
    assert there.where("b.json") == state.source.where("b.json")


def test_a_log_is_read_on_and_read_again_when_it_was_cut(state: StateDir, endpoint: StateEndpoint) -> None:
    written = state.source.log("chunks", "plan")
    there = ServedStore(endpoint, "source").log("chunks", "plan")
    assert list(there.items()) == []
    written.append({"a": 1}, {"a": 2})
    assert list(there.items(1)) == [{"a": 2}]
    before = there.generation
    written.append({"a": 3})
    assert list(there.items(0, 3)) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert there.generation == before
    written.truncate(1)
    written.append({"a": 4})
    assert list(there.items()) == [{"a": 1}, {"a": 4}]
    assert there.generation != before
    with pytest.raises(StateError, match="holds 2 entries, 9 are needed"):
        there.items(0, 9)
    with pytest.raises(StateError, match="by the driver alone"):
        there.append({"a": 5})


def test_a_staged_file_moves_to_the_driver(state: StateDir, endpoint: StateEndpoint) -> None:
    there = ServedStore(endpoint, "sink")
    rows = secrets.token_bytes(3_000_001)
    for batch in (1, 2):
        path = there.bulk("staging") / str(batch) / "0-7.arrows"
        path.parent.mkdir(parents=True)
        path.write_bytes(rows)
        there.persist(path)
        found = state.sink.bulk("staging") / str(batch) / "0-7.arrows"
        assert found.read_bytes() == rows
        assert [each.name for each in found.parent.iterdir()] == ["0-7.arrows"]
    left = [each.name for each in there.bulk("staging").iterdir()]
    assert left == ["2"], "folders of earlier batches have to go"
    (there.bulk("staging") / "2" / "1-8.arrows").write_bytes(b"of a task that failed")
    path = there.bulk("staging") / "3" / "0-9.arrows"
    path.parent.mkdir(parents=True)
    path.write_bytes(rows)
    there.persist(path)
    assert [each.name for each in there.bulk("staging").iterdir()] == ["3"]
    there.note(there.bulk("labels") / "1.jsonl", b"one\n")
    there.note(there.bulk("labels") / "1.jsonl", b"two\n")
    assert (state.sink.bulk("labels") / "1.jsonl").read_bytes() == b"one\ntwo\n"


def test_a_staged_file_is_in_the_object_store_before_the_answer(tmp_path: Path) -> None:
    url = f"memory:///{secrets.token_hex(8)}"
    with hold_working_copy(url, tmp_path / "copy", RetryPolicy(0.0), ttl_s=60):
        state = StateDir(tmp_path / "copy")
        state.open(name="p", source="list")
        server = StateServer(state, LOCAL, LOCAL)
        there = ServedStore(server.start(), "sink")
        path = there.bulk("staging/3/0-1.arrows")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"rows")
        there.persist(path)
        assert [name.partition("/sink/")[2] for name in Bucket(url).names("bulk")] == ["staging/3/0-1.arrows"]
        server.close()


@pytest.mark.parametrize("refusing", ["create_folder", "durable"])
def test_what_the_disk_of_the_driver_refuses_is_the_error_of_the_task(
    state: StateDir, endpoint: StateEndpoint, refusing: str
) -> None:
    there = ServedStore(endpoint, "sink")
    path = there.bulk("staging/1/0-0.arrows")
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(2_000_000))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        patch(f"cdc.state.served.server.{refusing}", side_effect=full),
        pytest.raises(StateError, match="cannot write the state: No space left") as caught,
    ):
        there.persist(path)
    assert not isinstance(caught.value, StateUnavailable), "the driver was reached"
    assert list(path.parent.iterdir()) == [], "tasks that are tried again must not fill the executor's disk"
    path.write_bytes(bytes(2_000_000))
    there.persist(path)  # over the same connection
    assert (state.sink.bulk("staging") / "1" / "0-0.arrows").stat().st_size == 2_000_000


def test_a_disk_that_gets_full_only_as_a_file_is_synced_is_the_error_of_the_task(
    state: StateDir, endpoint: StateEndpoint
) -> None:
    there = ServedStore(endpoint, "sink")
    path = there.bulk("staging/1/0-0.arrows")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"few rows")
    with (
        patch("cdc.state.durable.close_synced", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
        pytest.raises(StateError, match="cannot write the state: No space left") as caught,
    ):
        there.persist(path)
    assert not isinstance(caught.value, StateUnavailable)
    assert list((state.sink.bulk("staging") / "1").iterdir()) == []


def test_a_connection_that_breaks_in_a_file_leaves_nothing(server: StateServer, state: StateDir) -> None:
    line = _connection_to(server.endpoint, os.getpid())
    file = line._connect()
    begin(file, {"op": "persist", "folder": "sink", "path": "staging/1/0-0.arrows"}, 5_000_000)
    file.write(bytes(2_000_000))
    file.close()
    for thread in [each for each in threading.enumerate() if each.name == "state-for-executor"]:
        thread.join(60)
    assert list((state.sink.bulk("staging") / "1").iterdir()) == []


def test_what_is_being_written_at_the_end_is_written_before_the_next_run_may_begin(
    state: StateDir, server: StateServer, endpoint: StateEndpoint
) -> None:
    writing, go, found = threading.Event(), threading.Event(), list[bytes | None]()
    write = LocalStore.write

    def slowly(self: LocalStore, name: str, data: bytes) -> None:
        writing.set()
        go.wait(60)
        write(self, name, data)

    def ask() -> None:
        with contextlib.suppress(StateUnavailable):
            ServedStore(endpoint, "source").write("a.json", b"1")

    def end() -> None:
        server.close()
        found.append(state.source.read("a.json"))

    with patch.object(LocalStore, "write", slowly):
        threads = [threading.Thread(target=ask), threading.Thread(target=end)]
        threads[0].start()
        assert writing.wait(60)
        threads[1].start()
        assert server._closed.wait(60)
        go.set()
        for thread in threads:
            thread.join(60)
    assert found == [b"1"]
    assert not [each for each in threading.enumerate() if each.name in ("state-server", "state-for-executor")]


def test_errors_of_the_state_cross(state: StateDir, endpoint: StateEndpoint) -> None:
    state.source.log("chunks", "plan").append({"a": 1})
    with pytest.raises(StateError, match="its first line does not name a format"):
        ServedStore(endpoint, "source").log("chunks", "plan", {"other": 1}).items()


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", ""])
def test_nothing_outside_of_the_state_is_given_out(endpoint: StateEndpoint, name: str) -> None:
    with pytest.raises(StateError, match="names nothing of the state"):
        ServedStore(endpoint).read(name)


def test_a_stop_is_seen_by_tasks_and_so_is_the_end_of_the_driver(
    state: StateDir, server: StateServer, endpoint: StateEndpoint
) -> None:
    assert not ServedStop(endpoint).exists()
    state.request_stop()
    assert pickle.loads(pickle.dumps(ServedStop(endpoint))).exists()
    state.clear_control()
    asking = ServedStop(endpoint)
    server.close()
    assert asking.exists()
    with pytest.raises(StateUnavailable, match="does not reach the driver") as caught:
        ServedStore(endpoint).check()
    assert "spark.driver.host" in caught.value.hint
    assert caught.value.retryable


def test_a_connection_that_breaks_is_opened_again(server: StateServer) -> None:
    there = ServedStore(server.endpoint)
    there.check()
    for connection in list(server._open):
        connection.shutdown(socket.SHUT_RDWR)
    assert there.read("pipeline.json") is not None


def test_the_answer_to_a_question_that_was_given_up_is_not_that_to_the_next(
    state: StateDir, endpoint: StateEndpoint
) -> None:
    there = ServedStore(endpoint, "source")
    there.write("a.json", b"1")
    there.write("b.json", b"2")
    with patch("cdc.state.served.store.receive", side_effect=MemoryError), pytest.raises(MemoryError):
        there.read("a.json")
    assert there.read("b.json") == b"2"


@pytest.mark.parametrize("wrong", ["token", "certificate"])
def test_only_executors_of_the_run_are_answered(state: StateDir, endpoint: StateEndpoint, wrong: str) -> None:
    other = StateServer(state, LOCAL, LOCAL)
    try:
        stranger = replace(endpoint, **{wrong: getattr(other.endpoint, wrong)})
        with pytest.raises(StateUnavailable, match=r"refused|closed|CERTIFICATE_VERIFY_FAILED"):
            ServedStore(stranger).read("pipeline.json")
    finally:
        other.close()
    assert endpoint.token not in repr(endpoint)
    assert "BEGIN" not in repr(endpoint)


def test_executors_are_let_in_once_there_are_threads_again(server: StateServer) -> None:
    start, refused = threading.Thread.start, threading.Event()

    def none_left(thread: threading.Thread) -> None:
        if thread.name == "state-for-executor":
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    with (
        patch.object(threading.Thread, "start", none_left),
        socket.create_connection((LOCAL, server.endpoint.port)) as turned_away,
    ):
        assert refused.wait(60)
        assert turned_away.recv(1) == b""
    ServedStore(server.endpoint).check()


def test_those_who_do_not_say_who_they_are_take_no_more_than_their_share(state: StateDir) -> None:
    with patch("cdc.state.served.server._MOST_UNAUTHENTICATED", 2):
        server = StateServer(state, LOCAL, LOCAL)
        server.start()
        silent = [socket.create_connection((LOCAL, server.endpoint.port)) for _ in range(3)]
        assert silent[2].recv(1) == b""
        for each in silent:
            each.close()
        store = ServedStore(server.endpoint)
        for _ in range(3):
            store.check()
        server.close()


@pytest.mark.parametrize("hello", [b"[]", '{"token": "h\u00e9"}'.encode(), b"[" * 490, b"{" * 5000])
def test_strangers_end_nothing_but_their_own_connection(server: StateServer, hello: bytes) -> None:
    failed: list[object] = []
    with patch.object(threading, "excepthook", failed.append):
        plain = socket.create_connection((LOCAL, server.endpoint.port), 10)
        with client_context(server.endpoint.certificate).wrap_socket(plain) as stranger:
            stranger.sendall(struct.pack("!IQ", len(hello), 0) + hello)
            with contextlib.suppress(ConnectionError):
                assert stranger.recv(1) == b""
    ServedStore(server.endpoint).check()
    assert failed == []


def test_ports_in_use_are_passed_over(state: StateDir) -> None:
    with socket.create_server((LOCAL, 0)) as taken:
        first = taken.getsockname()[1]
        server = StateServer(state, LOCAL, LOCAL, first)
        assert first < server.endpoint.port <= first + 31
        server.close()
