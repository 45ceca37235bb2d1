"""Crash points for fault-injection tests: the process kills itself at the point named in the environment.

`CDC_CRASH_AT=after-decide:3` kills the process with SIGKILL when batch 3 reaches `after-decide`; without a number, at
the first batch that gets there. Points, in order: before-apply, mid-apply (inside the sink's transaction),
before-prepare, in-prepare (executor), after-prepare, after-decide, mid-commit (inside the sink's transaction),
after-commit. An executor that snapshots a table also has before-chunk, in-chunk and after-chunk, with the number of the
chunk. Unset, as always outside tests, a point costs one dictionary look-up.

Tests that want to lose less than a process set `hook`: it is called at every point, in the thread that gets there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS = (
    "before-apply", "mid-apply", "before-prepare", "in-prepare", "after-prepare", "after-decide", "mid-commit",
    "after-commit",
)  # fmt: skip

hook: Callable[[str, int], None] | None = None
"""Called with point and batch; None outside tests. Its exceptions are raised by the point."""


def crash_point(point: str, batch: int) -> None:
    """Kill the process here if `CDC_CRASH_AT` says so. Driver and executors."""
    if hook is not None:
        hook(point, batch)
    chosen = os.environ.get("CDC_CRASH_AT")
    if chosen is None:
        return
    name, _, number = chosen.partition(":")
    if name == point and (not number or int(number) == batch):
        os.kill(os.getpid(), signal.SIGKILL)
