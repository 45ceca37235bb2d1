"""What the reader scripts share: their arguments, and the clock. Standard library only: peers have their own venv."""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Address:
    """The server and the database with the measured tables."""

    host: str
    port: int
    user: str
    password: str
    database: str


@dataclass(frozen=True)
class Range:
    """Rows of one table in one binlog file; `events` is the number of events in it."""

    table: str
    file: str
    start: int
    end: int
    rows: int
    events: int = 0


def arguments() -> tuple[Address, list[Range], Range]:
    """From the JSON in argv[1]: the server, ranges to warm up with, the range to measure."""
    given = json.loads(sys.argv[1])
    return Address(**given["server"]), [Range(**part) for part in given["warm"]], Range(**given["range"])


def cpu_s() -> float:
    """CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Watch:
    """Starts when made; `report` stops it and prints the line."""

    def __init__(self) -> None:
        self._cpu, self._wall = cpu_s(), time.perf_counter()

    def report(self, **fields: object) -> None:
        """Print the figures and the fields as one line of JSON."""
        wall, cpu = time.perf_counter() - self._wall, cpu_s() - self._cpu
        # Not ru_maxrss: it starts with the size of the process that this one was forked from.
        peak = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
        assert peak is not None
        figures = {"wall_s": wall, "cpu_s": cpu, "process_cpu_s": cpu_s(), "rss_mb": int(peak[1]) / 1024}
        print(json.dumps({**fields, **{name: round(value, 4) for name, value in figures.items()}}))
