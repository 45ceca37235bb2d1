"""Process-wide settings of a server: signals that end it, and log records of libraries."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdc.serve.server import Server


def end_on_signals(server: Server) -> None:
    """Install signal handlers: the first signal stops the server, the second ends the process at once. Main thread."""
    from cdc.process.signals import ABORTED

    stopping = threading.Event()

    def handle(number: int, frame: object) -> None:
        if stopping.is_set():
            os._exit(ABORTED)
        stopping.set()
        server.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def quiet_libraries() -> None:
    """Send log records from INFO on to the logs of pipelines only; no root handler prints them."""
    for name in ("cdc", "connectors"):
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger().addHandler(logging.NullHandler())
