"""A run's use of a state in an object store: lease, working copy and log, from start to end. Driver."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from cdc.errors import CdcError, StateError, StateUnavailable
from cdc.retry import RetryPolicy
from cdc.state.durable import create_folder, state_error, write_file
from cdc.state.remote.compact import OF_THIS_MACHINE, compact, is_compaction_due
from cdc.state.remote.entry import CLOSE, OPEN, Entry
from cdc.state.remote.lease import Lease, holder, in_use, of_this_process
from cdc.state.remote.lease_deadline import note_lease_until
from cdc.state.remote.restore import Restored, extend, restore, restore_bulk
from cdc.state.remote.store import RemoteStore, writer_of
from cdc.state.remote.stores import bucket_at
from cdc.state.remote.writer import FOLDER, StateWriter, WorkingCopy, entry_name, taken_over_error

log = logging.getLogger(__name__)

TTL_S = 15.0
"""Seconds until a lease expires without renewal; it is renewed three times meanwhile."""
STATUS = "status.json"
_PLACE, _URL = "place", "url"
_REMOVED = frozenset({FOLDER, ".bulk", "control"})


@contextlib.contextmanager
def hold_working_copy(
    url: str, copy: Path, retry: RetryPolicy, *, ttl_s: float = TTL_S, starting: Callable[[str], None] = log.info
) -> Iterator[None]:
    """Context manager: within the block `copy` is the working copy of `url`, and no other run has the lease.

    The caller has locked the folder (`cdc.job.lock`). Its content is removed before and after. Raises StateError if
    another run has the lease, the stored state is damaged, or the store cannot be reached.
    """
    run = _RemoteRun(url, copy, retry, ttl_s)
    run.begin(starting)
    try:
        yield
    finally:
        run.end()


class _RemoteRun:
    def __init__(self, url: str, copy: Path, retry: RetryPolicy, ttl_s: float) -> None:
        self._url, self._copy, self._retry, self._ttl_s = url, copy, retry, ttl_s
        self._bucket, self._owner = bucket_at(url, retry), secrets.token_hex(16)
        self._once = bucket_at(url, RetryPolicy(timeout_s=0.0))
        self._ended, self._ending = threading.Event(), threading.Event()
        self._openings, self._base = list[int](), -1
        self._writer: StateWriter | None = None
        self._lost: CdcError | None = None
        self._status = self._changed_s()  # what an earlier run has left here may be older than what is in the store

    def begin(self, starting: Callable[[str], None]) -> None:
        note_url(self._copy, self._url)
        clean(self._copy)
        self._bucket.check()
        starting(f"reading the state from {self._url}")
        this_holder = of_this_process(self._owner, self._place(), self._ttl_s)
        other = holder(self._bucket)
        if other is not None and other.place != this_holder.place:
            starting(f"{other.description} has or had the lease: waiting {other.ttl_s:g} s to see whether it is alive")
        self._lease = Lease(self._bucket, self._once, this_holder, self._retry)
        self._lease.acquire()
        note_lease_until(self._copy, self._lease.expires_s)
        self._renewing = _start_thread("state-lease", self._renew_lease)
        try:
            session = self._open_step_log(this_holder.description)
            restore_bulk(self._bucket, self._copy / ".bulk")
            session.begin(self._copy)
        except BaseException:
            self._stop_renewing()
            with contextlib.suppress(StateError):
                self._lease.release()
            raise
        self._writer = writer = writer_of(RemoteStore(self._copy, self._copy, session))
        if self._lost is not None:
            writer.fail(self._lost)
        self._tidying = _start_thread("state-base", lambda: self._tidy_up(writer))

    def end(self) -> None:
        """Close the log and release the lease if possible, so that the next run can start at once."""
        self._ending.set()
        self._tidying.join()
        try:
            assert self._writer is not None
            self._writer.check()
            self._writer.close(CLOSE)
            self._put_status()
            self._stop_renewing()
            self._lease.release()
        except StateError as error:
            log.warning("the end of the run could not be noted, the next one waits for the lease: %s", error)
        finally:
            self._stop_renewing()
            clean(self._copy)

    def _stop_renewing(self) -> None:
        self._ended.set()
        self._renewing.join()

    def _place(self) -> str:
        path = self._copy / FOLDER / _PLACE
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            name = secrets.token_hex(16)
            write_file(path, name.encode())
            return name
        except OSError as error:
            raise state_error(path, error, "read") from error

    def _open_step_log(self, who: str) -> WorkingCopy:
        """Restore the documents into the folder and write the run's first step, which fences off earlier runs."""
        found = restore(self._bucket, self._copy)
        while not self._put_first(found, who):
            pass
        number = found.last + 1
        self._openings = found.openings if found.closed else [*found.openings, number]
        return WorkingCopy(self._url, self._owner, number, self._retry.timeout_s, self._ttl_s)

    def _put_first(self, found: Restored, who: str) -> bool:
        number = found.last + 1
        first = Entry(OPEN, self._owner, number, "", (), {"who": who})
        if self._bucket.put_new(entry_name(number), first.to_bytes()):
            return True
        data = self._bucket.get(entry_name(number))
        if data is None:
            raise in_use(self._url, self._lease.holder())
        entry = Entry.from_bytes(data, f"{self._url}/{entry_name(number)}")
        if entry.owner == self._owner:
            return True  # of a try whose answer was lost
        if entry.kind == OPEN:
            raise taken_over_error(self._url, entry.opened_by)
        extend(self._copy, found, entry)
        return False

    def _renew_lease(self) -> None:
        """The thread that renews the lease. It does nothing else, as other work may take longer than the lease."""
        while not self._ended.wait(self._ttl_s / 3):
            try:
                if not self._lease.beat():
                    other = self._lease.holder()
                    self._lose(taken_over_error(self._url, "" if other is None else other.description))
                    return
                note_lease_until(self._copy, self._lease.expires_s)
            except StateUnavailable as error:
                log.info("the lease on the state could not be renewed: %s", error)
            except StateError as error:
                self._lose(error)
                return

    def _tidy_up(self, writer: StateWriter) -> None:
        """The thread that writes the status document and bases, while the run has the lease."""
        while not self._ending.wait(self._ttl_s / 3) and self._lost is None:
            try:
                self._put_status()
                if is_compaction_due(writer, self._base):
                    self._base = compact(writer, self._openings)
            except StateUnavailable as error:
                log.info("the store could not be tidied up: %s", error)
            except StateError as error:
                self._lose(error)
                return

    def _lose(self, error: CdcError) -> None:
        self._lost = error
        if self._writer is not None:
            self._writer.fail(error)

    def _put_status(self) -> None:
        changed = self._changed_s()
        if changed in (0.0, self._status):
            return
        try:
            document = (self._copy / STATUS).read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise state_error(self._copy / STATUS, error, "read") from error
        self._once.put(STATUS, document)
        self._status = changed

    def _changed_s(self) -> float:
        """The time when the status document was last written, 0 if there is none. Raises StateError."""
        try:
            return (self._copy / STATUS).stat().st_mtime
        except FileNotFoundError:
            return 0.0
        except OSError as error:
            raise state_error(self._copy / STATUS, error, "read") from error


def _start_thread(name: str, work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def note_url(copy: Path, url: str) -> None:
    """Mark a folder as the working copy of a URL, so that the state can be found by its path.

    Raises StateError for a folder with a state of its own, or of another URL.
    """
    known = url_of(copy)
    if known == url:
        return
    if known or (copy / "pipeline.json").exists():
        reason = f"is for the state in {known}" if known else "has a state of its own, which is not moved"
        hint = "name another folder, or remove this one to continue without it"
        raise StateError(f"the folder {reason}", where=str(copy), hint=hint)
    write_file(copy / FOLDER / _URL, url.encode())


def url_of(copy: Path) -> str:
    """The URL of which a folder is the working copy; empty for other folders. Raises StateError."""
    path = copy / FOLDER / _URL
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""
    except OSError as error:
        raise state_error(path, error, "read") from error


def clean(copy: Path) -> None:
    """Remove the content of a working copy. Raises StateError."""
    try:
        create_folder(copy / FOLDER)
        for path in copy.iterdir():
            if path.name == FOLDER:
                for inner in path.iterdir():
                    if inner.name not in (_PLACE, _URL):
                        inner.unlink()
            elif path.name in OF_THIS_MACHINE - _REMOVED:
                continue
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                os.unlink(path)
    except OSError as error:
        raise state_error(copy, error, "remove a file of") from error
