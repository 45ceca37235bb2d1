"""What a server of a stand-in is built from, and what it gives back to the process that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc_standins.clock import Clock
from cdc_standins.http_server import HttpServer
from cdc_standins.journal import Journal
from cdc_standins.sql_server import SqlServer

Command = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Context:
    """Where a stand-in lives and how it was started. `ports` has 0 for any free port."""

    folder: Path
    options: Mapping[str, Any]
    journal: Journal
    clock: Clock

    def port(self, name: str) -> int:
        """The port wanted for `http`, `be_http`, `sql` or `control`."""
        return int(self.options.get(f"{name}_port", 0))


@dataclass(frozen=True, slots=True)
class Parts:
    """The servers of one stand-in, not started yet.

    `commands` are what the control port can do, by name: the arguments come as one dictionary, the result must be JSON.
    Every server has `transactions` (a list of dictionaries) and the `common_commands` of `control`.
    `close` runs at an orderly end.
    """

    fe_http: HttpServer
    be_http: HttpServer
    sql: SqlServer
    commands: Mapping[str, Command]
    close: Callable[[], None]
    background: Callable[[], None] = field(default=lambda: None)
    """Called once after the ports are open: begins what the server does by itself, such as publishing."""
