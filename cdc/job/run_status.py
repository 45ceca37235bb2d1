"""Reads the status document of a pipeline, wherever it runs, and requests the end of a run. Any process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cdc.errors import NotNow
from cdc.job.lock import is_locked
from cdc.job.state_location import parse_location
from cdc.retry import RetryPolicy
from cdc.state.directory import StateDir
from cdc.state.remote.lease import holder
from cdc.state.remote.run import STATUS
from cdc.state.remote.store import RemoteStore
from cdc.state.remote.stores import bucket_at
from cdc.status.file import LIVING, LiveStatus, alive, read_status, with_requests, write_status
from cdc.status.model import from_json

_SOON = RetryPolicy(timeout_s=10.0)


def last_run(given: str | Path) -> LiveStatus | None:
    """The status of the last run of a state directory or URL, None if it never ran. Raises StateError.

    A run on another machine writes its document into the store every few seconds.
    """
    found = parse_location(given)
    if not found.url or is_locked(found.root):
        return read_status(found.root)
    remote = bucket_at(found.url, _SOON).get_dated(STATUS)
    if remote is None:
        return None
    status = from_json(remote[0], f"{found.url}/{STATUS}")
    return LiveStatus(status, alive(status, remote[1]))


def show_requests(state: StateDir) -> None:
    """Add pending requests to the status document in an object store, if the pipeline does not run. Raises StateError.

    In a folder, requests are read together with the document.
    """
    if not isinstance(state.store, RemoteStore):
        return
    url = state.store.session.url
    data = bucket_at(url, _SOON).get(STATUS)
    status = None if data is None else from_json(data, f"{url}/{STATUS}")
    if status is not None and status.state not in LIVING:  # a live run updates the document on its own
        write_status(state.root, with_requests(state.root, status))


def check_local(name: str, given: str | Path) -> None:
    """Raise NotNow unless the pipeline runs on this machine, so that a request in its state directory reaches it."""
    found = parse_location(given)
    now = read_status(found.root) if not found.url or is_locked(found.root) else None
    if now is not None and now.alive:
        return
    other = holder(bucket_at(found.url, _SOON)) if found.url else None
    if other is not None:
        raise NotNow(
            f"{other.description} holds its state, or did when it was killed", where=name, hint="ask on that machine"
        )
    raise NotNow("does not run", where=name, hint=f"its state directory is {found.url or found.root}")


def request_end(name: str, root: Path, *, drain: bool) -> Callable[[], bool]:
    """Request the run on this machine to stop, with `drain` at the current end of the log; return a function that
    tells whether it has ended.

    Raises NotNow when none runs here, and StateError. A run that is suspended, or cannot write its status, still holds
    the lock.
    """
    state = StateDir(root)
    check_local(name, root)
    state.request_drain() if drain else state.request_stop()

    def has_ended() -> bool:
        now = read_status(root)
        return (now is None or not now.alive) and not is_locked(root)

    return has_ended
