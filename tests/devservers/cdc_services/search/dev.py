"""`cdc dev opensearch` and `cdc dev elasticsearch`: a real node on this machine, for trials."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from cdc.errors import SourceUnavailable
from cdc_services.installation import services_dir
from cdc_services.process import port_is_free
from cdc_services.search.install import SearchInstallation, find, install
from cdc_services.search.server import SearchServer

_NAMES = {"opensearch": "OpenSearch", "elasticsearch": "Elasticsearch"}
_TICK_S = 0.5

Port = Annotated[int, typer.Option("--port", help="The node's port; 0 takes a free one.")]
Version = Annotated[Literal["2", "3"], typer.Option("--version", help="2, or 3, which needs Java 21.")]


def opensearch(port: Port = 9200, version: Version = "2") -> None:
    """Run a real OpenSearch node, until Ctrl-C. Only this machine reaches it, without a password."""
    serve("opensearch" if version == "2" else "opensearch-3", port)


def elasticsearch(port: Port = 9200) -> None:
    """Run a real Elasticsearch 7.17 node, until Ctrl-C. Only this machine reaches it, without a password."""
    serve("elasticsearch", port)


def serve(name: str, port: int) -> None:
    """Run the node until SIGINT or SIGTERM, then end it and remove its data; says how to write to it.

    Raises SourceUnavailable when it cannot be installed on this machine, does not start, or ends by itself.
    """
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with _started(_installed(name), port) as server:
        _say(greeting(server))
        while not over.wait(_TICK_S):
            if not server.running:
                raise SourceUnavailable("the node ended by itself", hint="see the node's words above")
    _say("the node and its data are gone")


def greeting(server: SearchServer) -> str:
    """What is printed when the node is ready: where it is, and the sink of a pipeline that writes to it."""
    return (
        f"{_NAMES[server.product]} {server.version} on {server.url}, for trials only: no password, one node\n\n"
        f"in a pipeline:\n\n"
        f"sink:\n  type: elasticsearch\n  hosts: {server.url}\n  index.settings.number_of_replicas: 0\n\n"
        "Ctrl-C stops the node and removes its data."
    )


def _installed(name: str) -> SearchInstallation:
    try:
        found = find(name)
        if found is not None:
            return found
        _say(f"{name} is not here yet: it goes into {services_dir()} (once; no root needed)")
        return install(name, services_dir(), _say)
    except (LookupError, ValueError, OSError, subprocess.CalledProcessError) as error:
        hint = "take a cluster of your own, or Docker: docker compose up -d --wait opensearch"
        raise SourceUnavailable(f"{name} cannot be installed on this machine: {error}", hint=hint) from error


@contextmanager
def _started(installation: SearchInstallation, port: int) -> Iterator[SearchServer]:
    if port and not port_is_free(port):
        raise SourceUnavailable(f"port {port} is in use", hint="choose another --port; 0 takes a free one")
    try:
        server = SearchServer(installation, port=port)
    except (RuntimeError, OSError) as error:
        raise SourceUnavailable(f"{installation.distribution.name} does not start: {error}") from error
    try:
        yield server
    finally:
        if not server.running:
            _say(server.last_words())
        server.close()


def _say(text: str) -> None:
    print(text, flush=True)
