"""`cdc dev mysql` and `cdc dev mariadb`: a real server with a small shop that somebody keeps writing to, for trials."""

from __future__ import annotations

import subprocess
import threading
from functools import partial
from typing import Annotated

import typer

from cdc.errors import SourceUnavailable
from cdc_services.apt_sources import mirror
from cdc_services.install import install, present
from cdc_services.installation import Installation, services_dir
from cdc_services.server import StartedServer
from cdc_services.shop import TABLES, Shop
from cdc_services.trial import Ending, say, started

_NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}
_OPTIONS = (
    "--local-infile=ON",
    "--binlog-row-metadata=FULL",
    "--max-binlog-size=64M",
    "--binlog-expire-logs-seconds=86400",
)

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The server's port; 0 takes a free one.")]
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
    found = _installed(flavor)
    start = partial(StartedServer, found, _OPTIONS, port=port)
    with started(_NAMES[flavor], port, start, StartedServer.last_words) as server:
        shop = Shop(server)
        shop.open()
        say(greeting(server, writes))
        writer = threading.Thread(target=shop.write_until, args=(ending.over, writes, say), name="shop", daemon=True)
        if writes:
            writer.start()
        ending.wait(server, "the server")
        if writes:
            writer.join()
    say(f"{shop.written:,} transactions were written; the server and its data are gone")


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
    say(f"{name} is not here yet: Debian's packages are unpacked into {services_dir()} (once; no root needed)")
    try:
        return install(flavor, services_dir(), mirror(), say)
    except (LookupError, ValueError, OSError, subprocess.CalledProcessError) as error:
        hint = f"take a server of your own, or Docker: docker compose up -d --wait {flavor}"
        raise SourceUnavailable(f"{name} cannot be installed on this machine: {error}", hint=hint) from error
