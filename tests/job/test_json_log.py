"""Whatever others print becomes log lines: child processes, warnings, threads that fail."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings

import pytest

from cdc.job.json_log import JsonLog


class Lines:
    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self.more = threading.Condition()

    def __call__(self, message: str, level: str = "info") -> None:
        with self.more:
            self.found.append((level, message))
            self.more.notify_all()

    def wait(self, count: int) -> list[tuple[str, str]]:
        with self.more:
            assert self.more.wait_for(lambda: len(self.found) >= count, 60), self.found
            return sorted(self.found)


def shout() -> None:
    script = "import sys, os; os.write(1, b'out\\n\\n'); os.write(2, b'err \\xff\\nno end')"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_child_processes_print_becomes_lines(capfd: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    log = JsonLog(lines, enabled=True)
    with log.of_python():
        with log.of_children():
            shout()
        assert lines.wait(3) == [("warning", "err �"), ("warning", "no end"), ("warning", "out")]
        print("our own")
    assert capfd.readouterr() == ("our own\n", "")


def test_nothing_is_touched_when_it_is_not_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    log = JsonLog(lines, enabled=False)
    with log.of_python(), log.of_children():
        shout()
    assert capfd.readouterr().out == "out\n\n"
    assert lines.found == []


def test_warnings_and_failing_threads_become_lines(capfd: pytest.CaptureFixture[str]) -> None:
    lines = Lines()

    def fail() -> None:
        raise ValueError("no luck")

    with JsonLog(lines, enabled=True).of_python():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        print("half a", file=sys.stderr, end=" ")
        print("line\n\nmore", file=sys.stderr)
    found = lines.wait(4)
    assert [entry for entry in found if "no luck" not in entry[1]] == [
        ("warning", "DeprecationWarning: old"), ("warning", "half a line"), ("warning", "more"),
    ]  # fmt: skip
    assert any(level == "error" and "Traceback" in text and "no luck" in text for level, text in found)
    assert capfd.readouterr().err == ""
