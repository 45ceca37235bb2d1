"""Running a stand-in inside this process: folder lock, parts, ports."""

from __future__ import annotations

import fcntl
import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cdc_standins.clock import Clock
from cdc_standins.context import Context, Parts
from cdc_standins.control import control_server
from cdc_standins.journal import Journal

KINDS = ("doris", "starrocks")


@contextmanager
def running(kind: str, folder: Path, options: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Build the stand-in, open its ports, give them by name, and close all at the end.

    Raises OSError when the folder is in use by another process, or a port is.
    """
    if kind not in KINDS:
        raise ValueError(f"no stand-in {kind!r}: there are {', '.join(KINDS)}")
    with ExitStack() as stack:
        lock = stack.enter_context((folder / "lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(f"{folder} is in use by another stand-in") from error
        journal = Journal(folder / "journal.sqlite")
        stack.callback(journal.close)
        context = Context(folder, options, journal, Clock(journal))
        parts: Parts = importlib.import_module(f"cdc_standins.{kind}.server").build(context)
        stack.callback(parts.close)
        control = control_server(parts.commands, context.port("control"))
        for server in (parts.be_http, parts.fe_http, parts.sql, control):
            server.start()
            stack.callback(server.stop)
        parts.background()
        yield {
            "http_port": parts.fe_http.port,
            "be_http_port": parts.be_http.port,
            "sql_port": parts.sql.port,
            "control_port": control.port,
        }
