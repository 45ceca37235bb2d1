"""State in HDFS: the files that are there, who may put them, and what is said when the name node refuses.

On an imitation of the client, and on real nodes where `CDC_TEST_HDFS_JAR` names their jar.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from cdc_process import wait_for
from hdfs_server import JAR, ImitatedHdfs, hdfs_server
from together import together

from cdc.errors import StateError, StateUnavailable
from cdc.job.state_location import parse_location
from cdc.retry import RetryPolicy
from cdc.state.remote import hdfs as hdfs_module
from cdc.state.remote.hdfs import HdfsBucket, refusal
from cdc.state.remote.lease import Lease, holder, of_this_process
from cdc.state.remote.run import hold_working_copy
from cdc.state.remote.store import RemoteStore, store_at, writer_of

if TYPE_CHECKING:
    from hdfs_server import HdfsServer

ONCE = RetryPolicy(timeout_s=0.0)
REAL = pytest.mark.skipif(
    JAR not in os.environ,
    reason=f"{JAR} does not name hadoop-client-minicluster-3.5.0.jar (org.apache.hadoop, from Maven Central)",
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    with hdfs_server(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture
def imitated() -> Iterator[ImitatedHdfs]:
    found = ImitatedHdfs()
    with patch.object(hdfs_module, "_open_client", lambda cluster, process: found):
        yield found


@pytest.fixture(params=["imitated", pytest.param("nodes", marks=[REAL, pytest.mark.slow])])
def url(request: pytest.FixtureRequest) -> str:
    """An empty place of this test alone."""
    found = request.getfixturevalue(request.param)
    return f"{getattr(found, 'url', 'hdfs://imitated:8020')}/cdc/{secrets.token_hex(8)}"


def test_a_file_is_put_once_and_the_lease_only_over_the_version_that_is_known(url: str) -> None:
    bucket = HdfsBucket(url, ONCE)
    bucket.check()
    assert bucket.put_new("log/1", b"a")
    assert not bucket.put_new("log/1", b"b")
    assert bucket.get("log/1") == b"a"
    assert bucket.get("log/2") is None
    assert bucket.put_new("lock", b"a")
    assert not bucket.put_new("lock", b"b")
    found = bucket.get_tagged("lock")
    assert found is not None
    tag = bucket.put_if_match("lock", b"c", found[1])
    assert tag is not None
    assert bucket.put_if_match("lock", b"d", found[1]) is None
    assert bucket.put_if_match("lock", b"d", tag) is not None
    assert bucket.get("lock") == b"d"
    assert len(bucket.names("lock")) == 1
    assert bucket.names("new") == [], "what was refused is no use to anybody"


def test_files_are_listed_downloaded_and_removed_with_their_folders(url: str, tmp_path: Path) -> None:
    bucket = HdfsBucket(url, ONCE)
    (tmp_path / "rows").write_bytes(b"r" * 5_000_000)
    bucket.put("bulk/1/staging/3/rows", tmp_path / "rows")
    bucket.put("bulk/2/rows", b"")
    bucket.put("bulk/2/rows", b"2")
    assert bucket.names("bulk") == ["bulk/1/staging/3/rows", "bulk/2/rows"]
    bucket.download("bulk/1/staging/3/rows", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == b"r" * 5_000_000
    dated = bucket.get_dated("bulk/2/rows")
    assert dated is not None
    assert dated[0] == b"2"
    assert abs(dated[1] - time.time()) < 60
    bucket.delete(["bulk/1/staging/3/rows", "bulk/none"])
    assert bucket.names("bulk") == ["bulk/2/rows"]
    with pytest.raises(FileNotFoundError):
        bucket._client.get_file_info(bucket._path("bulk/1"))


def test_of_many_that_put_the_same_name_one_does(url: str) -> None:
    buckets = [HdfsBucket(url, ONCE) for _ in range(6)]
    tag = None
    for name in ("log/1", "lock", "over"):
        done: list[bool] = []

        def put(number: int, name: str = name, done: list[bool] = done, tag: str | None = tag) -> None:
            data = str(number).encode()
            if name == "over":
                assert tag is not None
                done.append(buckets[number].put_if_match("lock", data, tag) is not None)
            else:
                done.append(buckets[number].put_new(name, data))

        threads = [threading.Thread(target=put, args=(number,)) for number in range(len(buckets))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert done.count(True) == 1
        tag = None if (found := buckets[0].get_tagged("lock")) is None else found[1]


def test_who_slept_while_its_version_went_does_not_get_the_lease_back(url: str) -> None:
    first, second = (Lease(HdfsBucket(url, ONCE), HdfsBucket(url, ONCE), of_this_process(name, "", 0.01), ONCE)
                     for name in ("first", "second"))  # fmt: skip
    first.acquire()
    second.acquire()
    assert second.beat()
    assert second.beat()
    assert not first.beat(), "its next number is free again"
    assert second.beat()
    found = holder(HdfsBucket(url, ONCE))
    assert found is not None
    assert found.owner == "second"


def test_the_second_of_two_runs_is_refused_and_the_next_goes_on_where_the_first_ended(url: str, tmp_path: Path) -> None:
    with hold_working_copy(url, tmp_path / "a", ONCE, ttl_s=3.0):
        log = store_at(tmp_path / "a").within("source").log("l", "log")
        log.append({"n": 1})
        with (
            pytest.raises(StateError, match="is using this state"),
            hold_working_copy(url, tmp_path / "b", ONCE, ttl_s=3.0),
        ):
            pytest.fail("both run")
        log.append({"n": 2})
    with hold_working_copy(url, tmp_path / "c", ONCE):
        assert list(store_at(tmp_path / "c").within("source").log("l", "log").items()) == [{"n": 1}, {"n": 2}]


def test_a_rename_whose_answer_is_lost_counts_once(imitated: ImitatedHdfs, tmp_path: Path) -> None:
    url, real, left = "hdfs://imitated:8020/p", imitated.rename, [1]

    def rename(source: str, target: str, overwrite: bool) -> None:
        real(source, target, overwrite)
        if "/log/" in target and left:
            left.pop()
            raise OSError("RPC listener disconnected")

    patient = RetryPolicy(timeout_s=60.0, sleep=lambda seconds: None)
    with hold_working_copy(url, tmp_path / "a", patient):
        log = store_at(tmp_path / "a").log("l", "log")
        with patch.object(imitated, "rename", rename):
            log.append({"n": 1})
        assert left == []
        log.append({"n": 2})
    with hold_working_copy(url, tmp_path / "b", ONCE):
        assert list(store_at(tmp_path / "b").log("l", "log").items()) == [{"n": 1}, {"n": 2}]


def test_a_folder_that_has_the_name_of_a_file_is_told(imitated: ImitatedHdfs) -> None:
    bucket = HdfsBucket("hdfs://imitated:8020/p", ONCE)

    def refused(source: str, target: str, overwrite: bool) -> None:
        raise FileExistsError(f"rename destination {target} already exists")

    with patch.object(imitated, "rename", refused), pytest.raises(StateUnavailable, match="already exists"):
        bucket.put("status.json", b"a")


def test_a_lease_that_somebody_removes_while_it_is_put_is_not_ours(imitated: ImitatedHdfs) -> None:
    bucket, real = HdfsBucket("hdfs://imitated:8020/p", ONCE), imitated.rename

    def rename(source: str, target: str, overwrite: bool) -> None:
        real(source, target, overwrite)
        imitated.delete(target)

    with patch.object(imitated, "rename", rename):
        assert not bucket.put_new("lock", b"a")
    assert bucket.put_new("lock", b"a")


@pytest.mark.parametrize("at", ["write", "hsync", "close"])
def test_what_a_killed_process_has_half_written_has_no_name(imitated: ImitatedHdfs, at: str) -> None:
    bucket = HdfsBucket("hdfs://imitated:8020/p", ONCE)
    bucket.check()
    real = imitated.create

    def create(path: str, options: object) -> Any:
        writer = real(path, options)

        def gone(*_: object) -> None:
            raise OSError("gone")

        setattr(writer, at, gone)
        return writer

    with patch.object(imitated, "create", create), pytest.raises(StateUnavailable, match="gone"):
        bucket.put_new("log/1", b"a")
    assert bucket.get("log/1") is None
    assert bucket.names("log") == []
    assert len(bucket.names("new")) == 1
    bucket.check()
    assert len(bucket.names("new")) == 1, "its process may live"
    with patch("time.time", lambda: imitated.now_s() + 2 * 86_400):
        bucket.check()
    assert bucket.names("new") == []


def test_a_folder_that_goes_while_it_is_listed_is_not_taken_for_an_empty_one(imitated: ImitatedHdfs) -> None:
    bucket = HdfsBucket("hdfs://imitated:8020/p", ONCE)
    bucket.put("bulk/2/rows", b"2")
    real = imitated.get_file_info

    def gone(path: str) -> Any:
        if path.endswith("rows"):
            raise FileNotFoundError(path)
        return real(path)

    with patch.object(imitated, "get_file_info", gone), pytest.raises(StateUnavailable, match="removed while they"):
        bucket.names("bulk")


def test_a_name_node_that_does_not_answer_is_not_waited_for_without_end(imitated: ImitatedHdfs) -> None:
    def silent(path: str) -> Any:
        threading.Event().wait(5.0)

    told = pytest.raises(StateUnavailable, match=r"cannot be read: no answer .*check the name node")
    with patch.object(imitated, "read", silent), patch.object(hdfs_module, "_REQUEST_S", 0.05), told:
        HdfsBucket("hdfs://imitated:8020/p", ONCE).get("log/1")


_DENIED = (
    'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=bob, access=WRITE, '
    'inode=\\"/\\":root:supergroup:drwxr-xr-x\\n\\tat org.apache")'
)
_SAFE = 'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Name node is in safe mode.\\nThe ...")'


@together(
    "error, kind, told",
    [
        (RuntimeError(_DENIED), StateError, 'user=bob, access=WRITE, inode="/":root:supergroup:drwxr-xr-x (have the '),
        (RuntimeError(_DENIED), StateError, "made for that user (hdfs dfs -mkdir -p /cdc/shop; hdfs dfs -chown USER "),
        (RuntimeError(_SAFE), StateUnavailable, "cannot be written: Name node is in safe mode. (check"),
        (RuntimeError('InvalidArgument("No NameNode hosts found")'), StateError, "no such name service (write"),
        (RuntimeError("NoSASLMechanism"), StateUnavailable, "no credentials: NoSASLMechanism (log in with kinit"),
        (OSError("Connection refused (os error 111)"), StateUnavailable, "refused (os error 111) (check"),
        (OSError(28, "No space left on device", "/copy/rows"), StateError, "/copy/rows: the state cannot be written"),
    ],
)
def test_what_a_refusal_means(error: Exception, kind: type[StateError], told: str) -> None:
    found = refusal("hdfs://nn:8020/cdc/shop", "log/1", "written", error)
    assert type(found) is kind
    assert told in str(found)


def test_a_package_that_is_missing_is_named() -> None:
    with patch.dict("sys.modules", {"hdfs_native": None}), pytest.raises(StateError, match=r"cdc-pipelines\[hdfs\]"):
        HdfsBucket(f"hdfs://missing-{secrets.token_hex(4)}:8020/p", ONCE).get("lock")


def test_a_url_names_its_name_node() -> None:
    assert parse_location("HDFS://shop-cluster/cdc/shop/").url == "hdfs://shop-cluster/cdc/shop"
    for given in ("hdfs:///cdc/shop", "hdfs://namenode:8020", "hdfs:cdc/shop"):
        with pytest.raises(StateError, match="write hdfs://namenode:8020/prefix"):
            parse_location(given)


@REAL
@pytest.mark.slow
def test_a_run_goes_on_once_the_name_node_is_back(tmp_path: Path) -> None:
    """Killed, stopped without a word, and in safe mode."""
    (tmp_path / "hdfs").mkdir()
    told: list[str] = []
    with hdfs_server(tmp_path / "hdfs") as server:
        url = f"{server.url}/cdc/shop"
        with hold_working_copy(url, tmp_path / "a", RetryPolicy(timeout_s=120.0), ttl_s=15.0):
            store = store_at(tmp_path / "a")
            assert isinstance(store, RemoteStore)
            bucket = writer_of(store).bucket
            bucket._retry = replace(bucket._retry, waiting=told.append)
            for number, (trouble, mending) in enumerate(_troubles(server)):
                trouble()
                told.clear()
                thread = threading.Thread(target=store.write, args=(f"{number}.json", b"x"))
                thread.start()
                wait_for("a wait", lambda: any("cannot be written" in text for text in told))
                assert thread.is_alive(), "it was written meanwhile"
                mending()
                thread.join(120)
                wait_for("a lease of ours", lambda: _held(store))
        with hold_working_copy(url, tmp_path / "b", RetryPolicy(timeout_s=120.0)):
            assert store_at(tmp_path / "b").names() == ["0.json", "1.json", "2.json"]


def _held(store: RemoteStore) -> bool:
    try:
        store.check_lease()
    except StateUnavailable:
        return False
    return True


def _troubles(server: HdfsServer) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    yield lambda: server.end("namenode"), lambda: (server.start("namenode"), server.wait())[0]
    pid = server.nodes["namenode"].pid
    yield lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGCONT)
    yield lambda: server.admin("-safemode", "enter"), lambda: server.admin("-safemode", "leave")
