"""Starts the fork server (`cdc.job.spark.fork_server`) and the launcher that replaces the interpreter. Driver."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from cdc.errors import EngineError
from cdc.job.spark.fork_server import DAEMON, READER, short_path
from cdc.job.spark.java import Java
from cdc.job.spark.session import ONE_ARENA, end_spark, start_session

_LAUNCHER = """#!/bin/sh
case "$2" in {reader}|{daemon}) exec {python} -I -S {client} {socket} "$@"; esac
exec {python} "$@"
"""


def forked_session(
    stack: contextlib.ExitStack,
    name: str,
    master: str,
    java: Java,
    scratch: Path,
    settings: Mapping[str, str],
    modules: Sequence[str] = (),
) -> tuple[SparkSession, Forks | None]:
    """Start a session whose Python processes are forked with these modules loaded, where forks are supported.

    `stack` ends the fork server. Raises EngineError if Spark or the server does not start.
    """
    forks = local_forks(master, scratch)
    if forks is not None:
        stack.callback(forks.stop)
        forks.begin(*modules)
    spark = start_session(name, master, java, scratch, settings)
    if forks is not None:
        try:
            forks.start()
        except EngineError:
            end_spark(spark)
            raise
        spark.sparkContext.pythonExec = str(forks.launcher)
    return spark, forks


def local_forks(master: str, folder: Path) -> Forks | None:
    """A fork server for Spark's Python processes; None on a cluster and on systems other than Linux."""
    return Forks(folder) if master.startswith("local") and sys.platform == "linux" else None


class Forks:
    """A fork server in a folder, from `start` to `stop`. `launcher` is the program that Spark starts as Python."""

    def __init__(self, folder: Path) -> None:
        self._socket, self.launcher = folder / "forks", folder / "python"
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, *modules: str) -> None:
        """Write the launcher and launch the server, which loads these modules."""
        # files in the current folder, such as enum.py, are modules there only if they are modules in this process
        same_path = () if {"", os.getcwd()} & set(sys.path) else ("-P",)
        command = [sys.executable, *same_path, "-m", "cdc.job.spark.fork_server", str(self._socket), *modules]
        # its own process group: a terminal's signals are for the driver, also while the server starts
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0, env={**os.environ, **ONE_ARENA}
        )
        client = Path(__file__).with_name("fork_client.py")
        fields = {
            "reader": READER, "daemon": DAEMON, "python": sys.executable, "client": client, "socket": self._socket,
        }  # fmt: skip
        self.launcher.write_text(_LAUNCHER.format(**{name: shlex.quote(str(value)) for name, value in fields.items()}))
        self.launcher.chmod(0o700)

    def start(self) -> None:
        """Wait until the server is up. Raises EngineError if it does not start."""
        assert self._process is not None
        assert self._process.stdout is not None
        if self._process.stdout.read(1) != b"k":
            raise EngineError(
                "the process that Spark's Python processes are forked from does not start", hint="see the lines above"
            )

    def load(self, load: Callable[[], Any], *, busy: bool = False) -> str:
        """Let the server call a picklable that loads modules; return the error message, empty on success.

        The server is blocked meanwhile, and Spark waits at most ten seconds for a reader. So if the server is `busy`, a
        fork calls it first: slow steps such as compiling kernels are done then.
        """
        data = cloudpickle.dumps(load)  # type: ignore[no-untyped-call]
        return (self._load(b"t", data) if busy else "") or self._load(b"w", data)

    def _load(self, kind: bytes, data: bytes) -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            with short_path(self._socket) as path:
                server.connect(path)
            server.sendall(kind + len(data).to_bytes(8, "big") + data)
            answer = b"".join(iter(lambda: server.recv(4096), b""))
        return "" if answer == b"k" else answer.decode("utf-8", "replace")

    def alive(self) -> bool:
        """Whether the server is running."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End the server; running readers continue."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._process = None
