"""The lease on a state: one object that its holder puts again every few seconds, each time only over its own version.

Clocks of two machines are never compared. Who finds a lease watches it: when it changes its holder lives, and when it
has not changed for as long as it says, by the watcher's own clock, it may be taken. That decides who goes on; that a
holder which was paused cannot do harm then is the log's doing (`cdc.state.remote.writer`).
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass, replace

from cdc.errors import StateError
from cdc.retry import RetryPolicy
from cdc.state.remote.bucket import Bucket

NAME = "lock"
FORMAT = 1
_LOOKS = 3
"""How often a lease is put again, and looked at by who waits, while it lasts."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The content of the lease object. `place` names the working copy: a run finds its own machine's dead one by it."""

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
        """The holder, for messages."""
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

    `bucket` is patient, `once` asks once: a late sign of life is given again. `retry` waits for another's end.
    """

    def __init__(self, bucket: Bucket, once: Bucket, mine: Holder, retry: RetryPolicy) -> None:
        self._patient, self._bucket, self._mine, self._retry = bucket, once, mine, retry
        self._clock, self._tag = retry.clock, ""
        self.renewed_s = 0.0
        """When the lease was last known to be ours, by `clock`: before the question was sent."""

    def acquire(self) -> None:
        """Take the lease, once its holder is through with it or has not shown up for as long as the lease lasts.

        Raises StateError that names the holder when one lives.
        """
        bucket, data = self._patient, self._mine.to_bytes()
        while True:
            found = bucket.get_tagged(NAME)
            if found is not None:
                self._await_end(Holder.from_bytes(found[0], self._where), found[1])
            self.renewed_s = self._clock()
            _ = bucket.put_new(NAME, data) if found is None else bucket.put_if_match(NAME, data, found[1])
            if self._is_mine():  # also after a put whose answer was lost
                return

    def beat(self) -> bool:
        """Show that the run lives; False when another one has the lease. Raises StateUnavailable when nobody knows."""
        sent_s, self._mine = self._clock(), replace(self._mine, beat=self._mine.beat + 1)
        tag = self._bucket.put_if_match(NAME, self._mine.to_bytes(), self._tag)
        if tag is not None:
            self._tag = tag
        elif not self._is_mine():
            return False
        self.renewed_s = sent_s
        return True

    def release(self) -> None:
        """Let the next run begin at once. No effect when another one has the lease. Raises StateUnavailable."""
        self._bucket.put_if_match(NAME, replace(self._mine, released=True).to_bytes(), self._tag)

    @property
    def lost_s(self) -> float:
        """When somebody else may take it, by `clock`."""
        return self.renewed_s + self._mine.ttl_s

    def holder(self) -> Holder | None:
        """The present holder; None when there is none."""
        return holder(self._bucket)

    def _is_mine(self) -> bool:
        """Whether the object is ours, also after a put whose answer was lost; its version counts from then on."""
        found = self._bucket.get_tagged(NAME)
        if found is None or Holder.from_bytes(found[0], self._where).owner != self._mine.owner:
            return False
        self._tag = found[1]
        return True

    def _await_end(self, holder: Holder, tag: str) -> None:
        """Return when the lease may be taken. Raises StateError when its holder shows up."""
        if holder.released or (holder.place and holder.place == self._mine.place):
            return  # the folder's own lock says that the run which had it here has ended
        # Looks are counted, not the clock: that goes on while this machine sleeps, and the holder's with it.
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
    """The holder of the lease of a URL, also one that has been silent since; None for none. Raises StateError."""
    data = bucket.get(NAME)
    found = None if data is None else Holder.from_bytes(data, f"{bucket.url}/{NAME}")
    return None if found is None or found.released else found


def in_use(url: str, holder: Holder | None) -> StateError:
    """The error for a second run."""
    who = "another run" if holder is None else holder.description
    return StateError(f"{who} is using this state", where=url, hint="stop that run, or choose another --state-dir")
