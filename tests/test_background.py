"""Runs that give way to others."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from command_runner import CliRunner
from together import together

from cdc import cli
from cdc.errors import EngineError
from cdc.job.run_settings import Mode
from cdc.process.background import lower_priority

_PROGRAM = """
import os, subprocess, sys, threading
from cdc.process.background import lower_priority
lower_priority()
show = "import os; print(os.sched_getscheduler(0))"
thread = threading.Thread(target=lambda: print(os.sched_getscheduler(0), flush=True))
thread.start()
thread.join()
subprocess.run([sys.executable, "-c", show], check=True)
"""


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="this system has no idle priority, niceness is used")
def test_threads_and_processes_started_later_are_at_idle_priority() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(os.SCHED_IDLE)] * 2


@pytest.mark.parametrize("flags", [[], ["--background"]])
def test_a_run_gives_way_when_asked(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr("cdc.cli.runs.lower_priority", lambda: asked.append(True))
    CliRunner().invoke(cli.app, ["run", "missing.yaml", *flags])
    assert asked == [True] * len(flags)


@together(
    "background, asked, cores, tasks",
    [(False, None, 4, 4), (True, None, 4, 2), (True, None, 1, 1), (True, 3, 4, 3), (False, 3, 4, 3)],
)
def test_a_run_in_the_background_reads_with_half_the_cores(
    background: bool, asked: int | None, cores: int, tasks: int
) -> None:
    spec: Any = SimpleNamespace(pipeline=SimpleNamespace(parallelism=asked))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=cores))
    assert Mode("local[*]", until_caught_up=False, background=background).parallelism(spec, spark) == tasks


def test_where_it_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse, raising=False)
    monkeypatch.setattr(os, "SCHED_IDLE", 5, raising=False)
    with pytest.raises(EngineError, match=r"cannot go to idle priority: Operation not permitted .*--background"):
        lower_priority()
