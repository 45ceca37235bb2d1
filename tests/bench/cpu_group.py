"""The CPU time of a command and of everything it starts, as a control group of Linux counts it (cgroups(7)).

What a parent knows of its ended children lacks those of a process that ignores SIGCHLD: nobody waits for them.
PySpark's daemon does, so a Python worker that ends before it is in no sum.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from spend import TICKS, stat_fields, tree

_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
"""Where the second version of control groups is found, alone or beside the first."""


class CpuGroup:
    """A group for the descendants of this process; `enter` is for a process that is about to become the command.

    Where none can be made, without rights of root, `used_s` is None.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        for root in _ROOTS:
            if not (root / "cgroup.controllers").exists():
                continue
            folder = root / f"cdc-bench-{os.getpid()}"
            with contextlib.suppress(OSError):
                folder.mkdir()
                self._folder = folder
                return

    def enter(self) -> None:
        """Put the process that calls this, and all it starts from then on, into the group."""
        if self._folder is not None:
            (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def used_s(self) -> float | None:
        """User and system time of all that were ever in the group."""
        if self._folder is None:
            return None
        lines = (line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return int(dict(lines)["usage_usec"]) / 1e6

    def remove(self) -> None:
        """Remove the group, in which no process is left."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.rmdir()


class Sampled:
    """The same without a group, from looks at the processes: short of what each used since it was last looked at."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[tuple[int, str], float] = {}

    def look(self) -> None:
        """Call it often."""
        for pid in tree(self._root)[1:]:
            fields = stat_fields(pid)
            if fields:
                own = sum(int(value) for value in fields[11:13]) / TICKS
                self._seen[pid, fields[19]] = own  # with the time it started at: numbers are given again

    def used_s(self) -> float:
        """User and system time seen so far."""
        return sum(self._seen.values())


def look_until(over: Callable[[float], bool], sampled: Sampled, every_s: float) -> None:
    """Look again and again; `over` waits so long and says whether it was enough."""
    while not over(every_s):
        sampled.look()
