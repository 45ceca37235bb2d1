"""`contain.py COST COMMAND...`: run a command, wait for it and for all it leaves behind, write what they cost to COST.

A process whose parent has ended is given to this one (prctl PR_SET_CHILD_SUBREAPER), so that its CPU time is counted.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    cost, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(command, preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: child.send_signal(received))
    code = 0
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            child.returncode = code
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(cost).write_text(json.dumps({"code": code, "cpu_s": used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main()
