"""Servers for trials, `cdc dev ...`: their start, and their end by Ctrl-C, SIGTERM, or by themselves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from cdc.errors import SourceUnavailable
from cdc_services.process import port_is_free

_TICK_S = 0.5


class Running(Protocol):
    """A server that may end by itself."""

    @property
    def running(self) -> bool:
        """Whether its process is there."""

    def close(self) -> None:
        """End it and remove its data."""


Server = TypeVar("Server", bound=Running)


def say(text: str) -> None:
    """Print it at once."""
    print(text, flush=True)


@contextmanager
def started(
    name: str, port: int, start: Callable[[], Server], last_words: Callable[[Server], str] | None = None
) -> Iterator[Server]:
    """A server that `start` starts on a port, 0 for a free one; it is closed after the block.

    `last_words` are said of one that has ended by itself. Raises SourceUnavailable where the port is in use or it does
    not start.
    """
    if port and not port_is_free(port):
        raise SourceUnavailable(f"port {port} is in use", hint="choose another --port; 0 takes a free one")
    try:
        server = start()
    except (RuntimeError, OSError) as error:
        raise SourceUnavailable(f"{name} does not start: {error}") from error
    try:
        yield server
    finally:
        if last_words is not None and not server.running:
            say(last_words(server))
        server.close()


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
