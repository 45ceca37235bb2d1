"""Lines about something that takes long, for as long as it lasts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeatedly(say: Callable[[float], object], every_s: float) -> Iterator[None]:
    """While the block runs, `say` is called each so many seconds with how long the block has taken, in seconds, from a
    thread of its own: nothing is said of a block that is shorter."""
    over, begun = threading.Event(), time.monotonic()

    def repeat() -> None:
        while not over.wait(every_s):
            say(time.monotonic() - begun)

    voice = threading.Thread(target=repeat, name="long-step", daemon=True)
    voice.start()
    try:
        yield
    finally:
        over.set()
        voice.join()
