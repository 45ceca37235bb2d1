"""Serves the state of a run to its executors. Driver; threads of its process."""

from __future__ import annotations

import contextlib
import hmac
import io
import json
import logging
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from cdc.errors import CdcError, StateError
from cdc.state.append_log import AppendLog
from cdc.state.directory import StateDir
from cdc.state.durable import create_folder, durable, state_error
from cdc.state.served.wire import (
    BUFFER,
    StateEndpoint,
    enable_keepalive,
    new_certificate,
    read_exactly,
    read_pieces,
    receive,
    send,
)

log = logging.getLogger(__name__)

_AUTHENTICATE_S = 20.0
_TOKEN_BYTES = 512
_MOST_UNAUTHENTICATED = 512
"""The most unauthenticated connections at a time."""
_AGAIN_S = 0.2
_TRIED_PORTS = 32
_SPARE = ".tmp"
_ENDS_S = 10.0

Answer = tuple[Mapping[str, Any], bytes]


class StateServer:
    """Serves one state directory to the executors of one run, from `start` to `close`.

    Args:
        state: of the run; its store may be a folder or a working copy.
        host: the address by which executors reach the driver.
        bind: the address to listen at.
        port: the first port to try, then the 31 after it; 0 for any.
    """

    def __init__(self, state: StateDir, host: str, bind: str, port: int = 0) -> None:
        self._state = state
        self._tls, certificate = new_certificate(state.root / "control")
        self._listening = _listening(bind, port)
        bound_port = int(self._listening.getsockname()[1])
        self.endpoint = StateEndpoint(
            host, bound_port, secrets.token_hex(32), certificate, state.store.where().rstrip("/")
        )
        self._token = self.endpoint.token.encode()
        self._lock = threading.Lock()
        self._logs: dict[tuple[str, str], AppendLog] = {}
        self._open = set[socket.socket]()
        self._threads = set[threading.Thread]()
        self._closed = threading.Event()
        self._unauthenticated = threading.BoundedSemaphore(_MOST_UNAUTHENTICATED)
        self._operations: dict[str, Callable[[Mapping[str, Any], bytes], Answer]] = {
            "read": self._read, "names": self._names, "log": self._log, "write": self._write, "remove": self._remove,
            "note": self._note, "stopping": self._stopping,
        }  # fmt: skip

    def start(self) -> StateEndpoint:
        """Start serving."""
        self._begin(self._accept, "state-server")
        return self.endpoint

    def close(self) -> None:
        """Stop serving. Writes in progress have ended when this returns, as the next run may start then.

        Waits at most ten seconds, for a disk that hangs.
        """
        with self._lock:
            self._closed.set()
            connections, threads = [self._listening, *self._open], list(self._threads)
        for connection in connections:  # its thread closes it
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        deadline = time.monotonic() + _ENDS_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._listening.close()
        alive = sum(thread.is_alive() for thread in threads)
        if alive:
            log.warning("%d requests of executors are still being answered: does the disk hang?", alive)

    def _begin(self, work: Callable[..., None], name: str, *arguments: Any) -> None:
        """Start a thread that `close` waits for. Raises RuntimeError."""

        def run() -> None:
            try:
                work(*arguments)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        thread = threading.Thread(target=run, name=name, daemon=True)
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("it is closed")
            thread.start()
            self._threads.add(thread)

    def _accept(self) -> None:
        """Accept connections; continue without a free file descriptor or thread, as one may become free."""
        while not self._closed.is_set():
            try:
                connection, _ = self._listening.accept()
                self._start_connection(connection)
            except (OSError, RuntimeError) as error:
                if not self._closed.wait(_AGAIN_S):
                    log.warning("an executor's connection was not accepted: %s", error)

    def _start_connection(self, connection: socket.socket) -> None:
        """Start a thread for a connection. Raises RuntimeError."""
        with contextlib.ExitStack() as stack:
            stack.callback(connection.close)
            if not self._unauthenticated.acquire(blocking=False):
                raise RuntimeError(f"{_MOST_UNAUTHENTICATED} others have not identified themselves")
            stack.callback(self._unauthenticated.release)
            self._begin(self._serve, "state-for-executor", connection)
            stack.pop_all()

    def _serve(self, connection: socket.socket) -> None:
        """Serve one executor's connection until it ends, which may happen at any moment."""
        try:
            wrapped = self._authenticate(connection)
            if wrapped is None:
                return
            file: Any
            with wrapped, self._track_connection(wrapped), wrapped.makefile("rwb", buffering=BUFFER) as file:
                self._answer_requests(wrapped, file)
        except (OSError, ValueError, _Broken) as error:
            log.debug("a connection to the state has ended: %s", error)
        finally:
            connection.close()

    @contextlib.contextmanager
    def _track_connection(self, connection: socket.socket) -> Iterator[None]:
        """Context manager: `close` ends the connection within the block. Raises _Broken if it was called already."""
        with self._lock:
            if self._closed.is_set():
                raise _Broken("the run has ended")
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)

    def _authenticate(self, connection: socket.socket) -> ssl.SSLSocket | None:
        """The TLS connection of a client with the token; None for others.

        The token is in one TLS record, so that an unauthenticated client takes little time and memory.
        """
        try:
            connection.settimeout(_AUTHENTICATE_S)
            wrapped = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            try:
                with self._track_connection(wrapped):
                    wrapped.do_handshake()
                    hello = receive(io.BytesIO(wrapped.recv(_TOKEN_BYTES)))
                if hello is not None and hmac.compare_digest(str(hello[0].get("token")).encode(), self._token):
                    return wrapped
            except BaseException:
                wrapped.close()
                raise
            wrapped.close()
            return None
        finally:
            self._unauthenticated.release()

    def _answer_requests(self, connection: ssl.SSLSocket, file: IO[bytes]) -> None:
        send(file, {})
        enable_keepalive(connection)
        while (message := receive(file)) is not None:
            fields, size = message
            answer, data = (
                self._receive_file(fields, file, size)
                if fields["op"] == "persist"
                else self._run_operation(fields, file, size)
            )
            send(file, answer, data)

    def _run_operation(self, fields: Mapping[str, Any], file: IO[bytes], size: int) -> Answer:
        data = read_exactly(file, size)
        try:
            return self._operations[fields["op"]](fields, data)
        except CdcError as error:
            return {"error": error.to_json()}, b""

    def _receive_file(self, fields: Mapping[str, Any], file: IO[bytes], size: int) -> Answer:
        """Receive a file of staged rows, which is synced and durable before the response. Repeatable."""
        remaining = _incoming(file, size)
        try:
            store = self._store(fields)
            path = store.bulk("") / _checked(fields["path"])
            temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_SPARE}")
            try:
                create_folder(path.parent)
                with durable(temporary, path) as staged:
                    for piece in remaining:
                        staged.write(piece)
                store.persist(path)
            except OSError as error:  # also when the batch's folder went meanwhile: nobody wants these rows any more
                raise state_error(path, error) from error
        except CdcError as error:
            for _ in remaining:  # the next message begins after them
                pass
            return {"error": error.to_json()}, b""
        return {}, b""

    def _store(self, fields: Mapping[str, Any]) -> Any:
        folder = fields["folder"]
        return self._state.store.within(str(_checked(folder))) if folder else self._state.store

    def _read(self, fields: Mapping[str, Any], _: bytes) -> Answer:
        found = self._store(fields).read(str(_checked(fields["name"])))
        return {"there": found is not None}, found or b""

    def _names(self, fields: Mapping[str, Any], _: bytes) -> Answer:
        return {"names": self._store(fields).names()}, b""

    def _log(self, fields: Mapping[str, Any], _: bytes) -> Answer:
        """The entries of a log that the executor does not have; all of them if the log was truncated since."""
        key = (fields["folder"], fields["name"])
        with self._lock:
            if key not in self._logs:
                name = str(_checked(fields["name"]))
                self._logs[key] = self._store(fields).log(name, fields["what"], fields["header"])
            found = self._logs[key]
        while True:
            count, generation = len(found), found.generation
            first = fields["have"] if generation == fields["generation"] and fields["have"] <= count else 0
            items = list(found.items(first))
            if found.generation == generation:  # else it was cut between the two calls
                return {"generation": generation, "first": first}, json.dumps(items).encode()

    def _write(self, fields: Mapping[str, Any], data: bytes) -> Answer:
        store, name = self._store(fields), str(_checked(fields["name"]))
        (store.write_later if fields["later"] else store.write)(name, data)
        return {}, b""

    def _remove(self, fields: Mapping[str, Any], _: bytes) -> Answer:
        self._store(fields).remove(str(_checked(fields["name"])))
        return {}, b""

    def _note(self, fields: Mapping[str, Any], data: bytes) -> Answer:
        store = self._store(fields)
        store.note(store.bulk("") / _checked(fields["path"]), data)
        return {}, b""

    def _stopping(self, _: Mapping[str, Any], __: bytes) -> Answer:
        return {"stopping": self._state.stop_requested()}, b""


class _Broken(Exception):
    """The connection has ended in the middle of a file; distinct from errors of the disk."""


def _incoming(file: IO[bytes], size: int) -> Iterator[bytes]:
    """The next `size` bytes, in pieces. Raises _Broken."""
    try:
        yield from read_pieces(file, size)
    except OSError as error:
        raise _Broken(str(error)) from error


def _checked(name: str) -> Path:
    """A path below a folder. Raises StateError for one that leads outside."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise StateError("names nothing of the state", where=name, hint="this is a defect: report it")
    return path


def _listening(bind: str, port: int) -> socket.socket:
    """A socket at the first free port. Raises StateError."""
    ports = range(port, min(port + _TRIED_PORTS, 65536)) if port else (0,)
    why: OSError | None = None
    for each in ports:
        try:
            family = socket.getaddrinfo(bind, each, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((bind, each), family=family, backlog=128)
        except OSError as error:
            why = error
    raise StateError(
        f"the driver cannot listen for its executors: {why}",
        where=f"{bind}:{port or 'any port'}",
        hint="set spark.driver.bindAddress (and spark.driver.host) to an address of this machine, CDC_STATE_PORT to "
        "the first of 32 ports that may be used",
    ) from why
