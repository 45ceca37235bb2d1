"""State in an object store: what is written is there for the next run, which begins with an empty folder elsewhere."""

from __future__ import annotations

import errno
import json
import os
import pickle
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import obstore
import pytest
from cdc_process import wait_for
from obstore.exceptions import GenericError

from cdc.errors import StateError, StateUnavailable
from cdc.retry import RetryPolicy
from cdc.state.remote import run as run_module
from cdc.state.remote.bucket import Bucket
from cdc.state.remote.compact import compact
from cdc.state.remote.entry import DocumentChange, Entry
from cdc.state.remote.lease import Lease, holder, of_this_process
from cdc.state.remote.lease_deadline import note_lease_until, now_s
from cdc.state.remote.run import STATUS, _RemoteRun, hold_working_copy
from cdc.state.remote.store import RemoteStore, store_at, writer_of
from cdc.state.remote.writer import put_entry

RETRY = RetryPolicy(timeout_s=0.0)
TTL_S = 0.3
_LONG_S = 6.0
"""A lease that does not end while a test runs; its holder shows up after a third of that."""


@pytest.fixture
def url() -> str:
    """A store of this process and this test alone."""
    return f"memory:///{secrets.token_hex(8)}"


@contextmanager
def run(url: str, folder: Path, ttl_s: float = TTL_S) -> Iterator[RemoteStore]:
    with hold_working_copy(url, folder, RETRY, ttl_s=ttl_s):
        store = store_at(folder)
        assert isinstance(store, RemoteStore)
        yield store


def begun(url: str, folder: Path, ttl_s: float = TTL_S) -> _RemoteRun:
    """A run that gives no sign of life any more: it was killed with its machine, or goes on much later."""
    started = _RemoteRun(url, folder, RETRY, ttl_s)
    started.begin(lambda told: None)
    started._ended.set()
    started._ending.set()
    return started


def paused(url: str, folder: Path) -> RemoteStore:
    """What such a run writes with."""
    begun(url, folder)
    store = store_at(folder)
    assert isinstance(store, RemoteStore)
    return store


def test_documents_and_logs_are_there_for_the_next_run(url: str, tmp_path: Path) -> None:
    with run(url, tmp_path / "a") as store:
        store.write("pipeline.json", b"1")
        store.within("commits").write("0.json", b"zero")
        store.within("commits").write("1.json", b"one")
        store.within("commits").remove("0.json")
        log = store.within("source").log("schemas", "schemas")
        assert log.append({"a": 1}, {"a": 2}) == 2
        log.truncate(1)
        log.append({"a": 3})
        store.write("pipeline.json", b"2")
    with run(url, tmp_path / "b") as store:
        assert store.read("pipeline.json") == b"2"
        assert store.within("commits").names() == ["1.json"]
        assert list(store.within("source").log("schemas", "schemas").items()) == [{"a": 1}, {"a": 3}]


def test_what_comes_later_is_there_after_a_kill_once_something_was_written(url: str, tmp_path: Path) -> None:
    store = paused(url, tmp_path / "a")
    store.write_later("note", b"1")
    store.write_later("note", b"2")
    assert store.read("note") == b"2"
    store.write("decision", b"x")
    store.write_later("note", b"3")
    with run(url, tmp_path / "b") as store:
        assert store.read("note") == b"2"
        assert store.read("decision") == b"x"


def test_all_that_comes_later_is_there_after_an_end(url: str, tmp_path: Path) -> None:
    with run(url, tmp_path / "a") as store:
        store.write("gone", b"1")
        store.write_later("note", b"3")
        store.remove("gone")
    with run(url, tmp_path / "b") as store:
        assert store.read("note") == b"3"
        assert store.read("gone") is None


def test_nothing_of_a_folder_is_trusted_that_an_earlier_run_has_left(url: str, tmp_path: Path) -> None:
    store = paused(url, tmp_path)
    store.write("a", b"1")
    (tmp_path / "a").write_bytes(b"2")
    (tmp_path / "b").write_bytes(b"2")
    (tmp_path / "status.json").write_bytes(b"kept: it is for people")
    with run(url, tmp_path) as store:
        assert store.read("a") == b"1"
        assert store.read("b") is None
        assert (tmp_path / "status.json").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".store", "status.json"]


def test_steps_go_once_they_are_in_a_base(url: str, tmp_path: Path) -> None:
    store = paused(url, tmp_path / "a")
    for number in range(5):
        store.write(f"{number}.json", b"x")
    compact(writer_of(store), [])
    assert Bucket(url, RETRY).names("log") == []
    store.write("5.json", b"y")
    with run(url, tmp_path / "b") as store:
        assert store.names() == [f"{number}.json" for number in range(6)]


def test_a_run_that_makes_a_base_for_longer_than_its_lease_keeps_the_lease(url: str, tmp_path: Path) -> None:
    begun_base, may_end = threading.Event(), threading.Event()

    def slow(writer: Any, openings: Any) -> int:
        begun_base.set()
        assert may_end.wait(60)
        return compact(writer, openings)

    bucket = Bucket(url, RETRY)
    with (
        patch.object(run_module, "compact", slow),
        patch.object(run_module, "is_compaction_due", lambda writer, base: base < 0),
    ):
        with run(url, tmp_path / "a") as store:
            assert begun_base.wait(60)
            found = holder(bucket)
            assert found is not None
            longer = found.beat + 4  # signs of life than it has while it lasts
            wait_for("signs of life", lambda: (now := holder(bucket)) is not None and now.beat >= longer)
            with pytest.raises(StateError, match="is using this state"), run(url, tmp_path / "b"):
                pass
            store.write("1.json", b"x")
            store.check_lease()
            may_end.set()
        assert bucket.names("base")
    with run(url, tmp_path / "c") as store:
        assert store.read("1.json") == b"x"


def test_the_status_of_an_earlier_run_does_not_take_the_place_of_a_later_ones(url: str, tmp_path: Path) -> None:
    """A command that finds the folder of a run which went on on another machine."""
    with run(url, tmp_path / "a"):
        (tmp_path / "a" / STATUS).write_bytes(b"earlier")
    with run(url, tmp_path / "b"):
        (tmp_path / "b" / STATUS).write_bytes(b"later")
    with run(url, tmp_path / "a"):
        pass
    assert Bucket(url, RETRY).get(STATUS) == b"later"


def test_a_base_leaves_out_what_goes_while_it_is_made(url: str, tmp_path: Path) -> None:
    store = paused(url, tmp_path / "a")
    store.write("1.json", b"x")
    (tmp_path / "a" / "2.json").symlink_to("gone")  # its name was listed
    compact(writer_of(store), [])
    with run(url, tmp_path / "b") as other:
        assert other.names() == ["1.json"]


def test_a_base_is_not_made_of_a_folder_that_cannot_be_listed(url: str, tmp_path: Path) -> None:
    store = paused(url, tmp_path / "a")
    store.write("commits/1.json", b"x")
    with patch("os.scandir", side_effect=OSError(errno.EMFILE, "Too many open files")), pytest.raises(StateError):
        compact(writer_of(store), [])
    with run(url, tmp_path / "b") as other:
        assert other.read("commits/1.json") == b"x"


def test_bulk_data_is_there_for_the_next_run_until_it_is_dropped(url: str, tmp_path: Path) -> None:
    for folder, there in (("a", False), ("b", True), ("c", False)):
        store = paused(url, tmp_path / folder)
        path = store.within("sink").bulk("staging") / "7" / "0-1.arrows"
        assert path.exists() is there
        if folder == "a":
            path.parent.mkdir(parents=True)
            path.write_bytes(b"rows")
            store.within("sink").persist(path)
        if folder == "b":
            assert path.read_bytes() == b"rows"
            store.within("sink").drop(path.parent)


def test_a_process_of_the_run_goes_on_with_a_pickled_store(url: str, tmp_path: Path) -> None:
    with run(url, tmp_path / "a") as store:
        other = pickle.loads(pickle.dumps(store.within("source")))
        log = pickle.loads(pickle.dumps(store.within("source").log("l", "log")))
        log.append({"a": 1})
        other.write("x", b"1")
        assert store.within("source").read("x") == b"1"
    with run(url, tmp_path / "b") as store:
        assert list(store.within("source").log("l", "log").items()) == [{"a": 1}]


def test_a_run_that_was_taken_over_writes_nothing_and_reads_nothing(url: str, tmp_path: Path) -> None:
    first = paused(url, tmp_path / "a")
    first.write("decision", b"of the first")
    first.write_later("note", b"x")
    with run(url, tmp_path / "b") as second:
        assert second.read("decision") == b"of the first"
        second.write("decision", b"of the second")
        with pytest.raises(StateError, match=r"the state was taken over by the run on .*, process"):
            first.write("decision", b"too late")
        with pytest.raises(StateError, match="taken over"):
            first.read("decision")
        with pytest.raises(StateError, match="taken over"):
            first.log("l", "log").append({"a": 1})
        assert second.read("decision") == b"of the second"
    with run(url, tmp_path / "c") as third:
        assert third.read("decision") == b"of the second"
        assert third.read("note") is None


def test_a_run_that_slept_through_a_base_of_the_next_ones_finds_its_number_taken(url: str, tmp_path: Path) -> None:
    first = paused(url, tmp_path / "a")
    first.write("decision", b"of the first")
    second_run = begun(url, tmp_path / "b")
    second = store_at(tmp_path / "b")
    assert isinstance(second, RemoteStore)
    second.write("decision", b"of the second")
    compact(writer_of(second), second_run._openings)
    third_run = begun(url, tmp_path / "c")
    third = store_at(tmp_path / "c")
    assert isinstance(third, RemoteStore)
    compact(writer_of(third), third_run._openings)
    for late in (first, second):
        with pytest.raises(StateError, match="taken over"):
            late.write("decision", b"too late")
    assert third.read("decision") == b"of the second"


def test_the_second_of_two_runs_is_told_who_the_first_one_is(url: str, tmp_path: Path) -> None:
    with run(url, tmp_path / "a") as first:
        with (
            pytest.raises(StateError, match=rf"the run on .*, process {os.getpid()} is using this state"),
            run(url, tmp_path / "b"),
        ):
            pytest.fail("both run")
        first.write("x", b"1")


def test_a_machine_that_slept_while_it_watched_a_lease_leaves_it_to_one_that_lives(url: str) -> None:
    bucket, now_s = Bucket(url, RETRY), [0.0]
    holder = Lease(bucket, bucket, of_this_process("a", "", 1.0), RETRY)
    holder.acquire()

    def sleep(seconds: float) -> None:
        asleep = now_s[0] == 0.0
        now_s[0] += 3600.0 if asleep else seconds
        assert asleep or holder.beat()

    patient = RetryPolicy(timeout_s=0.0, clock=lambda: now_s[0], sleep=sleep)
    with pytest.raises(StateError, match="is using this state"):
        Lease(bucket, bucket, of_this_process("b", "", 1.0), patient).acquire()


def test_of_two_runs_that_find_a_dead_one_exactly_one_goes_on(url: str, tmp_path: Path) -> None:
    paused(url, tmp_path / "dead").write("x", b"1")
    ends: list[str] = []
    both = threading.Barrier(2)

    def live(name: str) -> None:
        both.wait()
        try:
            with run(url, tmp_path / name, _LONG_S) as store:
                store.write(name, b"1")
                ends.append("ran")
                over.wait(60)
        except StateError as error:
            ends.append("refused" if "is using this state" in str(error) else str(error))
            over.set()

    over = threading.Event()
    threads = [threading.Thread(target=live, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["ran", "refused"]


def test_a_run_after_a_dead_one_of_the_same_folder_need_not_wait(url: str, tmp_path: Path) -> None:
    begun(url, tmp_path, 3600.0)
    with run(url, tmp_path):
        pass


def test_who_waits_for_the_end_of_a_lease_says_so(url: str, tmp_path: Path) -> None:
    begun(url, tmp_path / "dead")
    lines: list[str] = []
    with hold_working_copy(url, tmp_path / "next", RETRY, ttl_s=TTL_S, starting=lines.append):
        pass
    assert [line.partition(" has ")[2] for line in lines if f"process {os.getpid()}" in line] == [
        "or had the lease: waiting 0.3 s to see whether it is alive"
    ]


def test_a_put_whose_answer_is_lost_counts_once(url: str, tmp_path: Path) -> None:
    patient = RetryPolicy(timeout_s=60.0, sleep=lambda seconds: None)
    with hold_working_copy(url, tmp_path / "a", patient, ttl_s=TTL_S):
        store = store_at(tmp_path / "a")
        with trouble(lambda name: name.startswith("log/"), after=True):
            store.log("l", "log").append({"a": 1})
        store.log("l", "log").append({"a": 2})
    with run(url, tmp_path / "b") as after:
        assert list(after.log("l", "log").items()) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("after", [False, True])
def test_a_put_that_fails_for_good_ends_the_run_whether_it_is_there_or_not(
    url: str, tmp_path: Path, after: bool
) -> None:
    """Nobody may go by the working copy then: an abort of what the store says is decided would lose it."""
    store = paused(url, tmp_path / "a")
    with trouble(lambda name: name.startswith("log/"), after=after), pytest.raises(StateUnavailable, match="written"):
        store.write("decision", b"1")
    for use in (lambda: store.read("decision"), lambda: store.write("x", b""), store.check_lease):
        with pytest.raises(StateUnavailable, match="the state cannot be written"):
            use()
    with run(url, tmp_path / "b") as other:
        assert other.read("decision") == (b"1" if after else None)


def test_a_step_of_a_process_that_died_behind_its_put_is_carried_out_by_the_next(url: str, tmp_path: Path) -> None:
    with run(url, tmp_path / "a") as store:
        with store.copy.joinpath(".store", "next").open() as file:
            number = json.load(file)["number"]
        step = Entry("write", store.session.owner, number, "x", (DocumentChange("split", b"1"),), {"waited": 0})
        assert put_entry(Bucket(url, RETRY), step) is None
        store.write("decision", b"2")
        assert store.read("split") == b"1"
        assert store.read("decision") == b"2"


def test_a_sink_is_not_asked_once_the_lease_is_over(url: str, tmp_path: Path) -> None:
    store = paused(url, tmp_path)
    note_lease_until(tmp_path, now_s() + 600)
    store.check_lease()
    note_lease_until(tmp_path, now_s() - 2)
    with pytest.raises(StateUnavailable, match="the lease on the state ended 2 s ago"):
        store.check_lease()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system's clocks stand still while it is suspended")
def test_a_machine_that_was_suspended_for_longer_than_its_lease_asks_no_sink(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one clock of Linux goes on meanwhile."""
    now = time.clock_gettime
    with run(url, tmp_path / "a", 600.0) as store:
        store.check_lease()
        asleep_s = {time.CLOCK_BOOTTIME: 3600.0}
        monkeypatch.setattr(time, "clock_gettime", lambda clock: now(clock) + asleep_s.get(clock, 0))
        with pytest.raises(StateUnavailable, match="the lease on the state ended"):
            store.check_lease()
        monkeypatch.undo()


def test_a_damaged_step_is_named(url: str, tmp_path: Path) -> None:
    with run(url, tmp_path / "a") as store:
        store.write("x", b"12345")
    bucket = Bucket(url, RETRY)
    data = bucket.get(bucket.names("log")[1])
    assert data is not None
    bucket.put(bucket.names("log")[1], data[:-2])
    with (
        pytest.raises(StateError, match=r"log/0{11}1: cannot be read: .*ends too early.*restore"),
        run(url, tmp_path / "b"),
    ):
        pytest.fail("it began")
    bucket.delete([bucket.names("log")[1]])
    with pytest.raises(StateError, match=r"log: steps of the log are missing .*restore"), run(url, tmp_path / "b"):
        pytest.fail("it began")


@contextmanager
def trouble(where: Callable[[str], bool], *, after: bool) -> Iterator[None]:
    """The first put of such an object meets a network that breaks, before or after the store has it."""
    real, left = obstore.put, [1]

    def put(store: Any, name: str, data: Any, **more: Any) -> Any:
        if left and where(name):
            left.pop()
            if after:
                real(store, name, data, **more)
            raise GenericError("connection reset")
        return real(store, name, data, **more)

    with patch("obstore.put", put):
        yield
