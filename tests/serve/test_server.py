"""What the server makes of files that appear, change and go; runs are the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc.errors import EngineError, NotNow, PipelineUnknown, StateError
from cdc.job.lock import RunLock
from cdc.serve import pipelines as module
from cdc.serve.control import PipelineView
from cdc.serve.pipelines import Pipelines
from cdc.serve.server import Server, ServerSettings
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir

SOUND = "source:\n  type: values\n  rows: []\nsink:\n  type: values\n"


class Kept:
    """Stands in for a supervisor."""

    def __init__(self, spec: Any, root: Path, host: Any) -> None:
        if spec.name == "refused":
            raise OSError("no room")
        self.spec, self.root, self.file_errors = spec, root, tuple[str, ...]()
        self.versions, self.closed, self.interrupted = [spec], False, 0

    def begin(self, after: Any = None) -> None:
        self.after = after

    def change(self, spec: Any) -> None:
        self.spec = spec
        self.versions.append(spec)

    def between_runs(self, work: Callable[[], Any], timeout_s: float) -> Any:
        self.interrupted += 1
        return work()

    def close(self) -> None:
        self.closed = True

    def join(self) -> bool:
        return True

    def view(self) -> PipelineView:
        return PipelineView(
            self.spec.label, self.spec.file, "values", "values", "running", str(self.root), file_errors=self.file_errors
        )


class Folder:
    """A folder and the server of it, which looks at it when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines = folder, list[str]()
        self.server = Server(ServerSettings(folder, folder / ".cdc"), self.lines.append)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        self.look()

    def look(self) -> None:
        self.server.pipelines.scan()

    def shown(self) -> dict[str, str]:
        return {view.name: view.state for view in self.server.pipelines.pipelines()}

    def kept(self, name: str) -> Any:
        return self.server.pipelines.supervisor(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr(module, "Supervisor", Kept)
    return Folder(tmp_path)


def test_a_file_that_appears_changes_and_goes(folder: Folder) -> None:
    folder.write("a.yaml", SOUND)
    kept = folder.kept("a")
    assert kept.root == folder.folder / ".cdc" / "a"
    folder.look()
    assert len(kept.versions) == 1
    folder.write("a.yaml", SOUND + "pipeline: {parallelism: 3}\n")
    assert [spec.pipeline.parallelism for spec in kept.versions] == [None, 3]
    (folder.folder / "a.yaml").unlink()
    folder.look()
    assert (kept.closed, folder.shown()) == (True, {})


def test_a_pipeline_whose_file_is_renamed_waits_for_the_end_of_its_run(folder: Folder) -> None:
    named = SOUND + "pipeline: {name: shop}\n"
    folder.write("a.yaml", named)
    first = folder.kept("shop")
    (folder.folder / "a.yaml").rename(folder.folder / "b.yaml")
    folder.look()
    again = folder.kept("shop")
    assert (first.after, first.closed, again.after) == (None, True, first)
    folder.write("c.yaml", SOUND)
    assert folder.kept("c").after is None


LISTED = "source:\n  type: values\n  rows: []\nsink:\n- {name: lake, type: values}\n- {name: mart, type: values}\n"


def test_each_sink_of_a_list_is_kept_by_itself(folder: Folder) -> None:
    folder.write("shop.yaml", LISTED)
    assert folder.shown() == {"shop/lake": "running", "shop/mart": "running"}
    lake, mart = folder.kept("shop/lake"), folder.kept("shop/mart")
    assert (lake.root, mart.root) == tuple(
        folder.folder / ".cdc" / "shop" / "sinks" / name for name in ("lake", "mart")
    )
    folder.write("shop.yaml", LISTED + "pipeline: {speed: 9}\n")
    assert len(lake.file_errors) == len(mart.file_errors) == 1
    assert sum("pipeline.speed" in line for line in folder.lines) == 1
    folder.write("shop.yaml", LISTED.replace("- {name: lake, type: values}\n", ""))
    assert (lake.closed, mart.closed, mart.file_errors) == (True, False, ())
    assert folder.shown() == {"shop/mart": "running"}


def test_the_progress_of_a_run_with_one_sink_is_not_passed_over_by_a_list(folder: Folder) -> None:
    state = StateDir(folder.folder / ".cdc" / "shop")
    state.open(name="shop", source="values")
    state.store_initial_offset({"line": 0})
    folder.write("shop.yaml", LISTED)
    assert folder.shown() == {"shop/lake": "invalid", "shop/mart": "invalid"}
    assert "of a run with one sink" in folder.server.pipelines.pipeline("shop/lake").file_errors[0]


def test_a_mistake_leaves_what_runs_alone_and_is_shown_until_it_is_mended(folder: Folder) -> None:
    folder.write("a.yaml", SOUND)
    folder.write("a.yaml", SOUND + "pipeline: {speed: 9}\n")
    kept = folder.kept("a")
    assert (len(kept.versions), kept.closed) == (1, False)
    assert "a.yaml:6:12: pipeline.speed: unknown key" in folder.server.pipelines.pipeline("a").file_errors[0]
    assert any("error: " in line and "pipeline.speed" in line for line in folder.lines)
    folder.write("a.yaml", SOUND)
    assert folder.server.pipelines.pipeline("a").file_errors == ()


@pytest.mark.parametrize(
    ("text", "told"), [("source: 1\n", "must be a mapping"), (SOUND + "pipeline: {name: refused}\n", "no room")]
)
def test_a_file_that_cannot_be_kept_is_among_the_pipelines_and_harms_no_other(
    folder: Folder, text: str, told: str
) -> None:
    folder.write("b.yaml", text)
    folder.write("a.yaml", SOUND)
    assert folder.shown() == {"a": "running", "b": "invalid"}
    assert told in str(folder.server.pipelines.pipeline("b").file_errors)
    folder.write("b.yaml", SOUND)
    assert folder.shown() == {"a": "running", "b": "running"}


@pytest.mark.parametrize("action", ["start", "stop", "savepoint", "spec"])
def test_a_request_to_an_invalid_pipeline_says_why_it_is_invalid(folder: Folder, action: str) -> None:
    folder.write("b.yaml", "source: 1\n")
    with pytest.raises(NotNow, match=r"its file is invalid: .*b.yaml:1:9: source: must be a mapping"):
        getattr(folder.server.pipelines, action)("b")
    assert folder.server.pipelines.log("b") == ()
    folder.write("b.yaml", SOUND)
    assert folder.server.pipelines.spec("b").name == "b"


def test_a_name_passes_from_one_file_to_another_and_each_pipeline_is_kept_once(folder: Folder) -> None:
    """In one look, and the file that gets the name comes first in the folder."""
    named = SOUND + "pipeline:\n  name: {}\n"
    folder.write("b.yaml", named.format("shop"))
    first = folder.kept("shop")
    folder.write("a.yaml", named.format("shop"))
    assert folder.shown() == {"shop": "running", "a": "invalid"}
    folder.write("b.yaml", named.format("stock"))
    assert folder.shown() == {"shop": "running", "stock": "running"}
    assert first.closed
    assert folder.kept("shop").after is first
    assert [Path(view.file).name for view in folder.server.pipelines.pipelines()] == ["a.yaml", "b.yaml"]


@pytest.mark.parametrize("looks", [1, 3])
def test_files_that_swap_their_names_get_them_once_the_last_has_asked(folder: Folder, looks: int) -> None:
    names = ["one", "two", "three"]
    for file, name in zip("abc", names, strict=True):
        folder.write(f"{file}.yaml", SOUND + f"pipeline: {{name: {name}}}\n")
    before = {name: folder.kept(name) for name in names}
    for file, name in zip("abc", ["two", "three", "one"], strict=True):
        (folder.folder / f"{file}.yaml").write_text(SOUND + f"pipeline: {{name: {name}}}\n")
        if looks > 1:
            folder.look()
    folder.look()
    assert folder.shown() == dict.fromkeys(names, "running")
    assert {name: Path(folder.kept(name).spec.file).stem for name in names} == {"two": "a", "three": "b", "one": "c"}
    assert all(kept.closed and folder.kept(name).after is kept for name, kept in before.items())
    assert not any(view.file_errors for view in folder.server.pipelines.pipelines())


def test_a_file_that_turns_wrong_keeps_its_name_as_its_version_before_goes_on(folder: Folder) -> None:
    folder.write("shop.yaml", SOUND)
    folder.write("shop.yaml", "source: 1\n")
    folder.write("copy.yaml", SOUND + "pipeline:\n  name: shop\n")
    assert folder.shown() == {"shop": "running", "copy": "invalid"}
    assert not folder.kept("shop").closed


def test_another_name_in_a_file_is_another_pipeline(folder: Folder) -> None:
    folder.write("a.yaml", SOUND)
    kept = folder.kept("a")
    folder.write("a.yaml", SOUND + "pipeline: {name: other}\n")
    assert (kept.closed, folder.shown()) == (True, {"other": "running"})


@pytest.mark.parametrize("ask", [lambda server: server.pipelines.start("x"), lambda server: server.pipelines.log("x")])
def test_a_name_that_is_unknown_is_told_with_those_that_are_not(folder: Folder, ask: Callable[[Server], Any]) -> None:
    folder.write("a.yaml", SOUND)
    with pytest.raises(PipelineUnknown) as caught:
        ask(folder.server)
    assert (caught.value.where, caught.value.hint) == ("x", "there are: a")


def test_a_server_that_is_to_end_while_spark_starts_ends_without_an_error(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signalled(server: Server) -> None:
        server.close()
        raise EngineError("Java has ended")

    monkeypatch.setattr(Server, "_start_spark", signalled)
    folder.write("a.yaml", SOUND)
    folder.server.run()
    assert folder.kept("a").closed
    assert any("warning: ended while Spark was being started: Java has ended" in line for line in folder.lines)


def test_a_savepoint_that_is_refused_ends_no_run(folder: Folder) -> None:
    folder.write("a.yaml", SOUND)
    kept = folder.kept("a")
    with pytest.raises(NotNow, match="has not run yet"):
        folder.server.pipelines.savepoint("a")
    state = StateDir(kept.root)
    state.open(name="a", source="values")
    state.store_initial_offset({"batch": 0})
    CommitLog(state.commits).decide(Decision(0, {"batch": 0}, {"batch": 1}, (), ()))
    CommitLog(state.commits).note_committed(0)
    state.store.write_json("snapshot.json", {"tables": {"a.b": {"state": "copying"}}})
    with pytest.raises(NotNow, match=r"tables are being snapshotted: a\.b"):
        folder.server.pipelines.savepoint("a")
    assert kept.interrupted == 0
    state.store.write_json("snapshot.json", {"tables": {"a.b": {"state": "done"}}})
    assert (folder.server.pipelines.savepoint("a") / "savepoint.json").is_file()
    assert kept.interrupted == 1


@pytest.mark.parametrize("ask", [Pipelines.pause, Pipelines.resume, Pipelines.resync])
def test_what_is_asked_of_a_table_before_the_first_run_comes_too_early(folder: Folder, ask: Callable[..., Any]) -> None:
    """An answer of its own: neither source, sink nor state has failed."""
    folder.write("a.yaml", SOUND)
    folder.kept("a")
    with pytest.raises(NotNow, match="here yet"):
        ask(folder.server.pipelines, "a", "shop.orders")


def test_two_servers_do_not_keep_one_folder(folder: Folder) -> None:
    lock = RunLock(folder.folder / ".cdc")
    lock.acquire()
    try:
        with pytest.raises(StateError, match=r"another server uses this state root \(process .*--state-root"):
            folder.server.run()
    finally:
        lock.release()
    assert folder.shown() == {}


def test_a_folder_that_cannot_be_read_leaves_its_pipelines_alone(folder: Folder, tmp_path: Path) -> None:
    folder.write("a.yaml", SOUND)
    folder.server.pipelines._folder.path = tmp_path / "gone"
    folder.look()
    assert folder.shown() == {"a": "running"}
    assert "cannot be read, its pipelines continue" in folder.lines[-1]
