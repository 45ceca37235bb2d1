"""`cdc dev kafka`: a real broker on this machine, for trials."""

from __future__ import annotations

import subprocess
from functools import partial
from typing import Annotated

import typer

from cdc.errors import SourceUnavailable
from cdc_services.installation import services_dir
from cdc_services.kafka.broker import StartedBroker
from cdc_services.kafka.install import VERSION, KafkaInstallation, find, install
from cdc_services.trial import Ending, say, started

_HINT = "take a broker of your own, or Docker: docker compose up -d --wait kafka"

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The broker's port; 0 takes a free one.")]


def kafka(port: Port = 9092) -> None:
    """Run a real Kafka broker, until Ctrl-C. Only this machine reaches it. Writing to a topic creates it.

    Raises SourceUnavailable when it cannot be installed on this machine, does not start, or ends by itself.
    """
    ending = Ending()
    start = partial(StartedBroker, _installed(), {"auto.create.topics.enable": "true"}, port=port)
    with started("Kafka", port, start, StartedBroker.last_words) as broker:
        say(greeting(broker))
        ending.wait(broker, "the broker")
    say("the broker and its data are gone")


def greeting(broker: StartedBroker) -> str:
    """What is printed when the broker is ready: where it is, and the sink of a pipeline that writes to it."""
    return (
        f"Kafka {VERSION} on {broker.bootstrap}, for trials only: no login, one node\n\n"
        f"in a pipeline:\n\n"
        f"sink:\n  type: kafka\n  properties.bootstrap.servers: {broker.bootstrap}\n\n"
        "Ctrl-C stops the broker and removes its data."
    )


def _installed() -> KafkaInstallation:
    try:
        found = find()
        if found is not None:
            return found
        say(f"Kafka is not here yet: its jars go into {services_dir()} (once; no root needed)")
        return install(services_dir(), say)
    except (LookupError, ValueError, OSError, subprocess.CalledProcessError) as error:
        raise SourceUnavailable(f"Kafka cannot be installed on this machine: {error}", hint=_HINT) from error
