"""SIGINT, SIGTERM and SIGHUP, for `cdc run` from the start of the process to its end. Imports very little.

| moment | first signal | second signal |
|---|---|---|
| until the run has looked at its state | the process ends with exit code 0: nothing is under way | |
| while earlier decisions are committed | it goes on while the sink answers, exit code 0 | ends at once, 130 |
| while Java starts | once it is up the run ends, exit code 0 | ends at once, exit code 130 |
| from the query's start on | the running batch is finished, exit code 0 | ends at once, exit code 130 |
| once the run is over | ignored, the process is about to end | |

SIGHUP, which the end of a terminal or of its connection sends, is a first signal, never a second one: the shell and the
system may both send it. A process that was started with SIGHUP ignored, as by `nohup`, goes on ignoring it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

_HANGUP_IGNORED = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
STOPPING = (signal.SIGINT, signal.SIGTERM, *(() if _HANGUP_IGNORED else (signal.SIGHUP,)))

ABORTED = 130
"""Exit code after a second signal."""

STOPPED_EARLY = "stopped before anything was read"


def exit_on_signal(arguments: Sequence[str]) -> None:
    """Let a signal end the process with exit code 0 from now on, if these are the arguments of `cdc run` or `serve`.

    No effect outside the main thread. The run puts handlers of its own in place when it has begun.
    """
    if not {"run", "serve"}.intersection(arguments[:1]) or threading.current_thread() is not threading.main_thread():
        return
    line = f"cdc: {STOPPED_EARLY}"
    if "json" in arguments or "--log-format=json" in arguments:
        line = json.dumps({"level": "info", "message": STOPPED_EARLY})

    def leave(number: int, frame: FrameType | None) -> None:
        _leave_closed_terminal()
        os.write(2, f"{line}\n".encode())
        os._exit(0)

    for number in STOPPING:
        signal.signal(number, leave)


class Signals:
    """The first signal requests a clean stop, a second SIGINT or SIGTERM ends the process at once.

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
        if number == signal.SIGHUP:
            _leave_closed_terminal()
        if self.stop.is_set():
            if number == signal.SIGHUP:
                return
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


def _leave_closed_terminal() -> None:
    """Redirect output to a terminal that no longer exists to /dev/null: writing to it is an error."""
    for stream in (1, 2):
        polled = select.poll()
        polled.register(stream, 0)
        if any(found & select.POLLHUP for _, found in polled.poll(0)):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)


def ignore() -> None:
    """Ignore signals from now on, as the process is about to exit with its exit code. Main thread only."""
    if threading.current_thread() is threading.main_thread() and "pyspark" in sys.modules:
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
