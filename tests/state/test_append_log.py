"""The file of JSON lines: threads that share it, torn lines, and files that are shorter than what was read."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cdc.errors import StateError
from cdc.state.append_log import AppendLog


def test_threads_that_share_the_object_leave_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread's look at the file must not come between another's look and its append: a second thread is held at
    the moment where it has read the new line but not yet counted it."""
    lines = AppendLog(tmp_path / "x.jsonl", "lines")
    lines.append({"n": 0})
    reading, read = threading.Event(), threading.Event()
    parsed = AppendLog._parse

    def slow(self: AppendLog, line: bytes, number: int) -> dict[str, object]:
        found = parsed(self, line, number)
        if threading.current_thread().name == "status" and b'"n":1' in line:
            reading.set()
            read.wait(1.0)
        return found

    monkeypatch.setattr(AppendLog, "_parse", slow)
    AppendLog(lines.path, "lines").append({"n": 1})
    status = threading.Thread(target=lambda: len(lines), name="status")
    status.start()
    assert reading.wait(60)
    batches = threading.Thread(target=lambda: lines.append({"n": 2}))
    batches.start()
    batches.join(0.3)
    read.set()
    status.join(60)
    batches.join(60)
    lines.append({"n": 3})
    fresh = AppendLog(lines.path, "lines")
    assert [item["n"] for item in fresh.items(0)] == [0, 1, 2, 3]
    assert b"\0" not in lines.path.read_bytes()


def test_a_torn_last_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    AppendLog(path, "lines").append({"n": 0})
    with path.open("ab") as file:
        file.write(b'{"n": 1')
    lines = AppendLog(path, "lines")
    assert len(lines) == 1
    lines.append({"n": 2})
    assert [json.loads(line) for line in path.read_text().splitlines()[1:]] == [{"n": 0}, {"n": 2}]


def test_a_file_that_lost_its_end_is_not_filled_up(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = AppendLog(path, "lines")
    lines.append({"n": 0}, {"n": 1})
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 8)
    with pytest.raises(StateError, match="lines"):
        lines.append({"n": 2})
    assert b"\0" not in path.read_bytes()


def test_two_writers_wait_for_each_other_and_see_a_cut(tmp_path: Path) -> None:
    first, second = AppendLog(tmp_path / "x.jsonl", "lines"), AppendLog(tmp_path / "x.jsonl", "lines")
    first.append({"n": 0}, {"n": 1})
    assert second.append({"n": 2}) == 3
    first.truncate(1)
    assert second.append({"n": 3}) == 2
    assert [item["n"] for item in first.items()] == [0, 3]
    assert first.generation == second.generation == 2


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "x.jsonl", "watermarks")
    log.append({"n": 0})
    program = (
        "import resource, sys; from pathlib import Path; from cdc.state.append_log import AppendLog\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "log = AppendLog(Path(sys.argv[1]), 'watermarks')\n"
        "try:\n    log.append({'n': 'x' * 8000})\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
        "print(log.append({'n': 1}))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(log.path)], capture_output=True, text=True, check=True)
    said, count = done.stdout.splitlines()
    assert said.startswith(f"StateError {log.path}: the watermarks cannot be written: File too large (raise")
    assert (count, [item["n"] for item in log.items()]) == ("2", [0, 1])


def test_another_content_is_refused(tmp_path: Path) -> None:
    AppendLog(tmp_path / "x.jsonl", "lines").append({"n": 0})
    with pytest.raises(StateError, match=r"the schema history is damaged: its first line does not name a format"):
        len(AppendLog(tmp_path / "x.jsonl", "schema history", {"schema_history": 1}))
