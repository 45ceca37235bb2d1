"""`contain.py COST COMMAND...`: run a command, wait for it and for all it leaves behind, write what they cost to COST.

CPU time is what a control group counts (`cpu_group`). Where none can be made it is what this process knows of those it
has waited for, or what it saw of all when it looked, whichever is more: a process whose parent has ended is given to
this one (prctl PR_SET_CHILD_SUBREAPER). `counted_by` says which.
Standard input is a pipe that whoever measures holds open: once that has ended, in whatever way, all of them are killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from cpu_group import CpuGroup, Sampled, look_until
from spend import tree

_LOOK_S = 0.1
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    cost, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    group = CpuGroup()

    def begin() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        group.enter()

    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=begin)
    signal.signal(signal.SIGTERM, lambda received, _: child.send_signal(received))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever measures hears it, too
    over = threading.Event()
    threading.Thread(target=_kill_all_at_the_end_of_input, args=(over,), daemon=True).start()
    sampled = Sampled(os.getpid())
    if group.used_s() is None:
        threading.Thread(target=look_until, args=(over.wait, sampled, _LOOK_S), daemon=True).start()
    code = 0
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            child.returncode = code
    over.set()
    counted_by, cpu_s = "control group", group.used_s()
    group.remove()
    if cpu_s is None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        counted_by, cpu_s = "processes", max(used.ru_utime + used.ru_stime, sampled.used_s())
    Path(cost).write_text(json.dumps({"code": code, "cpu_s": cpu_s, "counted_by": counted_by}))


def _kill_all_at_the_end_of_input(over: threading.Event) -> None:
    """Kill everything below this process until nothing is left of it."""
    while os.read(0, 1):
        pass
    while not over.wait(0.05):
        for pid in tree(os.getpid())[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
