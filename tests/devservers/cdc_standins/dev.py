"""`cdc dev doris` and `cdc dev starrocks`: a stand-in that a user starts by hand, for a local trial of a pipeline."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cdc.errors import SinkUnavailable
from cdc_standins.process import StandInError, start

_SINKS = {
    "doris": "  type: doris\n  fenodes: 127.0.0.1:{http}\n  jdbc-url: jdbc:mysql://127.0.0.1:{sql}\n",
    "starrocks": "  type: starrocks\n  load-url: 127.0.0.1:{http}\n  jdbc-url: jdbc:mysql://127.0.0.1:{sql}\n",
}
_NAMES = {"doris": "Doris", "starrocks": "StarRocks"}

Folder = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Where it keeps its data. Default: .cdc/dev-doris, .cdc/dev-starrocks."),
]
HttpPort = Annotated[int, typer.Option("--port", min=0, max=65535, help="The front end's HTTP port; 0: a free one.")]
BackEndPort = Annotated[
    int, typer.Option("--be-port", min=0, max=65535, help="The back end's HTTP port; 0: a free one.")
]
SqlPort = Annotated[int, typer.Option("--sql-port", min=0, max=65535, help="The MySQL protocol's port; 0: a free one.")]
CountOnly = Annotated[bool, typer.Option("--count-only", help="Count rows and bytes instead of storing them.")]


def doris(
    folder: Folder = None,
    http_port: HttpPort = 8030,
    be_http_port: BackEndPort = 8040,
    sql_port: SqlPort = 9030,
    count_only: CountOnly = False,
) -> None:
    """Run a Doris stand-in until Ctrl-C: stream load with two phases, DDL and queries. Only this machine reaches it."""
    ports = {"http_port": http_port, "be_http_port": be_http_port, "sql_port": sql_port}
    serve("doris", folder or Path(".cdc/dev-doris"), ports, count_only=count_only, say=_say)


def starrocks(
    folder: Folder = None,
    http_port: HttpPort = 8030,
    be_http_port: BackEndPort = 8040,
    sql_port: SqlPort = 9030,
    count_only: CountOnly = False,
) -> None:
    """Run a StarRocks stand-in until Ctrl-C: transactions, DDL and queries. Only this machine reaches it."""
    ports = {"http_port": http_port, "be_http_port": be_http_port, "sql_port": sql_port}
    serve("starrocks", folder or Path(".cdc/dev-starrocks"), ports, count_only=count_only, say=_say)


def _say(text: str) -> None:
    print(text, flush=True)


def serve(kind: str, folder: Path, ports: dict[str, int], *, count_only: bool, say: Callable[[str], None]) -> None:
    """Run a stand-in until SIGINT or SIGTERM; says how to connect to it, and at the end what came.

    Raises SinkUnavailable when it does not start: a port or the folder is in use.
    """
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    options = {"count_only": True} if count_only else {}
    try:
        standin = start(kind, folder, **ports, **options)
    except StandInError as error:
        reason = str(error).splitlines()[-1]
        raise SinkUnavailable(
            f"the stand-in did not start: {reason}", hint="choose another --dir or other ports"
        ) from error
    with standin:
        say(greeting(kind, folder, standin.http_port, standin.be_http_port, standin.sql_port, count_only=count_only))
        while not over.wait(0.5):
            if not standin.running:
                raise SinkUnavailable("the stand-in ended by itself", where=str(folder / "standin.log"))
        if count_only:
            counters = standin.command("counters")
            say("counted: " + ", ".join(f"{number} {name}" for name, number in counters.items()))


def greeting(kind: str, folder: Path, http: int, be_http: int, sql: int, *, count_only: bool) -> str:
    """What is printed when a stand-in is ready."""
    name = _NAMES[kind]
    kept = "rows are counted and thrown away" if count_only else f"data in {folder}"
    sink = _SINKS[kind].format(http=http, sql=sql)
    return (
        f"{name} stand-in, for trials and tests only: {kept}\n"
        f"front end  http://127.0.0.1:{http}\n"
        f"back end   http://127.0.0.1:{be_http}\n"
        f"queries    mysql -h 127.0.0.1 -P {sql} -u root\n\n"
        f'sink:\n{sink}  username: root\n  password: ""\n  table.create.properties.replication_num: 1\n\n'
        "Ctrl-C stops it."
    )
