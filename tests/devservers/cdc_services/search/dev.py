"""`cdc dev opensearch` and `cdc dev elasticsearch`: a real node on this machine, for trials."""

from __future__ import annotations

import subprocess
from functools import partial
from typing import Annotated, Literal

import typer

from cdc.errors import SourceUnavailable
from cdc_services.installation import services_dir
from cdc_services.search.install import SearchInstallation, find, install
from cdc_services.search.server import SearchServer
from cdc_services.trial import Ending, say, started

_NAMES = {"opensearch": "OpenSearch", "elasticsearch": "Elasticsearch"}

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The node's port; 0 takes a free one.")]
Version = Annotated[Literal["2", "3"], typer.Option("--version", help="2, or 3, which needs Java 21.")]
ElasticVersion = Annotated[Literal["7", "8"], typer.Option("--version", help="7 or 8.")]


def opensearch(port: Port = 9200, version: Version = "2") -> None:
    """Run a real OpenSearch node, until Ctrl-C. Only this machine reaches it, without a password."""
    serve("opensearch" if version == "2" else "opensearch-3", port)


def elasticsearch(port: Port = 9200, version: ElasticVersion = "7") -> None:
    """Run a real Elasticsearch node, until Ctrl-C. Only this machine reaches it, without a password."""
    serve("elasticsearch" if version == "7" else "elasticsearch-8", port)


def serve(name: str, port: int) -> None:
    """Run the node until SIGINT or SIGTERM, then end it and remove its data; says how to write to it.

    Raises SourceUnavailable when it cannot be installed on this machine, does not start, or ends by itself.
    """
    ending, found = Ending(), _installed(name)
    start = partial(SearchServer, found, port=port)
    with started(found.distribution.name, port, start, SearchServer.last_words) as server:
        say(greeting(server))
        ending.wait(server, "the node")
    say("the node and its data are gone")


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
        say(f"{name} is not here yet: it goes into {services_dir()} (once; no root needed)")
        return install(name, services_dir(), say)
    except (LookupError, ValueError, OSError, subprocess.CalledProcessError) as error:
        hint = "take a cluster of your own, or Docker: docker compose up -d --wait opensearch"
        raise SourceUnavailable(f"{name} cannot be installed on this machine: {error}", hint=hint) from error
