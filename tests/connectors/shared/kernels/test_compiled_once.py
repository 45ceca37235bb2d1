"""Kernels that several processes need at the same moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = """
from pathlib import Path

from connectors.shared.kernels import Kernels

kernel = Kernels(Path(__file__).parent, "trial")


@kernel
def inner(number):
    return number + 1


@kernel
def outer(number):
    found = 0
    for step in range(number):
        found += inner(step) if step % 2 else down(step)
    return found


@kernel
def down(number):
    return 0 if number <= 0 else down(number - 1) + 1
"""
PROCESS = """
import sys

import trial_kernels

print("ready", flush=True)
sys.stdin.readline()
assert trial_kernels.outer(4) == 8
kernels = (trial_kernels.inner, trial_kernels.outer, trial_kernels.down)
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
"""


@pytest.mark.slow
def test_a_kernel_that_processes_need_at_once_is_compiled_by_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "trial_kernels.py").write_text(PACKAGE)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": path}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    compiled = [int(process.communicate(timeout=120)[0]) for process in processes]
    assert sum(compiled) == 3
