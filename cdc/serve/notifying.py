"""Sends notifications about all pipelines of a server, from a thread that checks them every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from cdc.errors import CdcError
from cdc.serve.control import Control
from cdc.status.model import Error
from cdc.status.notifications import Observation
from cdc.status.notify import NotificationTarget, Notifier
from cdc.web.views import Shown, Views

LOOK_S = 5.0
_CLOSE_S = 5.0
"""How long `close` waits for notifications that are being sent."""


class Notifying:
    """The notifications of a server.

    Args:
        everything: target for notifications of all pipelines, None for none. Files may name further targets.
        warn: called with a line for each notification that could not be sent.
    """

    def __init__(self, control: Control, everything: NotificationTarget | None, warn: Callable[[str], None]) -> None:
        self._control, self._everything, self._views = control, everything, Views(control)
        self._notifier = Notifier(warn)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="notifying", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and send pending notifications."""
        self._ending.set()
        self._thread.join()
        self._notifier.close(_CLOSE_S)

    def observe(self, now_s: float) -> None:
        """Check each pipeline once."""
        shown = self._views.all()
        for each in shown:
            for target in self._targets(each.view.name):
                self._notifier.observe(observation_of(each), target, now_s)
        self._notifier.forget({each.view.name for each in shown})

    def _targets(self, name: str) -> Sequence[NotificationTarget]:
        target = None
        with suppress(CdcError):  # its file is invalid or was deleted
            target = NotificationTarget.of(self._control.spec(name).pipeline)
        return [each for each in (self._everything, target) if each is not None]

    def _work(self) -> None:
        while not self._ending.wait(LOOK_S):
            self.observe(time.time())


def observation_of(shown: Shown) -> Observation:
    """Return the values that notifications depend on."""
    view, status = shown.view, shown.status
    error = shown.errors[0] if view.attention and shown.errors else None
    if view.state == "invalid" and view.file_errors:
        first, *more = view.file_errors
        message = f"{first} (and {len(more)} more)" if more else first
        error = Error(time.time(), "SpecError", message, hint="correct the file; it is read again at once")
    look = Observation(view.name, view.attention, view.state == "stopped", error, shown.lag_s)
    if status is None:
        return look
    dead_letters, changes = status.dead_letters, status.schema_changes
    return replace(look, run_s=status.started_s, dead_letters=dead_letters, changes=changes)
