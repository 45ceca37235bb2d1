"""Measurement f: how long the commands take that start no engine."""

from __future__ import annotations

import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from pipeline import CDC
from readers import Bench
from spend import OtherLoad

PIPELINE = Path(__file__).resolve().parents[2] / "pipelines" / "mysql_to_duckdb.yaml"
TIMES = 7


def cli_times(bench: Bench) -> dict[str, Any]:
    """Median wall seconds of `cdc --help` and `cdc validate`."""
    bench.say("cdc --help, cdc validate")
    load = OtherLoad([bench.server_pid])
    found: dict[str, Any] = {
        "help_s": _median([CDC, "--help"]), "validate_s": _median([CDC, "validate", str(PIPELINE)])
    }  # fmt: skip
    return {**found, "other_cores": load.cores(0.0)}


def _median(command: list[str]) -> float:
    taken = []
    for _ in range(TIMES):
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True, env={"MYSQL_PASSWORD": "secret"})
        taken.append(time.perf_counter() - started)
    return round(statistics.median(taken), 3)
