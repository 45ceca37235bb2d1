"""The file of JSON lines: threads that share it, torn lines, and files that are shorter than what was read."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from cdc.errors import StateError
from connectors.mysql.snapshot.lines import JsonLines


def test_threads_that_share_the_object_leave_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread's look at the file must not come between another's look and its append: a second thread is held at
    the moment where it has read the new line but not yet counted it."""
    lines = JsonLines(tmp_path / "x.jsonl", "lines")
    lines.append({"n": 0})
    reading, read = threading.Event(), threading.Event()
    parsed = JsonLines._parsed

    def slow(self: JsonLines, line: bytes) -> dict[str, object]:
        found = parsed(self, line)
        if threading.current_thread().name == "status" and b'"n":1' in line:
            reading.set()
            read.wait(1.0)
        return found

    monkeypatch.setattr(JsonLines, "_parsed", slow)
    JsonLines(lines.path, "lines").append({"n": 1})
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
    fresh = JsonLines(lines.path, "lines")
    assert [item["n"] for item in fresh.items(0)] == [0, 1, 2, 3]
    assert b"\0" not in lines.path.read_bytes()


def test_a_torn_last_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    JsonLines(path, "lines").append({"n": 0})
    with path.open("ab") as file:
        file.write(b'{"n": 1')
    lines = JsonLines(path, "lines")
    assert len(lines) == 1
    lines.append({"n": 2})
    assert [json.loads(line) for line in path.read_text().splitlines()[1:]] == [{"n": 0}, {"n": 2}]


def test_a_file_that_lost_its_end_is_not_filled_up(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = JsonLines(path, "lines")
    lines.append({"n": 0}, {"n": 1})
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 8)
    with pytest.raises(StateError, match="lines"):
        lines.append({"n": 2})
    assert b"\0" not in path.read_bytes()
