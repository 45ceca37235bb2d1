"""Other processes of this machine."""

from __future__ import annotations

from pathlib import Path


def start_time(pid: int) -> str:
    """When a process started, in kernel ticks, empty when it is gone: a pid alone may have been given to another."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
