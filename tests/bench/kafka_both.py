"""Measurements of Kafka: topics into DuckDB and MySQL into topics through the whole tool, and the sink alone.

What is read and written stands beside a plain loop over the same messages.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import kafka_read
import kafka_write
from readers import Bench
from workload import Generator

Figures = dict[str, Any]
ROWS = 1_000_000
BACKLOGS = (100_000, 10_000_000)
"""Messages that wait for a run whose memory is measured."""


def kafka(bench: Bench, generator: Generator, factor: float, seconds: int) -> Figures:
    """Both directions; the figures of the sink alone are the medians of its rounds."""
    import kafka_sink  # runs by itself, too, and has its server's options from `run`, which imports this

    own = replace(bench, folder=bench.folder / "kafka")
    found: Figures = {"read": {}, "memory": {}}
    with kafka_read.broker(None) as bootstrap:
        for wrapped in (False, True):
            name = "with schema" if wrapped else "without schema"
            bench.say(f"kafka: reading messages {name}")
            place = own.folder / name.split()[0]
            found["read"][name] = kafka_read.measured(place, bootstrap, _scaled(ROWS, factor), wrapped)
        for number in BACKLOGS:
            rows = _scaled(number, factor)
            bench.say(f"kafka: memory with {rows:,} messages")
            found["memory"][f"{rows:,}"] = kafka_read.memory(own.folder / f"memory-{number}", bootstrap, rows)
        _, found["whole"] = kafka_sink.write(own, generator, bootstrap, _scaled(ROWS, factor), 1)
        found["fresh"] = kafka_sink.fresh(own, generator, bootstrap, seconds)
        bench.say("kafka: writing messages")
        rounds = kafka_write.measured(own.folder / "write", bootstrap, _scaled(ROWS // 2, factor))
    found["write"] = {
        what: {key: statistics.median(each[what][key] for each in rounds) for key in rounds[0][what]}
        for what in ("encode", "sink", "plain")
    }
    return found


def _scaled(rows: int, factor: float) -> int:
    return max(1000, int(rows * factor) // 1000 * 1000)
