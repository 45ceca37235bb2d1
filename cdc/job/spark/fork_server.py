"""Spark's Python processes on this machine as forks of one process that has loaded already what all of them need.

Spark starts a Python process for each stream and a daemon for each kind of work, whose workers load all by themselves:
a second or more each, and 180 MB that no other process shares. A launcher takes the interpreter's place (`Forks`): for
a stream reader and for a daemon it asks this server, which forks one, and for anything else it becomes the
interpreter. A fork shares the memory of what was loaded before it.

The server has one thread of Python's, beside those of OpenBLAS and jemalloc, which are made for being forked
(pthread_atfork(3)). It ends when its standard input does: when the process that started it is gone. A reader
ends when its connection with Spark does, a daemon when its standard input does, which is Spark's.
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
"""How long a reader has to end by itself once Spark has closed its connection."""


READER, DAEMON = "pyspark.sql.streaming.python_streaming_source_runner", "pyspark.daemon"
_FOR_FORKS = (READER, DAEMON, "pyspark.worker", "pyspark.sql.worker.create_data_source", "cdc.job.stream")
_ARGUMENTS_BEGIN = 45
"""The place of `arg_start` among the fields of /proc/PID/stat after the name (proc(5))."""


def serve(path: str, modules: Sequence[str]) -> None:
    """Answer requests at this socket until standard input ends. Requests: a kind, a length, the body.

    `r` forks what `python -m MODULE` would be, with the environment and the three standard streams of who asks; `w`
    loads what a pickled callable loads; `t` does so in a fork that ends then, which leaves compiled kernels on disk:
    meanwhile others are forked. All are answered with `k`, or with what went wrong. `modules` are loaded first.
    """
    from cdc.process.without_pandas import hide_pandas

    hide_pandas()
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    for module in (*_FOR_FORKS, *modules):
        importlib.import_module(module)
    gc.collect()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are reaped by the system
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to all; each ends with the one it works for
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        _listen(listening, path)
        try:
            os.write(1, b"k")
        except BrokenPipeError:  # who started this process has ended meanwhile
            return
        while True:
            ready, _, _ = select.select([listening.fileno(), 0], [], [])
            if 0 in ready:
                return
            connection, _ = listening.accept()
            with connection:
                _answer(listening, connection)


def _listen(listening: socket.socket, path: str) -> None:
    """Ends the process with a line where the place for temporary files is gone, full, or read-only."""
    try:
        with short_path(path) as short:
            listening.bind(short)
        os.chmod(path, 0o600)
    except OSError as error:
        sys.exit(f"cdc: {path}: cannot make a socket: {error.strerror}")
    listening.listen(64)


@contextlib.contextmanager
def short_path(path: str | Path) -> Iterator[str]:
    """A socket's path as the system takes it: not longer than 107 bytes, also where the place for temporary files has
    a longer name. `fork_client` does the same."""
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
            what = _receive_exactly(connection, length)
            if os.fork() == 0:
                listening.close()
                _try(what, connection)
            return
        if kind == b"w":
            pickle.loads(_receive_exactly(connection, length))()
            gc.collect()
            gc.freeze()
            connection.sendall(b"k")
            return
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        asked = json.loads(_receive_exactly(connection, length))
        gc.freeze()  # collections in a fork leave what is shared alone
        if os.fork() == 0:
            _become(asked, streams, listening, connection)
        for stream in streams:
            os.close(stream)
    except Exception as error:  # noqa: BLE001 - told to the one who asked; the others need this process
        with contextlib.suppress(OSError):
            connection.sendall(f"{type(error).__name__}: {error}".encode())


def _try(what: bytes, connection: socket.socket) -> NoReturn:
    """Load in this process, a fork, and end."""
    try:
        pickle.loads(what)()
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
            raise EOFError("the one who asked has gone")
        data += part
    return data


def _become(asked: dict[str, Any], streams: list[int], listening: socket.socket, connection: socket.socket) -> NoReturn:
    """Be `python -m MODULE` in this process, a fork, to its end. A daemon leaves the connection open as long as it
    lives, as its launcher does."""
    arguments, code = asked["arguments"], 1
    try:
        listening.close()
        connection.sendall(b"k")
        if arguments[0] == READER:
            connection.close()
            streams[0] = os.open(os.devnull, os.O_RDONLY)
        for source, target in zip(streams, (0, 1, 2), strict=True):
            os.dup2(source, target)
        kept = connection.fileno()
        for number in range(3, max(kept, *streams) + 1):
            if number != kept:
                with contextlib.suppress(OSError):
                    os.close(number)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        _show_as([sys.executable, "-m", *arguments])
        if arguments[0] == READER:
            _read()
        else:
            _run_daemon(arguments)
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except ConnectionError:
        pass  # Spark has closed the connection, and knows (see `StreamReader.stop`)
    except BaseException as error:  # noqa: BLE001 - a fork must never go on as the server
        logging.getLogger(__name__).error("%s: %s: %s", arguments[0], type(error).__name__, error)
    finally:
        os._exit(code & 255)


def _show_as(command: Sequence[str]) -> None:
    """Let lists of processes show a command in place of the server's, as far as there is room for it."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    begin, end = int(fields[_ARGUMENTS_BEGIN]), int(fields[_ARGUMENTS_BEGIN + 1])
    text = b"\0".join(word.encode() for word in command)[: end - begin - 1]
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def _run_daemon(arguments: Sequence[str]) -> None:
    """Fork workers for Spark until its end of standard input is closed."""
    from pyspark.daemon import manager

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = list(arguments)
    manager()


def _read() -> None:
    """Work for Spark. Where it waits for no reader any more, as a run has been stopped or ten seconds have passed, its
    query has failed with that, and there is nothing to add."""
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
    """End this process soon after Spark has closed the connection, whatever it waits for then."""
    closed = select.poll()
    closed.register(connection, select.POLLRDHUP)
    closed.poll()
    time.sleep(GRACE_S)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
    os._exit(0)  # at once: what was loaded has nothing to clean up, and DuckDB's binding would report its objects
