"""The files of a folder, what is kept of runs, and logs of bounded size."""

from __future__ import annotations

import errno
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from together import together

from cdc.errors import StateError
from cdc.serve.control import ErrorView, LogLine, RunView
from cdc.serve.folder import Folder
from cdc.serve.history import RunHistory
from cdc.serve.log_file import RunLog, read_log

SOUND = "source:\n  type: values\n  rows: []\nsink:\n  type: values\n"


def test_files_are_read_when_they_are_new_or_have_changed_and_told_when_they_are_gone(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "a.test.yaml", ".c.yaml", "notes.txt"):
        (tmp_path / name).write_text(SOUND)
    (tmp_path / "folder.yaml").mkdir()
    folder = Folder(tmp_path)
    assert [version.spec.name for version in folder.scan().read if version.spec] == ["a", "b"]
    assert folder.scan().read == ()
    (tmp_path / "b.yaml").write_text("source: 1\n")
    (tmp_path / "a.yml").unlink()
    found = folder.scan()
    assert found.deleted == (tmp_path / "a.yml",)
    assert [version.spec for version in found.read] == [None]
    assert any("b.yaml:1:9: source: must be a mapping" in problem for problem in found.read[0].problems)


def test_a_file_is_read_again_when_a_file_that_it_takes_a_value_from_has_changed(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SOUND + "  path: out.${file:secret}\n")
    folder = Folder(tmp_path)
    assert [version.spec for version in folder.scan().read] == [None]
    for text in ("one", "two\n"):
        (tmp_path / "secret").write_text(text)
        (spec,) = (version.spec for version in folder.scan().read)
        assert spec is not None
        assert Path(spec.sink.model_dump()["path"]).suffix == f".{text.strip()}"
        assert folder.scan().read == ()


LISTED = "source:\n  type: values\n  rows: []\nsink:\n"


def listed(*names: str) -> str:
    return LISTED + "".join(f"- name: {name}\n  type: values\n" for name in names)


def test_a_file_with_a_list_is_a_pipeline_for_each_of_its_sinks(tmp_path: Path) -> None:
    file, folder = tmp_path / "shop.yaml", Folder(tmp_path)
    file.write_text(listed("lake", "mart"))
    read = folder.scan().read
    assert [version.spec.label for version in read if version.spec] == ["shop/lake", "shop/mart"]
    assert [version.key for version in read] == [file / "lake", file / "mart"]
    assert folder.scan().read == ()
    file.write_text(listed("mart", "search"))
    found = folder.scan()
    assert found.deleted == (file / "lake",)
    assert [(version.sink, version.problems) for version in found.read] == [("mart", ()), ("search", ())]
    file.write_text("source: 1\n")
    found = folder.scan()
    assert found.deleted == ()
    assert [(version.sink, version.spec) for version in found.read] == [("mart", None), ("search", None)]
    file.unlink()
    assert folder.scan().deleted == (file / "mart", file / "search")


def test_a_list_in_the_place_of_one_sink_is_another_pipeline(tmp_path: Path) -> None:
    file, folder = tmp_path / "shop.yaml", Folder(tmp_path)
    file.write_text(SOUND)
    folder.scan()
    file.write_text(listed("lake"))
    found = folder.scan()
    assert found.deleted == (file,)
    assert [version.key for version in found.read] == [file / "lake"]


def test_the_sinks_of_two_files_of_one_name_would_share_a_folder(tmp_path: Path) -> None:
    for name, text in (("a", listed("lake", "mart")), ("b", SOUND)):
        (tmp_path / f"{name}.yaml").write_text(text + "pipeline:\n  name: shop\n")
    read = Folder(tmp_path).scan().read
    assert [(version.sink, version.refused) for version in read] == [("lake", False), ("mart", False), ("", True)]
    assert "its name shop and that of" in read[-1].problems[0]


def test_a_second_file_of_one_name_is_refused_as_they_would_share_their_state(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(SOUND + "pipeline:\n  name: shop\n")
    first, second = Folder(tmp_path).scan().read
    assert (first.refused, second.refused) == (False, True)
    assert "its name shop is that of" in second.problems[0]


def test_two_names_that_make_one_folder_are_refused_as_they_would_share_their_state(tmp_path: Path) -> None:
    for file, name in (("a", "shop 1"), ("b", "shop-1")):
        (tmp_path / f"{file}.yaml").write_text(SOUND + f"pipeline:\n  name: {name}\n")
    first, second = Folder(tmp_path).scan().read
    assert (first.refused, second.refused) == (False, True)
    assert "its name shop-1 and that of" in second.problems[0]


def test_a_file_that_was_refused_is_read_once_the_other_one_is_gone(tmp_path: Path) -> None:
    """As a file that is moved by making a copy, with a look in between."""
    (tmp_path / "old.yaml").write_text(SOUND + "pipeline:\n  name: shop\n")
    folder = Folder(tmp_path)
    folder.scan()
    (tmp_path / "new.yaml").write_text(SOUND + "pipeline:\n  name: shop\n")
    assert [version.refused for version in folder.scan().read] == [True]
    assert folder.scan().read == ()
    (tmp_path / "old.yaml").unlink()
    found = folder.scan()
    assert (found.deleted, [version.file.name for version in found.read]) == ((tmp_path / "old.yaml",), ["new.yaml"])
    assert not found.read[0].refused


def test_of_two_files_of_one_name_that_goes_on_which_ran_last_else_that_of_the_name(tmp_path: Path) -> None:
    for name in ("a", "shop", "z"):
        (tmp_path / f"{name}.yaml").write_text(SOUND + "pipeline:\n  name: shop\n")
    used = {version.file.stem for version in Folder(tmp_path).scan().read if not version.refused}
    assert used == {"shop"}
    ran = {"shop": str(tmp_path / "z.yaml")}
    used = {
        version.file.stem for version in Folder(tmp_path, lambda folder: ran[folder]).scan().read if not version.refused
    }
    assert used == {"z"}


def test_a_name_that_is_no_utf_8_is_refused_and_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "p\udcff.yaml").write_text(SOUND)
    (found,) = Folder(tmp_path).scan().read
    shown = found.invalid()
    assert (shown.name, shown.file) == ("p\\udcff", f"{tmp_path}/p\\udcff.yaml")
    assert shown.file_errors == (f"{shown.file}: its name is not UTF-8 (rename it)",)


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("gone.yaml")
    folder = Folder(tmp_path)
    assert "a.yaml: cannot be read: No such file" in folder.scan().read[0].problems[0]
    assert folder.scan().read == ()
    (tmp_path / "gone.yaml").write_text(SOUND)
    assert [version.file.name for version in folder.scan().read if not version.problems] == ["a.yaml", "gone.yaml"]


def test_runs_and_the_wish_to_hold_are_kept_and_bounded(tmp_path: Path) -> None:
    error = ErrorView("SinkError", "no", "t", "look", 5.0, False)
    history = RunHistory(tmp_path, most=3)
    for number in range(5):
        history.add(RunView(float(number), number + 0.5, "failed", "start", rows=number, error=error))
    history.set_stopped(True)
    again = RunHistory(tmp_path)
    assert [run.rows for run in again.runs()] == [4, 3, 2]
    assert (again.runs()[0].error, again.stopped, again.last_begun_s()) == (error, True, 4.0)
    again.add(RunView(9.0, 9.0, "skipped", "schedule"))
    assert again.last_begun_s() == 4.0


def test_a_log_is_kept_in_two_files_of_bounded_size(tmp_path: Path) -> None:
    worrying: list[LogLine] = []
    log = RunLog(tmp_path, worrying.append, largest=1_000)
    for number in range(40):
        line = {"time": "2026-01-01T00:00:00.000+00:00", "level": "info", "message": "said", "number": number}
        log.write(json.dumps(line) + "\n")
    log.write("half a ")
    log.write("line\n" + json.dumps({"time": "2026-01-01T00:00:00+00:00", "level": "error", "message": "bad"}) + "\n")
    assert [line.message for line in worrying] == ["bad"]
    assert [line.message for line in log.last(3)] == ["said", "half a line", "bad"]
    log.close()
    assert log.write("a thread of the run that ends later\n") > 0
    assert [line.message for line in log.last(1)] == ["bad"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.log", "run.log.1"]
    assert all(path.stat().st_size <= 1_000 for path in tmp_path.iterdir())
    kept = read_log(tmp_path, 100)
    assert [line.fields["number"] for line in kept[:-2]] == list(range(42 - len(kept), 40))
    assert read_log(tmp_path / "none", 5) == []
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"file/run\.log\.1: cannot read the state: Not a directory"):
        read_log(tmp_path / "file", 5)


@together("name", ["lock", "Savepoints", "serve.json", "..", ".lock."])
def test_a_name_whose_folder_is_a_file_of_the_state_root_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.yaml").write_text(SOUND + f"pipeline:\n  name: '{name}'\n")
    (found,) = Folder(tmp_path).scan().read
    assert found.spec is None
    assert "give it another pipeline.name" in found.problems[0]


def test_a_log_on_a_full_disk_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    worrying: list[LogLine] = []
    log = RunLog(tmp_path, worrying.append)

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Full(tmp_path / "full", "w") as full:
        sound, log._file = log._file, full
        log.write("one\ntwo\n")
        log.write("three\n")
    assert [line.message for line in worrying] == [f"lines of {tmp_path / 'run.log'} are lost: No space left on device"]
    assert [line.message for line in log.last(9)] == ["one", "two", "three"]
    log._file = sound
    log.write("four\n")
    log.close()
    assert [line.message for line in read_log(tmp_path, 9)] == ["four"]


def test_a_line_of_which_the_disk_takes_a_part_is_told_as_lost_and_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [1000]

    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            written = super().write(data[: room[0]])
            room[0] -= written
            return written

    monkeypatch.setattr(RunLog, "_open", lambda log: Full(tmp_path / "run.log", "a"))
    told = list[LogLine]()
    log = RunLog(tmp_path, told.append)
    for number in range(40):
        room[0] = 1000 if number == 30 else room[0]
        line = {"time": "2026-01-01T00:00:00+00:00", "level": "info", "message": f"line {number}"}
        log.write(json.dumps(line) + "\n")
    log.close()
    messages = [line.message for line in read_log(tmp_path, 100)]
    assert all(re.fullmatch(r"line \d+", message) for message in messages)
    assert messages[-10:] == [f"line {number}" for number in range(30, 40)]
    assert [line.message.partition(" are lost")[0] for line in told] == [f"lines of {tmp_path / 'run.log'}"]
