"""What a measurement starts ends with it, however it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # processes at work, two of them for half a second

BENCH = Path(__file__).parent / "bench"

MEASURES = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without
sys.path.insert(0, sys.argv[1])
from spend import Contained
running = Contained([sys.executable, "-c", sys.argv[3]], Path(sys.argv[2]))
time.sleep(600)
"""

COMMAND = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
"""Ignores signals, and starts a process in a session of its own."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_measurement_that_ends_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MEASURES, BENCH, tmp_path, COMMAND], stderr=subprocess.DEVNULL
    ) as measuring:
        out = tmp_path / "stdout"
        wait_until(lambda: out.exists() and out.read_text().endswith("\n"))
        started = [int(pid) for pid in out.read_text().split()]
        assert all(Path(f"/proc/{pid}").exists() for pid in started)
        measuring.send_signal(number)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


USES = r"""
import signal, subprocess, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
used = "import time\nwhile time.process_time() < 0.5: pass"
subprocess.Popen([sys.executable, "-c", used]).wait()
"""
"""A process whose children nobody waits for, and one that uses half a second of CPU."""


def test_the_time_of_processes_that_nobody_waited_for_is_counted(tmp_path: Path) -> None:
    cost = tmp_path / "cost.json"
    command = [sys.executable, BENCH / "contain.py", cost, sys.executable, "-c", USES]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as counting:
        assert counting.wait(120) == 0
    found = json.loads(cost.read_text())
    assert found["code"] == 0
    assert found["cpu_s"] >= (0.5 if found["counted_by"] == "control group" else 0.3)


def wait_until(over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not over():
        assert time.monotonic() < deadline
        time.sleep(0.02)
