"""Information about other processes of this machine."""

from __future__ import annotations

from pathlib import Path


def start_time(pid: int) -> str:
    """When a process started, in kernel ticks, empty if it has ended. Identifies a process, as pids are reused."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
