"""The time until which a run may trust that nobody else has its lease, by a clock of the machine.

It is a file of the working copy.
"""

from __future__ import annotations

import time
from pathlib import Path

from cdc.errors import StateUnavailable
from cdc.state.durable import replace_file, state_error

_FILE = ".store/held"


def now_s() -> float:
    """The time in seconds, by a clock that also goes on while the machine is suspended, where the system has one.

    Linux's monotonic clock stands still then: a run that woke up trusted a lease that another run had by now.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def note_lease_until(copy: Path, until_s: float) -> None:
    """Note that nobody else has the lease before then, by `now_s`. Driver, with each renewal. Raises StateError."""
    path = copy / _FILE
    try:
        replace_file(path, repr(until_s).encode())
    except OSError as error:
        raise state_error(path, error) from error


def check_lease(copy: Path) -> None:
    """Raise StateUnavailable when the time is over: another run may use the sink now."""
    path = copy / _FILE
    try:
        late_s = now_s() - float(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise state_error(path, error, "read") from error
    if late_s > 0:
        hint = "check the store and the network; the run continues once it has renewed it"
        raise StateUnavailable(f"the lease on the state ended {late_s:.0f} s ago", where=str(copy), hint=hint)
