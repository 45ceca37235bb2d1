"""Measurements of Kafka: topics into DuckDB, and the sink alone, each beside a plain loop over the messages."""

from __future__ import annotations

import statistics
from typing import Any

import kafka_read
import kafka_write
from readers import Bench

Figures = dict[str, Any]


def kafka(bench: Bench, factor: float) -> Figures:
    """Both directions; the figures of the sink are the medians of its rounds."""
    folder = bench.folder / "kafka"
    found: Figures = {"read": {}}
    with kafka_read.broker(None) as bootstrap:
        for wrapped in (False, True):
            name = "with schema" if wrapped else "without schema"
            bench.say(f"kafka: reading messages {name}")
            place = folder / name.split()[0]
            found["read"][name] = kafka_read.measured(place, bootstrap, max(1000, int(1_000_000 * factor)), wrapped)
        bench.say("kafka: writing messages")
        rounds = kafka_write.measured(folder / "write", bootstrap, max(1000, int(500_000 * factor)))
    found["write"] = {
        what: {key: statistics.median(each[what][key] for each in rounds) for key in rounds[0][what]}
        for what in ("encode", "sink", "plain")
    }
    return found
