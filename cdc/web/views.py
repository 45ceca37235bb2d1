"""Combines the view of a pipeline in `cdc serve` with the status document of its run, for pages and API."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.serve.control import Control, PipelineView
from cdc.status.file import FILE_NAME, LiveStatus, alive, read_status
from cdc.status.model import Error, StatusDocument, to_object
from cdc.tables.requests import REQUESTS

_Mark = tuple[int, int, int, int]
"""Identifies a version of a status document: inode, size, time of the last request, time of the last touch."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One pipeline. `seen` is None before its first run; `unreadable` is why its document cannot be read."""

    view: PipelineView
    seen: LiveStatus | None
    unreadable: str = ""

    @property
    def status(self) -> StatusDocument | None:
        """The status document, None without one."""
        return None if self.seen is None else self.seen.status

    @property
    def live(self) -> StatusDocument | None:
        """The status document of an active run, else None."""
        return self.seen.status if self.seen is not None and self.seen.alive else None

    @property
    def lag_s(self) -> float | None:
        """The lag in seconds of an active run, else None."""
        return None if self.live is None else self.live.lag.seconds

    @property
    def read_per_s(self) -> float:
        """Changes currently read per second."""
        return 0.0 if self.live is None else self.live.read_per_s

    @property
    def written_per_s(self) -> float:
        """Rows currently written per second."""
        return 0.0 if self.live is None else self.live.written_per_s

    @property
    def errors(self) -> Sequence[Error]:
        """The last errors, newest first: those of its runs, preceded by one that prevented a run."""
        own = tuple(reversed(self.status.errors)) if self.status is not None else ()
        last = self.view.last_error
        if last is None or any(error.message == last.message for error in own):
            return own
        return (Error(last.at_s, last.type, last.message, last.where, last.hint, last.retryable), *own)


class Views:
    """Reads status documents and caches unchanged ones. Any thread."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._read: dict[str, tuple[_Mark, LiveStatus | None]] = {}

    def all(self) -> list[Shown]:
        """Return all pipelines, by name."""
        return [self._to_shown(view) for view in self._control.pipelines()]

    def one(self, name: str) -> Shown:
        """Return one pipeline. Raises PipelineUnknown."""
        return self._to_shown(self._control.pipeline(name))

    def documents(self) -> list[LiveStatus]:
        """Return the status documents of all pipelines, for metrics; an empty one before the first run."""
        return [_measured(shown) for shown in self.all()]

    def _to_shown(self, view: PipelineView) -> Shown:
        try:
            return Shown(view, self._document(view.state_dir))
        except StateError as error:
            return Shown(view, None, str(error))

    def _document(self, folder: str) -> LiveStatus | None:
        if not folder:  # an invalid file has no state yet
            return None
        path = Path(folder) / FILE_NAME
        try:
            stat = path.stat()
        except OSError:
            return None
        mark = (stat.st_ino, stat.st_size, _requests_ns(path.parent), stat.st_mtime_ns)
        with self._lock:
            known = self._read.get(folder)
        if known is not None and known[0] == mark and (known[1] is None or not known[1].alive):
            return known[1]
        seen = _reuse_or_read(known, mark, Path(folder))
        with self._lock:
            self._read[folder] = (mark, seen)
        return seen


def _measured(shown: Shown) -> LiveStatus:
    """Add the server's state of the pipeline to the document."""
    view = shown.view
    none = StatusDocument("", view.name, view.source, view.sink, "ended", 0, "", 0.0, 0.0, file=view.file)
    seen = shown.seen or LiveStatus(none, alive=False)
    return replace(seen, life=view.state, attention=view.attention)


def _requests_ns(root: Path) -> int:
    """Return when a table was last requested to be paused or resumed, or a run applied such a request."""
    try:
        return (root / REQUESTS).stat().st_mtime_ns
    except OSError:
        return 0


def _reuse_or_read(known: tuple[_Mark, LiveStatus | None] | None, mark: _Mark, root: Path) -> LiveStatus | None:
    """Return the document; one that was only touched is not read again, but its run may have died."""
    if known is not None and known[1] is not None and known[0][:-1] == mark[:-1]:
        living = alive(known[1].status, mark[-1] / 1e9)
        if living or not known[1].alive:
            return LiveStatus(known[1].status, living)
    return read_status(root)


def summary(shown: Shown) -> dict[str, Any]:
    """Return the summary of a pipeline for lists, as JSON."""
    view, status = shown.view, shown.status
    return {
        "name": view.name, "source": view.source, "sink": view.sink, "state": view.state, "attention": view.attention,
        "schedule": view.schedule,
        "next_run_s": view.next_run_s, "restarts": view.restarts, "lag_s": shown.lag_s,
        "lag_bytes": None if shown.live is None else shown.live.lag.bytes,
        "read_per_s": shown.read_per_s, "written_per_s": shown.written_per_s,
        "tables": 0 if status is None else len(status.tables),
        "rows": 0 if status is None else status.totals.rows,
        "paused": [] if status is None else list(status.paused),
        "last_error": None if view.last_error is None else asdict(view.last_error),
        "file_errors": list(view.file_errors),
    }  # fmt: skip


def details(shown: Shown) -> dict[str, Any]:
    """Return a pipeline with everything but its tables, batches and points, as JSON."""
    document = None if shown.status is None else to_object(shown.status)
    for name in ("tables", "batches", "points", "schema_changes", "errors"):
        if document is not None:
            del document[name]
    view: Mapping[str, Any] = asdict(shown.view)
    return {**summary(shown), **view, "status": document, "unreadable": shown.unreadable}
