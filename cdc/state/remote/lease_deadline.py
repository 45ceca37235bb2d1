"""Until when a run may trust that nobody else has its lease: in the working copy, by the machine's monotonic clock."""

from __future__ import annotations

import os
import time
from pathlib import Path

from cdc.errors import StateUnavailable
from cdc.state.durable import private, state_error

_FILE = ".store/held"


def note_lease_until(copy: Path, until_s: float) -> None:
    """Nobody else has it before then. Driver, with each sign of life. Raises StateError."""
    path = copy / _FILE
    temporary = path.with_name(".held.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", opener=private) as file:
            file.write(repr(until_s))
        os.replace(temporary, path)
    except OSError as error:
        raise state_error(path, error) from error


def check_lease(copy: Path) -> None:
    """Raise StateUnavailable when the time is over: what a sink is asked now may be in the way of another run."""
    path = copy / _FILE
    try:
        late_s = time.monotonic() - float(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise state_error(path, error, "read") from error
    if late_s > 0:
        hint = "check the store and the network; the run continues once it has renewed it"
        raise StateUnavailable(f"the lease on the state ended {late_s:.0f} s ago", where=str(copy), hint=hint)
