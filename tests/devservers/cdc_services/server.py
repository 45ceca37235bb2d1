"""A running MySQL or MariaDB server: a handle to ask it things, and the kind that this process starts and ends."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from cdc_services import datadir
from cdc_services.installation import Installation, services_dir
from cdc_services.own_server import OwnServer
from cdc_services.process import ServerProcess, free_port, last_words, user_option
from cdc_services.workspace import Workspace

_names = itertools.count(1)
_COMMON = (
    "--bind-address=127.0.0.1", "--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--performance-schema=OFF",
    "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0",
    "--max-allowed-packet=256M",
)  # fmt: skip
_OPTIONS = {
    "mysql": (*_COMMON, "--mysqlx=OFF", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"),
    "mariadb": (*_COMMON, "--innodb-log-file-size=64M", "--character-set-server=utf8mb4"),
}


@dataclass
class MySqlServer:
    """A reachable server. `flavor` is `mysql` or `mariadb`, `version` such as `9.7.4`."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    flavor: str
    version: str

    def connect(self, **options: Any) -> Connection[Any]:
        """A new connection that commits by itself, without TLS; `options` are PyMySQL's and win over these."""
        defaults: dict[str, Any] = {
            "host": self.host, "port": self.port, "user": self.user, "password": self.password,
            "charset": "utf8mb4", "autocommit": True,
        }  # fmt: skip
        if not any(name.startswith("ssl") for name in options):
            defaults["ssl_disabled"] = True
        return pymysql.connect(**{**defaults, **options})

    def execute(self, *statements: str, database: str | None = None) -> tuple[tuple[Any, ...], ...]:
        """Run statements on one new connection, in order; the rows of the last one."""
        rows: tuple[tuple[Any, ...], ...] = ()
        connection = self.connect(database=database)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                    rows = tuple(cursor.fetchall())
        finally:
            connection.close()
        return rows

    def new_database(self, prefix: str = "t") -> str:
        """Create an empty database whose name nobody else uses; its name."""
        name = f"{prefix}_{os.getpid()}_{next(_names)}"
        self.execute(f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        return name


class StartedServer(OwnServer, MySqlServer):
    """A server that this process started, in a folder of its own. It dies with this process, however that ends."""

    def __init__(
        self, installation: Installation, extra_args: Sequence[str] = (), *, cache: Path | None = None, port: int = 0
    ) -> None:
        super().__init__("127.0.0.1", port, "root", datadir.ROOT_PASSWORD, installation.flavor, installation.version)
        self._workspace = Workspace(installation.flavor)
        self.folder = self._workspace.path
        self.datadir = self.folder / "data"
        self.extra_args = tuple(extra_args)
        self._installation = installation
        datadir.fresh(installation, cache or services_dir(), self.datadir)
        try:
            self.start() if port else self._start_on_a_free_port()
        except BaseException:
            self.close()
            raise

    def start(self, *extra_args: str) -> None:
        """Start again after `stop` or `kill9`: same port, same data, `extra_args` for this run. Waits for an answer."""
        if self.running:
            raise RuntimeError("the server is already running")
        self._process = ServerProcess(self._command(extra_args), self.log)
        self._wait_until_ready()

    def restart(self, *extra_args: str) -> None:
        """`stop`, then `start`."""
        self.stop()
        self.start(*extra_args)

    def _command(self, extra_args: Sequence[str]) -> list[str]:
        place = [f"--datadir={self.datadir}", f"--socket={self.folder / 's'}", f"--port={self.port}"]
        place += [f"--pid-file={self.folder / 'pid'}", f"--tmpdir={self.folder}"]
        if self.flavor == "mariadb":
            place.append(f"--lc-messages-dir={self._installation.share}")
        options = [*place, *_OPTIONS[self.flavor], *self.extra_args, *extra_args]
        return [*self._installation.command, *user_option(), *options]

    def _start_on_a_free_port(self, attempts: int = 3) -> None:
        for attempt in range(1, attempts + 1):
            self.port = free_port()
            try:
                self.start()
            except RuntimeError:
                # Between asking for a free port and using it another process may have taken it.
                taken = "Address already in use" in self.log.read_text(errors="replace")
                if attempt == attempts or not taken:
                    raise
            else:
                return

    def _wait_until_ready(self, timeout_s: float = 120.0) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            process = self._process
            if process is None or not process.alive:
                self._process = None
                raise RuntimeError(f"{self.flavor} ended while it started: {last_words(self.log)}")
            try:
                return self.connect(connect_timeout=10, read_timeout=10).close()
            except pymysql.err.OperationalError as error:
                if error.args[0] not in (2003, 2013) or time.monotonic() > deadline:
                    self._end(signal.SIGKILL)
                    raise RuntimeError(f"{self.flavor} does not answer: {error}") from error
            time.sleep(0.02)
