"""The end of the terminal of a run: it stops as at Ctrl-C, and output that nobody can see any more is no error."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

_EARLY = """
from cdc.process.signals import exit_on_signal
exit_on_signal(["run"])
"""
_RUNNING = """
import os
from cdc.process.signals import Signals
signals = Signals(on_stop=lambda: os.write(1, b"stopping"))
signals.install()
"""
_ENDS = """
import os, signal, threading
print("ready", flush=True)
(signals.stop if "signals" in globals() else threading.Event()).wait(60)
os.kill(os.getpid(), signal.SIGHUP)  # the shell and the system may both send it
print("the summary", flush=True)
open("ended", "w").close()
"""


def _in_a_terminal(program: str, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The program in a terminal of its own, when it is ready, and the other end of the terminal."""
    master, slave = pty.openpty()

    def lead() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under `nohup`
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, cwd=folder, stdin=slave, stdout=slave, stderr=slave, preexec_fn=lead)
    os.close(slave)
    assert os.read(master, 100).strip() == b"ready"
    return process, master


def test_a_run_goes_on_to_the_end_of_its_batch_and_its_summary(tmp_path: Path) -> None:
    process, master = _in_a_terminal(_RUNNING + _ENDS, tmp_path)
    os.close(master)
    assert process.wait(60) == 0
    assert (tmp_path / "ended").exists()


def test_a_run_that_has_not_begun_ends_well(tmp_path: Path) -> None:
    process, master = _in_a_terminal(_EARLY + _ENDS, tmp_path)
    os.close(master)
    assert process.wait(60) == 0
    assert not (tmp_path / "ended").exists()


@pytest.mark.parametrize("begun", [_EARLY, _RUNNING])
def test_nohup_is_respected(begun: str) -> None:
    program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + begun
    program += "assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN"
    subprocess.run([sys.executable, "-c", program], check=True)
