"""Calls of a process to what is outside of it: one of them fails, and the process goes on or tries again.

    Fault(7, "late").settle(owners)      the seventh call reaches the server after its client has given up

`refused`: nothing is done, as on a full disk or without a connection. `lost`: it is done, and no answer comes. `late`:
a server does it after its client gave up, maybe after the client's next try or its end.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import duckdb
from confluent_kafka import KafkaError, KafkaException
from killed_calls import FILES, KAFKA, Doom

from cdc.errors import CdcError
from cdc.restarts import FINAL
from cdc.state.durable import NO_ROOM

FAULTS = ("refused", "lost", "late")
_REMOVING = ("unlink", "remove", "rmdir")
_ANSWER_S = 5.0
_BROKERS = {name for names in KAFKA.values() for name in names}


@dataclass
class Fault(Doom):
    """Counts calls; `width` of them fail from the number `at` on. Those that cannot fail in this way are done."""

    moments: ClassVar[tuple[str, ...]] = FAULTS
    longest_s: ClassVar[float] = 1.0
    widths: ClassVar[tuple[int, ...]] = (1, 1, 2, 5, 25)
    _deaf: list[socket.socket] = field(default_factory=list)

    def settle(self, owners: list[tuple[Any, str]]) -> None:
        """Watch them, and the answers to sockets."""
        super().settle(owners)
        for name in ("recv", "recv_into"):
            setattr(socket.socket, name, self._heard(getattr(socket.socket, name)))

    def last(self, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """The call with the number `at`."""
        name, first = self.names[-1], given[0] if given else None
        if isinstance(first, socket.socket):
            return self._at_socket(real, *given, **named)
        if name in _BROKERS:
            return self._at_broker(real, *given, **named)
        if name in FILES:
            self._told()
            number = errno.EROFS if name in _REMOVING else errno.ENOSPC
            if name == "open" and not given[1] & os.O_CREAT:
                number = errno.EMFILE
            raise OSError(number, os.strerror(number), first)
        if name == "connect" or (name == "execute" and not str(first).startswith("SET ")):
            self._told()
            raise duckdb.IOException(f"IO Error: Could not write file: {os.strerror(errno.ENOSPC)}")
        return real(*given, **named)

    def _told(self) -> None:
        self.report(f"{self.moment} call {self.at}, {self.names[-1]}")

    def _at_socket(self, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        taken: socket.socket = given[0]
        self._told()
        self._deaf.append(taken)
        if self.moment == "lost" and self.names[-1] != "connect":
            return real(*given, **named)
        if self.moment == "late" and self.names[-1] == "sendall":
            _send_later(taken.fileno(), bytes(given[1]), self.while_s)
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    def _at_broker(self, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self._told()
        if self.moment != "refused":
            real(*given, **named)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True))

    def _heard(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(taken: socket.socket, *given: Any) -> Any:
            if taken in self._deaf:
                if self.moment == "lost" and self.while_s > 0.5:  # it was done, and the answer is on its way
                    select.select([taken], [], [], _ANSWER_S)
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            return real(taken, *given)

        return call


def _send_later(number: int, data: bytes, seconds: float) -> None:
    """Send it on a connection that its owner closes meanwhile, by a process that outlives this one."""
    if os.fork() == 0:
        try:
            os.closerange(3, number)
            os.closerange(number + 1, 1 << 16)
            time.sleep(seconds)
            while data:
                data = data[os.write(number, data) :]
            select.select([number], [], [], _ANSWER_S)
        finally:
            os._exit(0)


def is_tolerated(error: BaseException) -> bool:
    """Whether a run may end with it: it says what to do, and the next run does not take it for hopeless."""
    if isinstance(error, OSError):
        return error.errno in NO_ROOM  # which `cdc.job.run` tells as a StateError
    return isinstance(error, CdcError) and not isinstance(error, FINAL)
