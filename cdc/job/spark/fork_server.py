"""Forks Spark's Python processes on this machine from one process that has loaded their modules already.

Spark starts a Python process per stream and a daemon per kind of work, whose workers import everything on their own: a
second or more each, and 180 MB that no other process shares. A launcher replaces the interpreter (`Forks`): for a
stream reader or a daemon it sends a request to this server, which forks one; for anything else it becomes the
interpreter. A fork shares the memory of everything loaded before it.

The server has one Python thread, next to those of OpenBLAS and jemalloc, which support forks (pthread_atfork(3)). It
ends when its standard input is closed: when the process that started it has ended. A reader ends when Spark closes its
connection, a daemon when Spark closes its standard input.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import importlib
import json
import logging
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

GRACE_S = 2.0
"""Seconds for a reader to end on its own after Spark has closed its connection."""


READER, DAEMON = "pyspark.sql.streaming.python_streaming_source_runner", "pyspark.daemon"
_FOR_FORKS = (READER, DAEMON, "pyspark.worker", "pyspark.sql.worker.create_data_source", "cdc.job.stream")
_ARGUMENTS_BEGIN = 45
"""The index of `arg_start` among the fields of /proc/PID/stat after the name (proc(5))."""


def serve(path: str, modules: Sequence[str]) -> None:
    """Serve requests at this socket until standard input is closed. A request is a kind, a length, and a body.

    `r` forks the equivalent of `python -m MODULE`, with the client's environment and standard streams. `w` calls a
    pickled callable to load modules. `t` calls it in a fork that ends afterwards and leaves compiled kernels on disk;
    the server keeps forking meanwhile. The response is `k`, or an error message. `modules` are loaded first.
    """
    from cdc.process.without_pandas import hide_pandas

    hide_pandas()
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    for module in (*_FOR_FORKS, *modules):
        importlib.import_module(module)
    gc.collect()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are reaped by the system
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to the group; the driver handles them
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        _listen(listening, path)
        try:
            os.write(1, b"k")
        except BrokenPipeError:  # the parent has ended meanwhile
            return
        while True:
            ready, _, _ = select.select([listening.fileno(), 0], [], [])
            if 0 in ready:
                return
            connection, _ = listening.accept()
            with connection:
                _answer(listening, connection)


def _listen(listening: socket.socket, path: str) -> None:
    """Listen at the path; exit with a message if the temporary folder is missing, full, or read-only."""
    try:
        with short_path(path) as short:
            listening.bind(short)
        os.chmod(path, 0o600)
    except OSError as error:
        sys.exit(f"cdc: {path}: cannot make a socket: {error.strerror}")
    listening.listen(64)


@contextlib.contextmanager
def short_path(path: str | Path) -> Iterator[str]:
    """Context manager: a path of the socket within the limit of 107 bytes, however long the temporary folder's path is.

    `fork_client` does the same.
    """
    folder = os.open(os.path.dirname(path), os.O_PATH)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def _answer(listening: socket.socket, connection: socket.socket) -> None:
    try:
        head = _receive_exactly(connection, 9)
        kind, length = head[:1], int.from_bytes(head[1:], "big")
        if kind == b"t":
            header = _receive_exactly(connection, length)
            if os.fork() == 0:
                listening.close()
                _try(header, connection)
            return
        if kind == b"w":
            pickle.loads(_receive_exactly(connection, length))()
            gc.collect()
            gc.freeze()
            connection.sendall(b"k")
            return
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        request = json.loads(_receive_exactly(connection, length))
        gc.freeze()  # garbage collections in a fork then do not touch shared memory
        if os.fork() == 0:
            _become(request, streams, listening, connection)
        for stream in streams:
            os.close(stream)
    except Exception as error:  # noqa: BLE001 - sent to the client; other clients need this process
        with contextlib.suppress(OSError):
            connection.sendall(f"{type(error).__name__}: {error}".encode())


def _try(header: bytes, connection: socket.socket) -> NoReturn:
    """Call a pickled callable in this process, a fork, and exit."""
    try:
        pickle.loads(header)()
        connection.sendall(b"k")
    except BaseException as error:  # noqa: BLE001 - a fork must never go on as the server
        with contextlib.suppress(OSError):
            connection.sendall(f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise EOFError("the client has closed the connection")
        data += part
    return data


def _become(job: dict[str, Any], streams: list[int], listening: socket.socket, connection: socket.socket) -> NoReturn:
    """Run as `python -m MODULE` in this process, a fork, and exit. A daemon keeps the connection open while it lives,
    as does its launcher."""
    arguments, code = job["arguments"], 1
    try:
        listening.close()
        connection.sendall(b"k")
        if arguments[0] == READER:
            connection.close()
            streams[0] = os.open(os.devnull, os.O_RDONLY)
        for source, target in zip(streams, (0, 1, 2), strict=True):
            os.dup2(source, target)
        descriptor = connection.fileno()
        for number in range(3, max(descriptor, *streams) + 1):
            if number != descriptor:
                with contextlib.suppress(OSError):
                    os.close(number)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(job["environment"])
        os.chdir(job["folder"])
        _show_as([sys.executable, "-m", *arguments])
        if arguments[0] == READER:
            _read()
        else:
            _run_daemon(arguments)
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except ConnectionError:
        pass  # Spark has closed the connection itself (see `StreamReader.stop`)
    except BaseException as error:  # noqa: BLE001 - a fork must never go on as the server
        logging.getLogger(__name__).error("%s: %s: %s", arguments[0], type(error).__name__, error)
    finally:
        os._exit(code & 255)


def _show_as(command: Sequence[str]) -> None:
    """Replace the command line shown in process lists, as far as it fits."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    begin, end = int(fields[_ARGUMENTS_BEGIN]), int(fields[_ARGUMENTS_BEGIN + 1])
    text = b"\0".join(argument.encode() for argument in command)[: end - begin - 1]
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def _run_daemon(arguments: Sequence[str]) -> None:
    """Fork workers for Spark until Spark closes standard input."""
    from pyspark.daemon import manager

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = list(arguments)
    manager()


def _read() -> None:
    """Run the stream reader. Return silently if Spark no longer waits for it, after a stop or ten seconds: the query
    has failed with that error already."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.serializers import write_int
    from pyspark.sql.streaming.python_streaming_source_runner import main
    from pyspark.util import local_connect_and_auth

    path, port = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH"), os.environ.get("PYTHON_WORKER_FACTORY_PORT", "-1")
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET")
    try:
        stream, connection = local_connect_and_auth(path or int(port), secret)
    except (PySparkRuntimeError, EOFError) as error:
        if any(f"[Errno {code}]" in str(error) for code in (errno.EMFILE, errno.ENFILE)):
            raise
        return
    connection.settimeout(None)
    write_int(os.getpid(), stream)  # type: ignore[no-untyped-call]
    stream.flush()
    ending = threading.Thread(target=_end_with, args=(connection.fileno(),), name="end-with-spark", daemon=True)
    ending.start()
    with stream:
        main(stream, stream)


def _end_with(connection: int) -> None:
    """Exit shortly after Spark has closed the connection, whatever this process is waiting for."""
    closed = select.poll()
    closed.register(connection, select.POLLRDHUP)
    closed.poll()
    time.sleep(GRACE_S)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
    os._exit(0)  # without clean-up, in which DuckDB's binding would report leaked objects
