"""`cdc serve --state-store`: states in an object store, the folders of the state root only of this machine."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cdc_process import wait_for
from command_runner import CliRunner

import cdc
from cdc.cli import app
from cdc.job.control import RunControl
from cdc.job.lock import RunLock
from cdc.job.run_status import last_run, show_requests
from cdc.job.state_location import changing, reading, state_location
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.serve.server import Server, ServerSettings
from cdc.status.file import read_status, write_status
from cdc.status.recording import first_status
from cdc.tables.requests import Mailbox, RequestKind

if TYPE_CHECKING:
    from s3_server import S3Server

FILE = "source:\n  type: values\n  rows: []\nsink:\n  type: values\n"


class Runs:
    """Stands in for runs: each notes in the state how many there were, and goes on until it is stopped."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    def __call__(self, spec: Any, *, state_dir: Path, control: RunControl, **options: Any) -> None:
        found, lock = state_location(state_dir, spec), RunLock(state_location(state_dir, spec).root)
        lock.acquire()
        try:
            with found.locked_state(RetryPolicy(timeout_s=60.0), lambda text: None) as state:
                pipeline = state.open(name=spec.name, source="values")
                number = int(state.store.read("runs") or b"0") + 1
                state.store.write("runs", str(number).encode())
                first = first_status(
                    state.root, pipeline, name=spec.name, source="values", sink="values", file="", behavior=""
                )
                write_status(state.root, first)
                self.begun.append(number)
                control.stop.wait()
        finally:
            lock.release()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs()
    monkeypatch.setattr("cdc.job.run.run", runs)
    monkeypatch.setattr(Server, "_start_spark", lambda server: server._spark_up.set())
    monkeypatch.setattr(Server, "session", lambda server: object())
    monkeypatch.setattr(Server, "spark_alive", lambda server: True)
    return runs


@contextmanager
def serving(folder: Path, root: Path, url: str) -> Iterator[Server]:
    server = Server(ServerSettings(folder, root, state_store=url), lambda line: None)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


@pytest.mark.slow
def test_pipelines_go_on_where_the_server_and_its_state_root_are_gone(s3: S3Server, runs: Runs, tmp_path: Path) -> None:
    url, folder, root = f"{s3.new_bucket()}/cdc", tmp_path / "pipelines", tmp_path / "root"
    folder.mkdir()
    for name in ("shop", "stock"):
        (folder / f"{name}.yaml").write_text(FILE)
    with serving(folder, root, url):
        wait_for("both runs", lambda: runs.begun == [1, 1])
        shown = CliRunner().invoke(app, ["status", "shop", "--state-root", str(root)])
        assert shown.stdout.startswith("shop: values -> values"), shown
    assert (root / "shop" / "runs.json").is_file(), "the history is of this machine"
    assert not (root / "shop" / "pipeline.json").exists(), "the state is not"
    shutil.rmtree(root)
    with serving(folder, tmp_path / "elsewhere", url):
        wait_for("both again", lambda: runs.begun == [1, 1, 2, 2])
    for name in ("shop", "stock"):
        with reading(f"{url}/{name}", cdc.load(folder / f"{name}.yaml").spec) as state:
            assert state.store.read("runs") == b"2"


def test_a_folder_that_has_a_state_already_is_not_moved_to_the_store(s3: S3Server, runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(FILE)
    (tmp_path / "stock.yaml").write_text(FILE)
    own = tmp_path / ".cdc" / "shop"
    own.mkdir(parents=True)
    (own / "pipeline.json").write_text("{}")
    with serving(tmp_path, tmp_path / ".cdc", s3.new_bucket()) as server:
        wait_for("the other run", lambda: runs.begun == [1])
        shown = {view.name: view for view in server.pipelines.pipelines()}
        assert (shown["shop"].state, shown["stock"].name) == ("invalid", "stock")
        assert "has a state of its own, which is not moved" in shown["shop"].file_errors[0]


def test_a_pause_that_the_next_run_takes_in_is_shown_here_and_elsewhere(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.yaml").write_text(FILE)
    spec, url = cdc.load(tmp_path / "shop.yaml").spec, f"{s3.new_bucket()}/shop"
    monkeypatch.setenv("CDC_STATE_CACHE", str(tmp_path / "here"))
    with changing(url, spec) as state:
        state.open(name="shop", source="values")
        first = first_status(state.root, "shop-1", name="shop", source="values", sink="values", file="", behavior="")
        write_status(state.root, replace(first, state="ended"))
    with changing(url, spec) as state:
        Mailbox(state.store).add(TableId("shop", "orders"), RequestKind.PAUSE)
        show_requests(state)
    for machine in ("here", "elsewhere"):
        monkeypatch.setenv("CDC_STATE_CACHE", str(tmp_path / machine))
        found = last_run(url)
        assert found is not None
        assert (found.state, found.status.paused) == ("ended", ("shop.orders",))
    of_serve = read_status(state_location(url, spec).root)
    assert of_serve is None, "this machine has had no run"
    monkeypatch.setenv("CDC_STATE_CACHE", str(tmp_path / "here"))
    of_serve = read_status(state_location(url, spec).root)
    assert of_serve is not None
    assert of_serve.status.paused == ("shop.orders",)
