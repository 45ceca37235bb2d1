"""`<state>/status.json`: written by the run, read by any process. Complete at every moment, but never synced: a power
failure only loses figures, while an fsync per second would slow down every pipeline of the machine.

A live run touches the file regularly, even when nothing in it changes, so that a killed run is detected.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path

from cdc.errors import StateError
from cdc.state.durable import replace_file, state_error
from cdc.status.model import StatusDocument, from_json, to_json

FILE_NAME = "status.json"
BEAT_S = 5.0
"""Maximum seconds between two touches of a live run's file."""
SILENT_S = 30.0
"""A run whose file was not touched for that long is considered dead."""

LIVING = ("starting", "running", "stopping")


def write_status(root: Path, status: StatusDocument) -> None:
    """Replace the document. Driver, at most once per second. Raises StateError."""
    path = root / FILE_NAME
    try:
        replace_file(path, to_json(status))
    except OSError as error:
        raise state_error(path, error) from error


def beat(root: Path) -> None:
    """Touch the file to show that the run is alive. Driver. Raises StateError."""
    path = root / FILE_NAME
    try:
        os.utime(path)
    except OSError as error:
        raise state_error(path, error) from error


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """A status document and whether its run is alive.

    `life` is the pipeline's state in a server, and `attention` why it needs attention; both are empty without a server.
    """

    status: StatusDocument
    alive: bool
    life: str = ""
    attention: str = ""

    @property
    def state(self) -> str:
        """The state in the server, or else the run's, or `lost` for a run that died."""
        if self.life:
            return self.life
        return "lost" if self.status.state in LIVING and not self.alive else self.status.state

    @property
    def up(self) -> bool:
        """Whether the pipeline needs no attention. Without a server, a failed or lost one needs it."""
        return not self.attention if self.life else self.state not in ("failed", "lost")


def read_status(root: Path, now: float | None = None) -> LiveStatus | None:
    """Read the last document of a state directory, None when there is none. Any process, any time.

    Without a live run, it includes pauses requested since. Raises StateError when it cannot be read.
    """
    path = root / FILE_NAME
    try:
        data, touched_s = path.read_bytes(), path.stat().st_mtime
    except FileNotFoundError:
        return None
    except OSError as error:
        raise state_error(path, error, "read") from error
    status = from_json(data, str(path))
    living = alive(status, touched_s, now)
    return LiveStatus(status if living else with_requests(root, status), living)


def with_requests(root: Path, status: StatusDocument) -> StatusDocument:
    """Add the pauses requested since, which the next run will apply. Raises StateError."""
    from cdc.state.directory import StateDir
    from cdc.tables.pauses import PauseReader

    tables = PauseReader(StateDir(root)).requested_tables()
    if tables is None:
        return status
    paused, resumed = (tuple(sorted(map(str, each))) for each in (tables.paused, tables.resumed))
    return replace(status, paused=paused, resumed=resumed)


def alive(status: StatusDocument, touched_s: float, now: float | None = None) -> bool:
    """Whether the run of a document is alive, given when the file was touched."""
    silent_s = (time.time() if now is None else now) - touched_s
    return status.state in LIVING and silent_s < SILENT_S and _process_there(status)


def last_status(root: Path) -> StatusDocument | None:
    """Return the document of the last run, None when there is none or it is unusable. Driver, at the start of a run."""
    try:
        seen = read_status(root)
    except StateError:  # it has nothing that a run needs, and is rewritten
        return None
    return None if seen is None else seen.status


def _process_there(status: StatusDocument) -> bool:
    """Whether the run's process exists, as far as known on this machine."""
    if status.host != socket.gethostname():
        return True
    try:
        os.kill(status.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
