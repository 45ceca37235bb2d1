"""Formats of the state directory, who may read it, where it may be, and who opens it first."""

from __future__ import annotations

import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from command_runner import CliRunner
from together import together

from cdc.cli import app
from cdc.errors import StateError
from cdc.job.state_location import local_path, parse_location
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import FORMAT, StateDir
from cdc.state.store import LocalStore
from connectors.mysql.follow.foreign import parse_position
from connectors.mysql.server.positions import LogPosition


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
def test_a_directory_of_another_format_is_refused_with_the_way_out(tmp_path: Path, number: int) -> None:
    state = StateDir(tmp_path)
    state.open(name="shop", source="mysql")
    state.store_initial_offset({"file": "binlog.000001", "position": 157})
    CommitLog(state.commits).decide(Decision(9, {}, {"file": "binlog.000001", "position": 4711, "batch": 10}, ()))
    CommitLog(state.commits).decide(Decision(10, {}, {"file": "binlog.000002", "position": 157, "batch": 11}, ()))
    document = tmp_path / "pipeline.json"
    document.write_text(document.read_text().replace(f'"format": {FORMAT}', f'"format": {number}'))
    for refused in (partial(state.open, name="shop"), state.pipeline):
        with pytest.raises(
            StateError, match=f"has format {number}, this version of cdc reads format {FORMAT}"
        ) as caught:
            refused(source="mysql")
        assert '; the pipeline has reached {"file": "binlog.000002", "position": 157}' in caught.value.message
        assert "give another --state-dir" in caught.value.hint
        assert parse_position(caught.value.message).at == LogPosition("binlog.000002", 157), "cdc import takes it"


def test_a_directory_of_another_format_that_has_decided_nothing_names_no_position(tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text('{"format": 1, "pipeline": "p-1", "source": "mysql"}')
    with pytest.raises(StateError, match=f"reads format {FORMAT}") as caught:
        StateDir(tmp_path).open(name="p", source="mysql")
    assert "has come to" not in caught.value.message
    assert "position" not in caught.value.hint


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


@together(
    "place",
    [
        "hdfs://name", "HDFS://name/", "gs://bucket", "s3://bucket/", "ftp://b/x", "s3://", "s3:/", "s3:", "gs:",
        "S3:", "s3:bucket/prefix", "abfss:box@shop/cdc", "hdfs:", "hdfs:name/x", "webhdfs://name/x", "https:host/x", "nobody-knows://",
    ],
)  # fmt: skip
def test_places_that_are_no_file_system_and_no_prefix_of_a_bucket_are_refused(place: str) -> None:
    for given in (place, Path(place)):
        with pytest.raises(
            StateError, match=r"(cannot keep state in|is not a location in an object store).*--state-dir|/prefix"
        ):
            parse_location(given)


def test_a_folder_whose_name_is_no_utf_8_is_refused() -> None:
    with pytest.raises(StateError, match=r"its name is not UTF-8.*--state-dir"):
        parse_location("state\udcff/p")


def test_the_working_copy_of_a_url_is_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = parse_location(Path("S3://bucket/cdc/shop/"))
    assert found.url == "s3://bucket/cdc/shop"
    assert found.root.parent == tmp_path / "cdc" / "state"
    assert found == parse_location("s3://bucket/cdc/shop") == parse_location("s3://bucket/cdc//shop")
    assert found.root != parse_location("s3://other/cdc/shop").root
    assert (
        parse_location("abfss://box@shop.dfs.core.windows.net/cdc").url == "abfss://box@shop.dfs.core.windows.net/cdc"
    )


def test_a_file_url_is_a_path() -> None:
    assert local_path("file:///var/lib/cdc") == local_path(Path("file:///var/lib/cdc")) == Path("/var/lib/cdc")
    assert local_path("file:/var/lib/cdc") == Path("/var/lib/cdc")
    assert local_path("relative/state:1") == Path("relative/state:1")
    with pytest.raises(StateError, match="names another machine"):
        local_path("file://server/share")


@together("place", ["file:", "file://", "file:///", "file:state/shop"])
def test_a_file_url_without_a_path_is_refused(place: str) -> None:
    for given in (place, Path(place)):
        with pytest.raises(StateError, match=r"names no folder: .*write file:///(state/shop|var/lib/cdc/shop)"):
            parse_location(given)


REFUSED = [
    (["run", "p.yaml", "--state-dir", "s3://"], "is not a location in an object store"),
    (["status", "p.yaml", "--state-dir", "gs:"], "is not a location in an object store"),
    (["run", "p.yaml", "--from-savepoint", "s3://bucket/savepoint"], "a savepoint is a folder of this machine"),
    (["run", "p.yaml", "--from-savepoint", "s3:"], "a savepoint is a folder of this machine"),
    (["list", "--state-root", "s3:"], "the state root is a folder of this machine"),
    (["status", "shop", "--state-root", "s3://bucket/x"], "the state root is a folder of this machine"),
    (["serve", ".", "--state-root", "s3:bucket"], "the state root is a folder of this machine"),
    (["serve", ".", "--state-root", "file:"], "names no folder"),
    (["serve", ".", "--state-store", "s3:"], "names no store"),
    (["serve", ".", "--state-store", "s3://"], "names no store"),
    (["serve", ".", "--state-store", "s3:bucket/prefix"], "names no store"),
    (["serve", ".", "--state-store", "file:///var/cdc"], "is not the URL of an object store"),
    (["serve", ".", "--state-store", "states"], "is not the URL of an object store"),
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
        parse_location("s3://bucket/cdc/shop")


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
