"""The end of a server for trials: Ctrl-C, SIGTERM, or its own."""

from __future__ import annotations

import signal
import threading
from typing import Protocol

from cdc.errors import SourceUnavailable

_TICK_S = 0.5


class Running(Protocol):
    """A server that may end by itself."""

    @property
    def running(self) -> bool:
        """Whether its process is there."""


class Ending:
    """SIGINT and SIGTERM from here on set `over`, rather than end the process. Main thread."""

    def __init__(self) -> None:
        self.over = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.over.set())

    def wait(self, server: Running, name: str) -> None:
        """Wait for the signal. Raises SourceUnavailable when the server, such as `the broker`, ends before it."""
        while not self.over.wait(_TICK_S):
            if not server.running:
                raise SourceUnavailable(f"{name} ended by itself", hint=f"see {name}'s words above")
