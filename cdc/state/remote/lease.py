"""The lease on a state: an object that its holder rewrites every few seconds, by conditional puts over its own version.

Clocks of two machines are never compared. A run that finds a lease watches it: if it changes, its holder lives; if it
does not change for its whole duration, by the watcher's clock, it may be taken over. The log fences off a holder that
was only paused (`cdc.state.remote.writer`).
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, replace

from cdc.errors import StateError
from cdc.retry import RetryPolicy
from cdc.state.remote.bucket import Bucket
from cdc.state.remote.lease_deadline import now_s

NAME = "lock"
FORMAT = 1
_LOOKS = 3
"""How often a lease is renewed, and checked by a waiting run, within its duration."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The content of the lease object. `place` identifies the working copy, and so a dead run of the same machine."""

    owner: str
    place: str
    host: str
    pid: int
    ttl_s: float
    beat: int = 0
    released: bool = False
    format: int = FORMAT

    @property
    def description(self) -> str:
        """A description of the holder, for messages."""
        return f"the run on {self.host}, process {self.pid}"

    def to_bytes(self) -> bytes:
        """The object's content."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Holder:
        """The object's content. Raises StateError."""
        try:
            found = cls(**json.loads(data))
        except (ValueError, TypeError) as error:
            hint = "make sure that nothing runs with this --state-dir, and remove the object"
            raise StateError(f"cannot be read: {error}", where=where, hint=hint) from error
        return found


def of_this_process(owner: str, place: str, ttl_s: float) -> Holder:
    """This process as a holder."""
    return Holder(owner, place, socket.gethostname(), os.getpid(), ttl_s)


class Lease:
    """The lease of one run. Driver; `beat` and `release` by one thread at a time.

    `bucket` retries requests, `once` does not: a renewal that fails is repeated by the next beat.
    """

    def __init__(self, bucket: Bucket, once: Bucket, mine: Holder, retry: RetryPolicy) -> None:
        self._patient, self._bucket, self._mine, self._retry = bucket, once, mine, retry
        self._tag = ""
        self.renewed_s = 0.0
        """When the last successful request to renew the lease was sent, by `now_s`."""

    def acquire(self) -> None:
        """Take the lease once its holder has released it, or has not renewed it for its whole duration.

        Raises StateError with the holder if that is alive.
        """
        bucket, data = self._patient, self._mine.to_bytes()
        while True:
            found = bucket.get_tagged(NAME)
            if found is not None:
                self._await_end(Holder.from_bytes(found[0], self._where), found[1])
            self.renewed_s = now_s()
            _ = bucket.put_new(NAME, data) if found is None else bucket.put_if_match(NAME, data, found[1])
            if self._is_mine():  # also after a put whose answer was lost
                return

    def beat(self) -> bool:
        """Renew the lease; False if another run has it. Raises StateUnavailable if the outcome is unknown."""
        sent_s, self._mine = now_s(), replace(self._mine, beat=self._mine.beat + 1)
        tag = self._bucket.put_if_match(NAME, self._mine.to_bytes(), self._tag)
        if tag is not None:
            self._tag = tag
        elif not self._is_mine():
            return False
        self.renewed_s = sent_s
        return True

    def release(self) -> None:
        """Release the lease. No effect if another run has it. Raises StateUnavailable."""
        self._bucket.put_if_match(NAME, replace(self._mine, released=True).to_bytes(), self._tag)

    @property
    def expires_s(self) -> float:
        """The time from which another run may take the lease, by `now_s`."""
        return self.renewed_s + self._mine.ttl_s

    def holder(self) -> Holder | None:
        """The current holder; None if there is none."""
        return holder(self._bucket)

    def _is_mine(self) -> bool:
        """Whether this run has the lease, also after a put whose response was lost; remembers its version."""
        found = self._bucket.get_tagged(NAME)
        if found is None or Holder.from_bytes(found[0], self._where).owner != self._mine.owner:
            return False
        self._tag = found[1]
        return True

    def _await_end(self, holder: Holder, tag: str) -> None:
        """Return when the lease may be taken. Raises StateError if its holder is alive."""
        if holder.released or (holder.place and holder.place == self._mine.place):
            return  # the folder's own lock says that the run which had it here has ended
        # Checks are counted instead of seconds: the clock goes on while this machine and the holder's are suspended.
        for _ in range(2 * _LOOKS):
            if not self._retry.wait(holder.ttl_s / _LOOKS / 2):
                raise in_use(self._patient.url, holder)
            now = self._patient.get_tagged(NAME)
            if now is None or now[1] != tag:
                raise in_use(self._patient.url, None if now is None else Holder.from_bytes(now[0], self._where))

    @property
    def _where(self) -> str:
        return f"{self._bucket.url}/{NAME}"


def holder(bucket: Bucket) -> Holder | None:
    """The holder of the lease of a URL, alive or not; None if it is released. Raises StateError."""
    data = bucket.get(NAME)
    found = None if data is None else Holder.from_bytes(data, f"{bucket.url}/{NAME}")
    return None if found is None or found.released else found


def in_use(url: str, holder: Holder | None) -> StateError:
    """The error for a state that another run uses."""
    who = "another run" if holder is None else holder.description
    return StateError(f"{who} is using this state", where=url, hint="stop that run, or choose another --state-dir")
