"""Damaged results give errors, never reads or writes outside their buffers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[5]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "rounds"), [(1, 20), (2, 1500)])
def test_damaged_rows_between_guard_pages(seed: int, rounds: int) -> None:
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("fuzz_results.py")), str(seed), str(rounds)],
        cwd=_ROOT,
        env={"PYTHONPATH": str(_ROOT), "PATH": "/usr/bin:/bin", "PYTHONFAULTHANDLER": "1"},
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
