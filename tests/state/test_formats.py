"""Formats of the state directory, who may read it, where it may be, and who opens it first."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc.cli import app
from cdc.errors import StateError
from cdc.job.state_location import local_path, named_location
from cdc.schema import TableId
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.formats import FORMAT
from cdc.state.store import LocalStore
from connectors.mysql.schema.history import SchemaHistory
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.lost_log import LostNote
from connectors.mysql.snapshot.plan.requests import Requests

FIXTURE = Path(__file__).parent.parent / "fixtures" / "state_format_1"


def test_a_directory_of_format_1_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "state"
    for path in sorted(FIXTURE.rglob("*")):
        if path.is_file():
            target = root / path.relative_to(FIXTURE)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (root / "source" / "lost.tmp").write_text("{")
    (root / "commits" / ".2.json.4711.tmp").write_text("{")
    os.chmod(root, 0o755)

    state = StateDir(root)
    assert state.open(name="other", source="mysql") == "shop-1a2b3c4d"
    assert json.loads((root / "pipeline.json").read_text())["format"] == FORMAT
    log = CommitLog(state.commits)
    assert [decision.batch for decision in log.uncommitted()] == [1]
    assert log.get(1).prepared[0].table == TableId("shop", "orders")  # type: ignore[union-attr]
    assert state.initial_offset() == {"file": "binlog.000001", "position": 157, "gtids": None, "schemas": 1, "batch": 0}
    assert SchemaHistory(state.source).tables(1).keys() == {TableId("shop", "orders")}
    assert ChunkPlan(state.source).count() == 2
    assert set(Watermarks(state.source).refresh()) == {1}
    assert LostNote(state.source).entries() == 2
    (request,) = Requests(state.source).names()
    assert Requests(state.source).get(request).table == TableId("shop", "orders")
    assert not list(root.rglob("*.tmp"))
    assert _open_to_others(root) == []
    assert StateDir(root).open(name="other", source="mysql") == "shop-1a2b3c4d"


def _open_to_others(root: Path) -> list[Path]:
    return [path for path in (root, *root.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_only_this_user_can_read_a_state_directory(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "state"
    state = StateDir(root)
    state.open(name="p", source="mysql")
    state.store_initial_offset({"item": 0})
    state.request_stop()
    LocalStore(state.source.bulk("resync")).write("a.json", b"{}")
    assert _open_to_others(root) == []


@pytest.mark.parametrize(
    "place",
    [
        "hdfs://name", "HDFS://name/", "gs://bucket", "s3://bucket/", "ftp://b/x", "s3://", "s3:/", "s3:", "gs:",
        "S3:", "s3:bucket/prefix", "abfss:box@shop/cdc", "hdfs:", "hdfs:name/x", "webhdfs://name/x", "https:host/x", "nobody-knows://",
    ],
)  # fmt: skip
def test_places_that_are_no_file_system_and_no_prefix_of_a_bucket_are_refused(place: str) -> None:
    for given in (place, Path(place)):
        with pytest.raises(StateError, match=r"(cannot keep state in|names no place in a store).*--state-dir|/prefix"):
            named_location(given)


def test_the_working_copy_of_a_url_is_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = named_location(Path("S3://bucket/cdc/shop/"))
    assert found.url == "s3://bucket/cdc/shop"
    assert found.root.parent == tmp_path / "cdc" / "state"
    assert found == named_location("s3://bucket/cdc/shop") == named_location("s3://bucket/cdc//shop")
    assert found.root != named_location("s3://other/cdc/shop").root
    assert (
        named_location("abfss://box@shop.dfs.core.windows.net/cdc").url == "abfss://box@shop.dfs.core.windows.net/cdc"
    )


def test_a_file_url_is_a_path() -> None:
    assert local_path("file:///var/lib/cdc") == local_path(Path("file:///var/lib/cdc")) == Path("/var/lib/cdc")
    assert local_path("file:/var/lib/cdc") == Path("/var/lib/cdc")
    assert local_path("relative/state:1") == Path("relative/state:1")
    with pytest.raises(StateError, match="names another machine"):
        local_path("file://server/share")


@pytest.mark.parametrize("place", ["file:", "file://", "file:///", "file:state/shop"])
def test_a_file_url_without_a_path_is_refused(place: str) -> None:
    for given in (place, Path(place)):
        with pytest.raises(StateError, match=r"names no folder: .*write file:///(state/shop|var/lib/cdc/shop)"):
            named_location(given)


REFUSED = [
    (["run", "p.yaml", "--state-dir", "s3://"], "names no place in a store"),
    (["status", "p.yaml", "--state-dir", "gs:"], "names no place in a store"),
    (["run", "p.yaml", "--from-savepoint", "s3://bucket/savepoint"], "a savepoint is a folder of this machine"),
    (["run", "p.yaml", "--from-savepoint", "s3:"], "a savepoint is a folder of this machine"),
    (["list", "--state-root", "s3:"], "the state root is a folder of this machine"),
    (["status", "shop", "--state-root", "s3://bucket/x"], "the state root is a folder of this machine"),
    (["serve", ".", "--state-root", "s3:bucket"], "the state root is a folder of this machine"),
    (["serve", ".", "--state-root", "file:"], "names no folder"),
    (["serve", ".", "--state-store", "s3:"], "names no store"),
    (["serve", ".", "--state-store", "s3://"], "names no store"),
    (["serve", ".", "--state-store", "s3:bucket/prefix"], "names no store"),
    (["serve", ".", "--state-store", "file:///var/cdc"], "is no URL of an object store"),
    (["serve", ".", "--state-store", "states"], "is no URL of an object store"),
]


@pytest.mark.parametrize(("arguments", "told"), REFUSED)
def test_every_command_refuses_a_place_that_is_none_and_makes_no_folder_of_that_name(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(
        "source: {type: values, rows: []}\nsink: {type: values, path: out.jsonl}\npipeline: {name: p}\n"
    )
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, StateError), result.output
    assert told in result.exception.message
    assert result.exception.hint
    assert [path.name for path in tmp_path.iterdir()] == ["p.yaml"]


def test_the_folder_of_working_copies_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_STATE_CACHE", "s3://bucket/cache")
    with pytest.raises(StateError, match="CDC_STATE_CACHE is a folder of this machine"):
        named_location("s3://bucket/cdc/shop")


@pytest.mark.slow
def test_a_second_first_start_is_refused_before_it_makes_an_id(tmp_path: Path) -> None:
    from cdc.job.lock import RunLock

    lock = RunLock(tmp_path / "state")
    lock.acquire()
    (tmp_path / "p.yaml").write_text(
        "source: {type: values, rows: []}\nsink: {type: values, path: out.jsonl}\npipeline: {name: p}\n"
    )
    command = [sys.executable, "-m", "cdc", "run", str(tmp_path / "p.yaml"), "--state-dir", str(tmp_path / "state")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lock.release()
    assert done.returncode == 5, done.stderr
    assert "another run is using this state directory" in done.stderr
    assert not (tmp_path / "state" / "pipeline.json").exists()
