"""Damaged events and results give errors, never reads or writes outside their buffers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_HERE = Path(__file__).parents[1]
_ROOT = _HERE.parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "seed", "rounds"),
    [("fuzz_rows.py", 1, 500), ("snapshot/read/fuzz_results.py", 1, 20), ("snapshot/read/fuzz_results.py", 2, 1500)],
)
def test_what_is_damaged_between_guard_pages(script: str, seed: int, rounds: int) -> None:
    run = subprocess.run(
        [sys.executable, str(_HERE / script), str(seed), str(rounds)],
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
