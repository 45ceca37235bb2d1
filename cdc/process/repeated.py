"""Repeated work in a thread while a block runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SAY_EVERY_S = 5.0
"""Seconds between messages about what is waited for, for a person at a terminal."""


@contextmanager
def repeatedly(work: Callable[[float], object], every_s: float, name: str = "long-step") -> Iterator[None]:
    """Call `work` periodically in a thread while the block runs, with the block's duration so far in seconds.

    Ends when `work` returns False. A block shorter than the period makes no call.
    """
    ended, started = threading.Event(), time.monotonic()

    def repeat() -> None:
        while not ended.wait(every_s):
            if work(time.monotonic() - started) is False:
                return

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
