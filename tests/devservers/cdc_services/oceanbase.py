"""The engine of OceanBase as one server on this machine, from the package `pylibseekdb` (Linux, x86_64 and aarch64).

It speaks the MySQL protocol and has OceanBase's SQL, transactions and time limits. It has neither tenants and clusters
in user names, nor OBProxy, XA, a binary log, or other character sets than utf8mb4: a full OceanBase has.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from pathlib import Path

import pymysql

from cdc_services.own_server import OwnServer
from cdc_services.process import ServerProcess, free_port, last_words
from cdc_services.server import MySqlServer
from cdc_services.workspace import Workspace

PACKAGE = "pylibseekdb"
_PARAMETERS = ("memory_budget=1G", "datafile_size=512M", "datafile_next=256M", "datafile_maxsize=8G",
               "log_disk_size=2G", "cpu_count=2")  # fmt: skip


def find() -> Path | None:
    """The folder of the server program, None where the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    return folder if folder is not None and (folder / "seekdb").is_file() else None


class OceanBaseServer(OwnServer, MySqlServer):
    """A server that this process started, in a folder of its own; user root without a password."""

    def __init__(self, port: int = 0) -> None:
        super().__init__("127.0.0.1", port or free_port(), "root", "", "oceanbase", "")
        self._workspace = Workspace("oceanbase")
        self.folder = self._workspace.path
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self, attempts: int = 3) -> None:
        """Start, or start again after `stop` or `kill9` with the same data. Waits for an answer.

        Raises RuntimeError with the server's words when it does not start.
        """
        for attempt in range(1, attempts + 1):
            try:
                self._start_once()
                return
            except RuntimeError:  # right after a kill the former process still holds the folder for a moment
                if attempt == attempts:
                    raise

    def _start_once(self) -> None:
        folder = find()
        if folder is None:
            raise RuntimeError(f"the package {PACKAGE} is not installed")
        parameters = [word for parameter in _PARAMETERS for word in ("--parameter", parameter)]
        command = [
            str(folder / "seekdb"),
            "--nodaemon",
            "--port",
            str(self.port),
            "--base-dir",
            str(self.folder / "data"),
        ]
        libraries = f"LD_LIBRARY_PATH={folder}"
        self._process = ServerProcess(["env", libraries, *command, *parameters, "--log-level", "WARN"], self.log)
        deadline = time.monotonic() + 120
        while True:
            if not self.running:
                self._process = None
                raise RuntimeError(f"the server ended while it started: {last_words(self.log)}")
            try:
                self.connect(connect_timeout=10, read_timeout=10).close()
                return
            except pymysql.err.OperationalError as error:
                if time.monotonic() > deadline:
                    self._end(signal.SIGKILL)
                    raise RuntimeError(f"the server does not answer: {error}") from error
                os.sched_yield()
