"""`make chaos`: tables that are altered in every way while they are copied, by a process that is killed again.

Each seed is a pipeline of its own into DuckDB, without Spark (`one_life`): half a dozen lives end with SIGKILL at
random moments or calls to the server and to files, or such a call fails; then two go to the end of the log, and source
and sink are compared.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from cdc_process import Pipeline, mysql_pipeline
from comparison import differences
from failed_calls import FAULTS, Fault
from killed_calls import MOMENTS
from one_life import FAILED
from servers import FLAVORS, own_servers
from wild_workload import WildWorkload

from cdc_services.server import MySqlServer

LIVES = 6
LIFE_S = 6.0
MOST_CALLS = 400
_ONE_LIFE = Path(__file__).parent / "one_life.py"


def run(seeds: range) -> list[str]:
    """What differs, or failed, one text per seed that did."""
    return run_seeds(seeds, differing_seed)


def run_seeds(seeds: range, differing: Callable[[MySqlServer, int, Path], str]) -> list[str]:
    """What `differing` says of each seed, in a folder of its own, on one server after the other."""
    found = []
    with own_servers() as make:
        servers = [make(flavor) for flavor in FLAVORS]
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="cdc-kills-") as folder:
                if wrong := differing(servers[seed % 2], seed, Path(folder)):
                    found.append(f"seed {seed}, {servers[seed % 2].flavor}: {wrong}")
    return found


def differing_seed(server: MySqlServer, seed: int, folder: Path) -> str:
    """What is not equal at the end of one seed's pipeline; the workload's statements are in its folder."""
    random = Random(seed)
    work = WildWorkload(server, seed, random.choice((0.01, 0.03, 0.08)))
    work.fill()
    size = random.choice((20, 60, 200))
    pipeline = mysql_pipeline(
        folder, server, rf"{work.database}.\.*", scan__incremental__snapshot__chunk__size=size,
    )  # fmt: skip
    pipeline.write()
    try:
        if wrong := lives(pipeline, random, work.start, work.stop):
            return wrong
        return "\n".join(differences(server, pipeline, [work.database]))
    finally:
        (folder / "workload.sql").write_text(";\n".join(work.log), encoding="utf-8")
        work.stop()
        server.execute(f"DROP DATABASE `{work.database}`")


def lives(pipeline: Pipeline, random: Random, start: Callable[[], None], stop: Callable[[], None]) -> str:
    """So many lives that end in the middle, while somebody writes, and two after; what one said that ended badly."""
    for life in range(LIVES):
        call = f"{random.randrange(1, MOST_CALLS)} {random.choice(MOMENTS + FAULTS)} {random.choice(Fault.widths)}"
        call *= random.random() < 0.5
        moment = random.uniform(0.0, LIFE_S) + LIFE_S * bool(call)
        if wrong := _life(pipeline, life, moment, start if life == 0 else lambda: None, call):
            return wrong
    stop()
    return _life(pipeline, LIVES, None, lambda: None) or _life(pipeline, LIVES + 1, None, lambda: None)


def _life(pipeline: Pipeline, number: int, moment: float | None, ready: Callable[[], None], call: str = "") -> str:
    """Run, and kill it `moment` seconds after its start-up if it has not died at a call; what it said when it ended
    badly by itself."""
    log = pipeline.folder / f"life-{number}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(_ONE_LIFE), str(pipeline.folder)], stdout=subprocess.PIPE, stderr=out,
            env={**os.environ, "MYSQL_PASSWORD": pipeline.password, "DIE_AT": call},
        )  # fmt: skip
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        ready()
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return ""
    if process.returncode == 0 or (call and process.returncode in (-signal.SIGKILL, FAILED)):
        return ""
    return f"life {number} ended with {process.returncode}:\n{log.read_text()[-3000:]}"
