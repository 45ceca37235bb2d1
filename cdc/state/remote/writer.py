"""Appends steps to the log in the store, for every process of a run on the driver's machine, one step at a time.

    <copy>/.store/session.json   the URL and the run (`WorkingCopy`); there as long as the folder is a working copy
    <copy>/.store/next           the number of the next step, locked (flock) while a process puts one
    <copy>/.store/failed         the error after which this run puts nothing more

A step is stored first, and then applied to the working copy. After a put that has failed for the last time, it is
unknown whether the step is stored: the run cannot continue, and all requests are refused, including reads. The next run
starts from the store.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from cdc.errors import CdcError, StateError, from_json
from cdc.retry import RetryPolicy
from cdc.state.durable import private, state_error, write_file
from cdc.state.remote.bucket import Bucket
from cdc.state.remote.entry import WRITE, DocumentChange, Entry
from cdc.state.remote.stores import bucket_at

FOLDER = ".store"
SESSION = "session.json"
_NEXT, _FAILED = "next", "failed"
_SPARE = "fine"
"""Becomes `failed`: renaming works on a full disk, too."""


@dataclass(frozen=True, slots=True)
class WorkingCopy:
    """A run with a working copy. `number` is that of the step with which it opened the log; it orders runs.

    `timeout_s` is how long requests are retried; `ttl_s` the duration of the lease.
    """

    url: str
    owner: str
    number: int
    timeout_s: float = 600.0
    ttl_s: float = 15.0

    def begin(self, copy: Path) -> None:
        """Turn a folder with the restored documents into the working copy. Raises StateError."""
        folder = copy / FOLDER
        write_file(folder / _NEXT, json.dumps({"number": self.number + 1, "bytes": 0}).encode())
        write_file(folder / _SPARE, b"")
        write_file(folder / SESSION, json.dumps(asdict(self)).encode())

    @classmethod
    def of(cls, copy: Path) -> WorkingCopy | None:
        """The run whose working copy a folder is; None if it is none, or cannot be accessed. Raises StateError."""
        path = copy / FOLDER / SESSION
        try:
            return cls(**json.loads(path.read_bytes()))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        except OSError as error:
            raise state_error(path, error, "read") from error
        except (ValueError, TypeError) as error:
            raise StateError(f"cannot be read: {error}", where=str(path), hint="remove it, and start again") from error

    def retry(self, copy: Path) -> RetryPolicy:
        """The retry policy for the store; retries end when a stop is requested."""
        stop = copy / "control" / "stop"
        return RetryPolicy(self.timeout_s, stopping=stop.exists)


class StateWriter:
    """Writes steps to the log. One object per working copy and process; threads share it."""

    def __init__(self, copy: Path, session: WorkingCopy) -> None:
        self.copy, self.session = copy, session
        self.bucket = bucket_at(session.url, session.retry(copy))
        self._folder = copy / FOLDER
        self._later = set[str]()
        self._later_lock = threading.Lock()

    def write(self, *changes: DocumentChange) -> None:
        """Write changes as one step, together with those pending in this process. Durable when this returns.

        After a StateError the step may be in the log or not, and the run cannot continue.
        """
        with self._locked() as file:
            self._put_step(file, WRITE, changes)

    def write_later(self, change: DocumentChange) -> None:
        """Apply a change to the working copy now, and to the store with this process's next step."""
        self.check()
        try:
            change.carry_out(self.copy)
        except OSError as error:
            raise state_error(self.copy / change.name, error) from error
        self.adopt(change.name)

    def adopt(self, name: str) -> None:
        """Write a document of the working copy, or its removal, to the store with this process's next step."""
        with self._later_lock:
            self._later.add(name)

    def close(self, kind: str) -> None:
        """Write the last step of the run, with the pending changes of this process. Raises StateError."""
        with self._locked() as file:
            self._put_step(file, kind, ())

    @contextlib.contextmanager
    def paused(self) -> Iterator[tuple[int, int]]:
        """Context manager: no step is written within the block. Yields the next number and the bytes since the base."""
        with self._locked() as file:
            yield self._read_position(file)

    def note_base(self) -> None:
        """Note that the steps so far are in a base."""
        with self._locked() as file:
            number, _ = self._read_position(file)
            self._note(file, number, 0)

    def check(self) -> None:
        """Raise StateError if this run cannot write any more. Cheap."""
        try:
            text = (self._folder / _FAILED).read_text(encoding="utf-8")
        except FileNotFoundError:
            if WorkingCopy.of(self.copy) == self.session:
                return
            hint = "another run has begun in the folder; end this one"
            raise StateError("this is the working copy of another run", where=str(self.copy), hint=hint) from None
        raise from_json(text) if text else StateError("a step could not be put in the store", where=self.session.url)

    def fail(self, error: CdcError) -> None:
        """Fail all further writes with this error, in all processes of the run."""
        with contextlib.suppress(FileNotFoundError):  # another process has stored its error
            with contextlib.suppress(OSError), open(self._folder / _SPARE, "r+", encoding="utf-8") as file:
                file.write(error.to_json())
            os.rename(self._folder / _SPARE, self._folder / _FAILED)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[IO[str]]:
        try:
            with open(self._folder / _NEXT, "r+", encoding="utf-8", opener=private) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self.check()
                yield file
        except OSError as error:
            raise state_error(self._folder / _NEXT, error) from error

    def _put_step(self, file: IO[str], kind: str, changes: Sequence[DocumentChange]) -> None:
        try:
            with self._later_lock:
                names, self._later = self._later, set()
            waited = [self._as_it_is(name) for name in sorted(names)]
            number, size = self._read_position(file)
            entry = Entry(
                kind, self.session.owner, number, secrets.token_hex(8), (*waited, *changes), {"waited": len(waited)}
            )
            while (before := put_entry(self.bucket, entry)) is not None:
                # written by a process of this run that ended before it could note the number
                size = self._apply_step(file, before, size)
                entry = replace(entry, number=before.number + 1)
            self._apply_step(file, entry, size)
        except BaseException as error:  # unknown whether the step is stored: the working copy must not be used any more
            self.fail(_as_cdc_error(error, self.copy))
            raise

    def _as_it_is(self, name: str) -> DocumentChange:
        try:
            return DocumentChange(name, (self.copy / name).read_bytes())
        except FileNotFoundError:
            return DocumentChange(name, None)

    def _apply_step(self, file: IO[str], entry: Entry, size: int) -> int:
        """Apply a stored step to the working copy, except changes applied already; return the bytes since the base."""
        for change in entry.changes[entry.notes["waited"] :]:
            change.carry_out(self.copy)
        size += len(entry.to_bytes())
        self._note(file, entry.number + 1, size)
        return size

    def _read_position(self, file: IO[str]) -> tuple[int, int]:
        file.seek(0)
        fields = json.loads(file.read())
        return int(fields["number"]), int(fields["bytes"])

    def _note(self, file: IO[str], number: int, size: int) -> None:
        file.seek(0)
        file.truncate()
        file.write(json.dumps({"number": number, "bytes": size}))
        file.flush()


def _as_cdc_error(error: BaseException, copy: Path) -> CdcError:
    if isinstance(error, CdcError):
        return error
    if isinstance(error, OSError):
        return state_error(copy, error)
    return StateError("a step was interrupted", where=str(copy), hint="start again; nothing was lost")


def entry_name(number: int) -> str:
    """The name of the object of a step."""
    return f"log/{number:012}"


def put_entry(bucket: Bucket, entry: Entry) -> Entry | None:
    """Write a step at its number; return None on success, else the step of the same run that has this number.

    Raises StateError if the number is taken by another run.
    """
    name, data = entry_name(entry.number), entry.to_bytes()
    if bucket.put_new(name, data):
        return None
    existing = bucket.get(name)
    if existing == data:
        return None  # written by a request whose response was lost
    found = None if existing is None else Entry.from_bytes(existing, f"{bucket.url}/{name}")
    if found is not None and found.owner == entry.owner:
        return found
    raise taken_over_error(bucket.url, "" if found is None else found.opened_by)


def taken_over_error(url: str, who: str) -> StateError:
    """The error of a run that was paused for longer than its lease. `who` may be empty."""
    hint = "this run did not renew its lease in time; the other run continues"
    return StateError(f"the state was taken over by {who or 'another run'}", where=url, hint=hint)
