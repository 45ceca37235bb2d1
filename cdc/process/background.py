"""Low-priority runs, which use only idle resources of the machine."""

from __future__ import annotations

import os

from cdc.errors import EngineError


def lower_priority() -> None:
    """Give this process idle priority, which processes and threads that it starts inherit.

    Linux: the scheduling policy SCHED_IDLE (sched(7)), which needs no privilege and cannot be taken back without one.
    Elsewhere: the lowest niceness. Raises EngineError where neither is allowed.
    """
    try:
        if hasattr(os, "SCHED_IDLE"):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.nice(19)
    except OSError as error:
        hint = "leave --background out, and limit the run from outside"
        raise EngineError(f"cannot go to idle priority: {error.strerror}", hint=hint) from error
