"""`cdc dev oceanbase`: the real engine of OceanBase on this machine, for trials of the sink."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from cdc.errors import SourceUnavailable
from cdc_services.oceanbase import PACKAGE, OceanBaseServer, find
from cdc_services.trial import Ending, say, started

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The server's port; 0 takes a free one.")]


def oceanbase(port: Port = 2881) -> None:
    """Run a real OceanBase engine, one node in MySQL mode, until Ctrl-C. Only this machine reaches it.

    Raises SourceUnavailable when it is not installed, does not start, or ends by itself.
    """
    ending = Ending()
    if find() is None:
        hint = "make setup brings it, on Linux on x86-64 or ARM64"
        raise SourceUnavailable(f"the package {PACKAGE}, which has the server, is not installed", hint=hint)
    with started("OceanBase", port, partial(OceanBaseServer, port)) as server:
        say(greeting(server))
        ending.wait(server, "the server")
    say("the server and its data are gone")


def greeting(server: OceanBaseServer) -> str:
    """What is printed when the server is ready: where it is, and the sink of a pipeline that writes to it."""
    return (
        f"OceanBase on {server.host}:{server.port}, for trials only: user {server.user}, no password\n\n"
        f"in a pipeline:\n\n"
        f"sink:\n  type: oceanbase\n  url: jdbc:mysql://{server.host}:{server.port}\n  username: {server.user}\n"
        f'  password: ""\n\n'
        "Ctrl-C stops the server and removes its data."
    )
