"""Damaged events give errors, never reads or writes outside their buffers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[4]


@pytest.mark.slow
def test_damaged_events_between_guard_pages() -> None:
    rounds = 500
    script = Path(__file__).parents[1] / "fuzz_rows.py"
    run = subprocess.run(
        [sys.executable, str(script), "1", str(rounds)],
        cwd=_ROOT,
        env={"PYTHONPATH": str(_ROOT), "PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    results = json.loads(run.stdout)
    assert sum(results.values()) == rounds
    assert results["rows"] > rounds // 20
    assert results["CorruptLog"] > rounds // 20
