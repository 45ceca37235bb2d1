"""Calls of a process to what is outside of it: one of them kills the process, before it, while it goes on or after it.

    Doom(7, "after").settle("mysql")     the seventh call to a socket or a file is the last thing that this process does

It is for forked processes: nothing is put back.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import duckdb
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from connectors.kafka import client as kafka_client

MOMENTS = ("before", "after", "while")
FILES = ("open", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link")
_SOCKETS = ("connect", "sendall", "send", "sendmsg")
KAFKA: dict[type, tuple[str, ...]] = {
    Producer: (
        "init_transactions", "begin_transaction", "send_offsets_to_transaction", "commit_transaction",
        "abort_transaction", "produce_batch", "produce", "list_topics",
    ),
    Consumer: ("committed", "commit", "list_topics"),
    AdminClient: ("create_topics", "create_partitions", "list_topics", "describe_topics"),
}  # fmt: skip


def die() -> None:
    """End this process as the kernel ends one that has no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Doom:
    """Counts calls; the one with the number `at`, from 1, kills. `names` are those that were counted."""

    moments: ClassVar[tuple[str, ...]] = MOMENTS
    longest_s: ClassVar[float] = 0.004
    widths: ClassVar[tuple[int, ...]] = (1,)
    at: int = 0
    moment: str = "before"
    while_s: float = 0.001
    width: int = 1
    report: Callable[[str], None] = lambda told: None
    names: list[str] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    def settle(self, owners: list[tuple[Any, str]]) -> None:
        """Watch files, sockets, DuckDB, Kafka's clients, and functions of a connector's library besides."""
        watched = [(os, name) for name in FILES] + [(socket.socket, name) for name in _SOCKETS]
        for owner, name in [*watched, *owners]:
            setattr(owner, name, self._watched(getattr(owner, name)))
        duckdb.connect = self._connected(duckdb.connect)
        for kind, names in KAFKA.items():
            methods = {name: self._watched(getattr(kind, name)) for name in names}
            setattr(kafka_client, kind.__name__, type(kind.__name__, (kind,), methods))

    def __call__(self, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        with self._lock:
            self.names.append(getattr(real, "__name__", str(real)))
            is_last = 0 < self.at <= len(self.names) < self.at + self.width
        return self.last(real, *given, **named) if is_last else real(*given, **named)

    def last(self, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """The call with the number `at`."""
        self.report(f"{self.moment} call {self.at}, {self.names[-1]}")
        if self.moment == "before":
            die()
        if self.moment == "while":
            threading.Thread(target=lambda: (time.sleep(self.while_s), die()), daemon=True).start()
        try:
            return real(*given, **named)
        finally:
            die()

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            return self(real, *given, **named)

        return call

    def _connected(self, real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: _Connection(self, self(real, *given, **named))


class _Connection:
    """A connection of DuckDB, whose statements are calls."""

    def __init__(self, doom: Doom, real: Any) -> None:
        self._doom, self._real = doom, real

    def execute(self, *given: Any) -> Any:
        return self._doom(self._real.execute, *given)

    def close(self) -> None:
        self._doom(self._real.close)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
