"""`<state>/status.json`: written by the run, read by anybody. Whole at every moment, but never synced: a power failure
costs a look at numbers, and an fsync a second would cost every pipeline of the machine.

While a run lives it touches the file now and then, also when nothing in it changes. So a run that was killed shows.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path

from cdc.errors import StateError
from cdc.state.durable import private, state_error
from cdc.status.model import StatusDocument, from_json, to_json

FILE_NAME = "status.json"
BEAT_S = 5.0
"""Seconds after which a living run has touched its file."""
SILENT_S = 30.0
"""A run that has not for so long is taken for dead."""

LIVING = ("starting", "running", "stopping")


def write_status(root: Path, status: StatusDocument) -> None:
    """Put the document in the place of the one before. Driver, at most once a second. Raises StateError."""
    path = root / FILE_NAME
    spare = path.with_name(f".{FILE_NAME}.{os.getpid()}.tmp")
    try:
        with open(spare, "wb", opener=private) as file:
            file.write(to_json(status))
        os.replace(spare, path)
    except OSError as error:
        raise state_error(path, error) from error


def beat(root: Path) -> None:
    """Say that the run lives. Driver. Raises StateError."""
    path = root / FILE_NAME
    try:
        os.utime(path)
    except OSError as error:
        raise state_error(path, error) from error


@dataclass(frozen=True, slots=True)
class Seen:
    """A status document and whether its run lives.

    `life` is the state that a server knows of the pipeline, and `attention` why it needs a person; both are empty where
    there is no server.
    """

    status: StatusDocument
    alive: bool
    life: str = ""
    attention: str = ""

    @property
    def state(self) -> str:
        """The state as the server knows it, else as the run tells it, or `lost` for one that ended without a word."""
        if self.life:
            return self.life
        return "lost" if self.status.state in LIVING and not self.alive else self.status.state

    @property
    def up(self) -> bool:
        """Whether the pipeline needs nobody. Without a server one that has failed, or is lost, needs somebody."""
        return not self.attention if self.life else self.state not in ("failed", "lost")


def read_status(root: Path, now: float | None = None) -> Seen | None:
    """The last document of a state directory, None when no run has written one. Any process, any time.

    Where no run lives, with the pauses that were asked for since. Raises StateError when it cannot be read.
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
    return Seen(status if living else with_requests(root, status), living)


def with_requests(root: Path, status: StatusDocument) -> StatusDocument:
    """With the pauses that were asked for since: the next run takes them in. Raises StateError."""
    from cdc.state.directory import StateDir
    from cdc.tables.pauses import PauseReader

    tables = PauseReader(StateDir(root)).requested_tables()
    if tables is None:
        return status
    paused, resumed = (tuple(sorted(map(str, each))) for each in (tables.paused, tables.resumed))
    return replace(status, paused=paused, resumed=resumed)


def alive(status: StatusDocument, touched_s: float, now: float | None = None) -> bool:
    """Whether the run of a document lives whose file was touched then."""
    silent_s = (time.time() if now is None else now) - touched_s
    return status.state in LIVING and silent_s < SILENT_S and _process_there(status)


def last_status(root: Path) -> StatusDocument | None:
    """The document of the run before, None when there is none or it cannot be used. Driver, at the start of a run."""
    try:
        seen = read_status(root)
    except StateError:  # it holds nothing that a run needs, and is rewritten
        return None
    return None if seen is None else seen.status


def _process_there(status: StatusDocument) -> bool:
    """Whether the run's process exists, as far as this machine can tell."""
    if status.host != socket.gethostname():
        return True
    try:
        os.kill(status.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
