"""State without files: it does what the folder of a real run does."""

from __future__ import annotations

import itertools
import sys
import threading
from pathlib import Path

import pytest

from cdc.errors import StateError
from cdc.state.append_log import AppendLog
from cdc.state.store import LocalStore, Store
from cdc.testing.memory_state import MemoryState, MemoryStore


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path) if request.param == "folder" else MemoryStore()


def test_documents_are_found_by_name_in_their_part(store: Store) -> None:
    store.write_json("a.json", {"n": 1})
    store.within("part").write("b", b"2")
    assert store.read_json("a.json") == {"n": 1}
    assert (store.names(), store.within("part").names()) == (["a.json"], ["b"])
    assert (store.read("b"), store.within("part").read("b"), store.read("part/b")) == (None, b"2", b"2")
    store.within("part").remove("b")
    store.within("part").remove("b")
    assert store.within("part").names() == []


def test_who_opens_the_same_log_reads_what_another_appends_and_notices_a_cut(store: Store) -> None:
    written, read = store.log("l.jsonl", "lines"), store.log("l.jsonl", "lines")
    assert len(read) == 0
    assert written.append({"n": 0}, {"n": 1}) == 2
    assert [item["n"] for item in read.items(1)] == [1]
    before = read.generation
    written.truncate(1)
    assert [item["n"] for item in read.items()] == [0]
    assert read.generation != before
    written.append({"n": 2})
    assert [item["n"] for item in read.items(0, 2)] == [0, 2]
    with pytest.raises(StateError, match="holds 2 entries, 3 are needed"):
        read.truncate(3)


def test_a_log_that_grew_while_nobody_looked_is_read_on(tmp_path: Path) -> None:
    """A look that finds the file as it was costs no reading; a torn line is looked at again."""
    written, read = AppendLog(tmp_path / "l", "lines"), AppendLog(tmp_path / "l", "lines")
    written.append({"n": 0})
    assert (len(read), len(read)) == (1, 1)
    with (tmp_path / "l").open("ab") as file:
        file.write(b'{"n":1')
    assert len(read) == 1
    with (tmp_path / "l").open("ab") as file:
        file.write(b"}\n")
    assert [item["n"] for item in read.items()] == [0, 1]


def test_a_state_in_memory_has_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = MemoryState()
    assert state.open(name="p", source="values").startswith("p-")
    assert state.pipeline(source="values") is None
    state.store_initial_offset({"n": 0})
    assert state.initial_offset() == {"n": 0}
    with pytest.raises(StateError, match="bulk"):
        state.sink.bulk("rows")
    assert list(tmp_path.iterdir()) == []


def test_names_can_be_asked_for_while_another_thread_writes() -> None:
    store, done = MemoryStore(), threading.Event()

    def write() -> None:
        for number in itertools.count():
            store.write(f"{number % 5000}", b"")
            store.remove(f"{(number - 3000) % 5000}")
            if done.is_set():
                return

    before = sys.getswitchinterval()
    writer = threading.Thread(target=write)
    try:
        sys.setswitchinterval(1e-6)
        writer.start()
        assert all(len(store.names()) <= 5000 for _ in range(300))
    finally:
        done.set()
        writer.join()
        sys.setswitchinterval(before)
