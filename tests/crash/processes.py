"""The processes of one `cdc run`, found by session: driver, Java, stream reader, Python workers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from cdc_process import CdcRun


def of_run(run: CdcRun, word: str) -> list[int]:
    """Process ids of a run whose command line holds a word, oldest first."""
    return [pid for pid in _session(run.process.pid) if word in _command(pid)]


def left_over(run: CdcRun) -> list[str]:
    """Command lines of what still runs."""
    return [_command(pid)[:200] for pid in _session(run.process.pid)]


def _session(leader: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == leader:
            found.append(int(path.name))
    return sorted(found)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def kill(pid: int) -> None:
    """SIGKILL; a process that is gone already is fine."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
