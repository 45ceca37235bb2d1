"""Kernels that several processes need at the same moment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from numba import config

from connectors.shared.kernels import Kernels

PACKAGE = """
from pathlib import Path

from connectors.shared.kernels import Kernels

kernel = Kernels(Path(__file__).parent, "trial")


@kernel.entry
def inner(number):
    return number + 1


@kernel.entry
def outer(number):
    found = 0
    for step in range(number):
        found += inner(step) if step % 2 else down(step)
    return found


@kernel.entry
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
    compiled = [int(process.communicate(timeout=300)[0]) for process in processes]
    assert sum(compiled) == 3


@pytest.fixture(scope="module", autouse=True)
def settings_as_before() -> Iterator[None]:
    """Numba takes a changed environment over when it compiles next, in whichever test: it is told of the end."""
    yield
    config.reload_config()


def test_kernels_are_kept_for_this_user_alone_where_there_is_no_home_to_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/none")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = tmp_path / f"cdc-kernels-{os.getuid()}"

    def declared() -> Callable[[int], int]:
        return Kernels(tmp_path, "trial").entry(lambda number: number + 1)

    assert declared()(1) == 2
    assert list(own.rglob("*.nbc"))
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)  # anybody may have put code there
    assert declared()(2) == 3
    own.rename(tmp_path / "aside")
    own.symlink_to(tmp_path / "aside")
    assert declared()(3) == 4
    assert len(list(tmp_path.rglob("*.nbc"))) == 1


def test_kernels_are_compiled_where_the_cache_refuses_or_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that crashed leaves files that are cut off; a folder may be gone, or on a disk that is full."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    kernel = Kernels(tmp_path, "trial").entry

    def plus(number: int) -> int:
        return number + 1

    assert kernel(plus)(1) == 2
    (index,) = tmp_path.rglob("*.nbi")
    index.write_bytes(b"")
    assert kernel(plus)(2) == 3
    assert index.read_bytes()
    before_it_went = kernel(plus)
    (tmp_path / "cache").rename(tmp_path / "aside")
    (tmp_path / "cache").touch()
    assert before_it_went(3) == 4
    assert kernel(plus)(4) == 5
