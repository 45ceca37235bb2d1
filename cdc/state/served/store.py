"""The state on an executor, served by the driver. Picklable: created on the driver and sent with the tasks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

from cdc.errors import StateError, StateUnavailable, from_json
from cdc.retry import RetryPolicy
from cdc.state.append_log import AppendLog
from cdc.state.served.wire import (
    BUFFER,
    PIECE,
    StateEndpoint,
    begin,
    client_context,
    enable_keepalive,
    read_exactly,
    receive,
    send,
)
from cdc.state.store import Store

_CONNECT_S = 10.0
_LOOK_S = 0.2
_HINT = (
    "executors reach the driver at spark.driver.host: name an address there that they can reach, and open the port in "
    "firewalls (CDC_STATE_PORT is the first of 32 that are tried)"
)


class DriverConnection:
    """This process's connection to the driver. Threads share it, one request at a time."""

    def __init__(self, endpoint: StateEndpoint) -> None:
        self._endpoint, self._lock = endpoint, threading.Lock()
        self._file: IO[bytes] | None = None

    def request(
        self, op: str, fields: Mapping[str, Any], data: bytes | Path = b"", *, once: bool = False
    ) -> tuple[dict[str, Any], bytes]:
        """Send a repeatable request and return the response. Raises the driver's error, StateUnavailable."""
        retry = RetryPolicy(0.0 if once else self._endpoint.timeout_s, longest_pause_s=2.0)
        with self._lock:
            return retry.call(lambda: self._exchange({"op": op, **fields}, data), "the driver's state")

    def _exchange(self, fields: Mapping[str, Any], data: bytes | Path) -> tuple[dict[str, Any], bytes]:
        try:
            file = self._file = self._file or self._connect()
            _send_file(file, fields, data)
            found = receive(file)
            if found is None:
                raise ConnectionError("the driver has closed the connection")
            answer, size = found
            body = read_exactly(file, size)
        except (OSError, ValueError) as error:
            self._disconnect()
            where = f"{self._endpoint.host}:{self._endpoint.port}"
            reason = f"the machine {socket.gethostname()} does not reach the driver of the run: {error}"
            raise StateUnavailable(reason, where=where, hint=_HINT) from error
        except BaseException:  # its response may still arrive, and would be taken for that of the next request
            self._disconnect()
            raise
        if "error" in answer:
            raise from_json(answer["error"])
        return answer, body

    def _connect(self) -> IO[bytes]:
        endpoint = self._endpoint
        plain = socket.create_connection((endpoint.host, endpoint.port), _CONNECT_S)
        connection = client_context(endpoint.certificate).wrap_socket(plain)
        file: IO[bytes] = cast("IO[bytes]", connection.makefile("rwb", buffering=BUFFER))
        connection.close()  # it ends with the file
        try:
            send(file, {"token": endpoint.token})
            if receive(file) is None:
                raise ConnectionError("the driver has refused the connection")
            enable_keepalive(connection)
        except BaseException:
            _close(file)
            raise
        return file

    def _disconnect(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            _close(file)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError, ValueError):  # it flushes what a broken connection cannot take
        file.close()


def _send_file(file: IO[bytes], fields: Mapping[str, Any], data: bytes | Path) -> None:
    if isinstance(data, bytes):
        send(file, fields, data)
        return
    with open(data, "rb") as staged:
        remaining = os.fstat(staged.fileno()).st_size
        begin(file, fields, remaining)
        while remaining:
            piece = read_exactly(staged, min(remaining, PIECE))
            file.write(piece)
            remaining -= len(piece)
    file.flush()


@lru_cache(maxsize=16)
def _connection_to(endpoint: StateEndpoint, process: int) -> DriverConnection:
    """The connection of this process; a forked child has its own. Connections of ended runs are closed."""
    return DriverConnection(endpoint)


@dataclass(frozen=True, slots=True)
class ServedStore(Store):
    """A store served by the driver. `folder` is the part of the state, empty for all of it."""

    endpoint: StateEndpoint
    folder: str = ""

    def where(self, name: str = "") -> str:
        """The location on the driver, or in the object store."""
        return "/".join(filter(None, (self.endpoint.where, self.folder, name)))

    def within(self, folder: str) -> ServedStore:
        """The part of the store below `folder`."""
        return ServedStore(self.endpoint, f"{self.folder}/{folder}" if self.folder else folder)

    def read(self, name: str) -> bytes | None:
        """The current content of a document."""
        answer, data = self._request("read", name=name)
        return data if answer["there"] else None

    def write(self, name: str, data: bytes) -> None:
        """Write a document; it is on the driver's disk when this returns."""
        self._request("write", data, name=name, later=False)

    def write_later(self, name: str, data: bytes) -> None:
        """Write a document that a restart does not need."""
        self._request("write", data, name=name, later=True)

    def remove(self, name: str) -> None:
        """Remove a document."""
        self._request("remove", name=name)

    def names(self) -> list[str]:
        """The names of the documents."""
        return list(self._request("names")[0]["names"])

    def log(self, name: str, kind: str, header: Mapping[str, Any] | None = None) -> AppendLog:
        """A log that is read here and written on the driver."""
        return ServedLog(self, name, kind, header)

    def bulk(self, folder: str) -> Path:
        """A local folder among Spark's temporary files; `persist` uploads files from it."""
        scratch = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
        return Path(scratch) / f"cdc-{self.endpoint.port}-{os.getpid()}" / self.folder / folder

    def persist(self, path: Path) -> None:
        """Move a file to the driver, where it is on disk when this returns.

        It is removed here even when this raises: a new attempt stages the rows again.
        """
        try:
            self._request("persist", path, path=path.relative_to(self.bulk("")).as_posix())
        finally:
            path.unlink(missing_ok=True)
        for other in path.parent.parent.iterdir():  # folders of earlier batches: a process has one task at a time
            if other != path.parent:
                shutil.rmtree(other, ignore_errors=True)

    def note(self, path: Path, data: bytes) -> None:
        """Append lines to a file on the driver."""
        self._request("note", data, path=path.relative_to(self.bulk("")).as_posix())

    def check(self) -> None:
        """Raise StateUnavailable if the driver cannot be reached."""
        self._request("stopping")

    def _request(self, op: str, data: bytes | Path = b"", **fields: Any) -> tuple[dict[str, Any], bytes]:
        return _connection_to(self.endpoint, os.getpid()).request(op, {"folder": self.folder, **fields}, data)


class ServedLog(AppendLog):
    """A log read incrementally from the driver."""

    def __init__(self, store: ServedStore, name: str, kind: str, header: Mapping[str, Any] | None) -> None:
        super().__init__(Path(store.where(name)), kind, header)
        self._store, self._name, self._first_line = store, name, header

    def __getstate__(self) -> dict[str, Any]:
        more = {"_store": self._store, "_name": self._name, "_first_line": self._first_line}
        return {**super().__getstate__(), **more}

    def append(self, *items: Mapping[str, Any]) -> int:
        """Raise StateError: requests are repeatable, and a repeated append would double lines."""
        raise self._only_driver()

    def truncate(self, count: int) -> None:
        """Raise StateError: only the driver truncates logs."""
        raise self._only_driver()

    def _only_driver(self) -> StateError:
        hint = "this is a defect: report it"
        return StateError(f"the {self._kind} is written by the driver alone", where=str(self.path), hint=hint)

    def _refresh(self) -> None:
        answer, data = self._store._request(
            "log", name=self._name, what=self._kind, header=self._first_line, generation=self.generation,
            have=len(self._items),
        )  # fmt: skip
        if answer["generation"] != self.generation or answer["first"] != len(self._items):
            self._start_over(answer["generation"], 0)
        self._items += json.loads(data)


class ServedStop:
    """The stop request of a run, for its tasks. Queries the driver a few times a second at most. Picklable."""

    def __init__(self, endpoint: StateEndpoint) -> None:
        self._endpoint = endpoint
        self._looked_s, self._stopping = float("-inf"), False

    def __reduce__(self) -> tuple[Any, ...]:
        return ServedStop, (self._endpoint,)

    def exists(self) -> bool:
        """Whether a stop is requested; also true if the driver is gone, as the task's rows are of no use then."""
        now = time.monotonic()
        if not self._stopping and now - self._looked_s >= _LOOK_S:
            self._looked_s = now
            try:
                answer, _ = _connection_to(self._endpoint, os.getpid()).request("stopping", {"folder": ""}, once=True)
            except StateUnavailable:
                return True
            self._stopping = bool(answer["stopping"])
        return self._stopping
