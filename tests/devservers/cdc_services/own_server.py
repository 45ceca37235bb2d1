"""A server of any kind that this process started: its process, its folder, and how it is ended."""

from __future__ import annotations

import signal
from pathlib import Path

from cdc_services.process import ServerProcess, last_words
from cdc_services.workspace import Workspace


class OwnServer:
    """What such servers have in common; each kind knows how it is started and when it is ready."""

    folder: Path
    _workspace: Workspace
    _process: ServerProcess | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "server.log"

    @property
    def running(self) -> bool:
        """Whether it was started and lives."""
        return self._process is not None and self._process.alive

    def last_words(self) -> str:
        """The end of its log."""
        return last_words(self.log)

    def stop(self) -> None:
        """End it cleanly (as an administrator would) and wait for the end."""
        self._end(signal.SIGTERM)

    def kill9(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it at once and remove its folder."""
        self._end(signal.SIGKILL)
        self._workspace.remove()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.end(how)
            self._process = None
