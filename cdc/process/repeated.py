"""Work that is done again and again beside a block, for as long as the block lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SAY_EVERY_S = 5.0
"""How often it is said what is waited for, to somebody at a terminal."""


@contextmanager
def repeatedly(work: Callable[[float], object], every_s: float, name: str = "long-step") -> Iterator[None]:
    """While the block runs, `work` is called each so many seconds with how long the block has taken, in seconds, from a
    thread of its own, until it returns False; not at all for a block that is shorter."""
    ended, begun = threading.Event(), time.monotonic()

    def repeat() -> None:
        while not ended.wait(every_s):
            if work(time.monotonic() - begun) is False:
                return

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
