"""Runs that take only what other programs leave of the machine."""

from __future__ import annotations

import os


def give_way() -> None:
    """Put this process at idle priority, and so every process and thread that it starts from here on.

    Linux: the scheduling policy SCHED_IDLE (sched(7)), which needs no privilege and cannot be taken back without one.
    Elsewhere: the lowest niceness.
    """
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(19)
