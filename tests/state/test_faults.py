"""Crash points: silent unless asked for, deadly when reached."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from cdc.process.faults import POINTS, crash_point


def exit_code(wanted: str, point: str, batch: int) -> int:
    program = f"from cdc.process.faults import crash_point; crash_point({point!r}, {batch})"
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, "CDC_CRASH_AT": wanted}).returncode


def test_nothing_happens_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDC_CRASH_AT", raising=False)
    for point in POINTS:
        crash_point(point, 0)


def test_only_the_point_and_batch_asked_for_kill() -> None:
    assert exit_code("after-decide:3", "after-decide", 3) == -signal.SIGKILL
    assert exit_code("after-decide", "after-decide", 7) == -signal.SIGKILL
    assert exit_code("after-decide:3", "after-decide", 2) == 0
    assert exit_code("after-decide:3", "mid-commit", 3) == 0
