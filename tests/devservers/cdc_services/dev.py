"""`cdc dev mysql` and `cdc dev mariadb`: a real server with a small shop that somebody keeps writing to, for trials."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from cdc.errors import SourceUnavailable
from cdc_services.apt_sources import mirror
from cdc_services.ending import Ending
from cdc_services.install import install, present
from cdc_services.installation import Installation, services_dir
from cdc_services.process import port_is_free
from cdc_services.server import StartedServer
from cdc_services.shop import TABLES, Shop

_NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}
_OPTIONS = (
    "--local-infile=ON",
    "--binlog-row-metadata=FULL",
    "--max-binlog-size=64M",
    "--binlog-expire-logs-seconds=86400",
)

Port = Annotated[int, typer.Option("--port", help="The server's port; 0 takes a free one.")]
Writes = Annotated[
    float, typer.Option("--writes", metavar="N", min=0, max=1000, help="Transactions a second; 0: nobody writes.")
]


def mysql(port: Port = 3306, writes: Writes = 2) -> None:
    """Run a real MySQL with a small shop that is written to, until Ctrl-C. Only this machine reaches it."""
    serve("mysql", port, writes)


def mariadb(port: Port = 3307, writes: Writes = 2) -> None:
    """Run a real MariaDB with a small shop that is written to, until Ctrl-C. Only this machine reaches it."""
    serve("mariadb", port, writes)


def serve(flavor: str, port: int, writes: float) -> None:
    """Run the server until SIGINT or SIGTERM, then end it and remove its data; says how to run a pipeline from it.

    Raises SourceUnavailable when it cannot be installed on this machine, does not start, or ends by itself.
    """
    ending = Ending()
    with _started(_installed(flavor), port) as server:
        shop = Shop(server)
        shop.open()
        _say(greeting(server, writes))
        writer = threading.Thread(target=shop.write_until, args=(ending.over, writes, _say), name="shop", daemon=True)
        if writes:
            writer.start()
        ending.wait(server, "the server")
        if writes:
            writer.join()
    _say(f"{shop.written:,} transactions were written; the server and its data are gone")


def greeting(server: StartedServer, writes: float) -> str:
    """What is printed when the server is ready: what it is, and the pipeline to run next."""
    name = f"{_NAMES[server.flavor]} {server.version}"
    written = f"{writes:g} transactions a second are written to it" if writes else "nobody writes to it"
    return (
        f"{name} on {server.host}:{server.port}, for trials only: user {server.user}, password {server.password}\n"
        f"database shop ({', '.join(TABLES)}): {written}\n\n"
        f"shop.yaml:\n\n"
        f"source:\n  type: mysql\n  hostname: {server.host}\n  port: {server.port}\n  username: {server.user}\n"
        f"  password: ${{MYSQL_PASSWORD}}\n  tables: shop.\\.*\n"
        f"sink:\n  type: duckdb\n  path: mirror.duckdb\n\n"
        f"in another terminal:\n\n"
        f"export MYSQL_PASSWORD={server.password}\n"
        f"cdc run shop.yaml\n\n"
        "Ctrl-C stops the server and removes its data."
    )


def _installed(flavor: str) -> Installation:
    found = present(flavor, services_dir())
    if found is not None:
        return found
    name = _NAMES[flavor]
    _say(f"{name} is not here yet: Debian's packages are unpacked into {services_dir()} (once; no root needed)")
    try:
        return install(flavor, services_dir(), mirror(), _say)
    except (LookupError, ValueError, OSError, subprocess.CalledProcessError) as error:
        hint = f"take a server of your own, or Docker: docker compose up -d --wait {flavor}"
        raise SourceUnavailable(f"{name} cannot be installed on this machine: {error}", hint=hint) from error


@contextmanager
def _started(installation: Installation, port: int) -> Iterator[StartedServer]:
    if port and not port_is_free(port):
        raise SourceUnavailable(f"port {port} is in use", hint="choose another --port; 0 takes a free one")
    try:
        server = StartedServer(installation, _OPTIONS, port=port)
    except (RuntimeError, OSError) as error:
        raise SourceUnavailable(f"{_NAMES[installation.flavor]} does not start: {error}") from error
    try:
        yield server
    finally:
        if not server.running:
            _say(server.last_words())
        server.close()


def _say(text: str) -> None:
    print(text, flush=True)
