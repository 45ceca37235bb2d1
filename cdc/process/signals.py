"""SIGINT and SIGTERM, for `cdc run` from the start of the process to its end. Imports very little.

| moment | first signal | second signal |
|---|---|---|
| until the run has looked at its state | the process ends with exit code 0: nothing is under way | |
| while earlier decisions are committed | it goes on while the sink answers, exit code 0 | ends at once, 130 |
| while Java starts | once it is up the run ends, exit code 0 | ends at once, exit code 130 |
| from the query's start on | the running batch is finished, exit code 0 | ends at once, exit code 130 |
| once the run is over | ignored, the process is about to end | |
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM)

ABORTED = 130
"""Exit code after a second signal."""

STOPPED_EARLY = "stopped before anything was read"


def exit_on_signal(arguments: Sequence[str]) -> None:
    """Let a signal end the process with exit code 0 from now on, if these are the arguments of `cdc run`.

    No effect outside the main thread. The run puts handlers of its own in place when it has begun.
    """
    if "run" not in arguments[:1] or threading.current_thread() is not threading.main_thread():
        return
    line = f"cdc: {STOPPED_EARLY}"
    if "json" in arguments or "--log-format=json" in arguments:
        line = json.dumps({"level": "info", "message": STOPPED_EARLY})

    def leave(number: int, frame: FrameType | None) -> None:
        os.write(2, f"{line}\n".encode())
        os._exit(0)

    for number in STOPPING:
        signal.signal(number, leave)


class Signals:
    """The first SIGINT or SIGTERM requests a clean stop, the second one ends the process at once.

    Args:
        stop: set by the first signal.
        drain: requests a stop after everything that the log holds now is committed.
        on_stop: called at the first signal.
    """

    def __init__(
        self,
        stop: threading.Event | None = None,
        drain: threading.Event | None = None,
        on_stop: Callable[[], object] = lambda: None,
    ) -> None:
        self.stop, self.drain, self._on_stop = stop or threading.Event(), drain or threading.Event(), on_stop

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.stop.is_set():
            os._exit(ABORTED)
        self.stop.set()
        self._on_stop()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install the handler while the block runs; no effect outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in STOPPING}
        self.install()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def install(self) -> None:
        """Install the handlers. Main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                signal.signal(number, self.handle)


def ignore() -> None:
    """Ignore signals from now on, as the process is about to exit with its exit code. Main thread only."""
    if threading.current_thread() is threading.main_thread() and "pyspark" in sys.modules:
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
