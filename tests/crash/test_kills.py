"""SIGKILL at moments nobody chose: the driver, Python workers, the stream reader process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from cdc_process import CdcRun, ended, mysql_pipeline, wait_for
from small_workload import SmallWorkload

from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200)]


@contextmanager
def _written_meanwhile(work: SmallWorkload) -> Iterator[None]:
    """Rounds of the workload, one after the other, in a thread of their own."""
    enough = threading.Event()

    def write() -> None:
        while not enough.wait(0.05):
            work.round(10)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        enough.set()
        writer.join()


def test_kills_of_the_driver_at_random_moments(mariadb_server: MySqlServer, tmp_path: Path) -> None:
    work, rng = SmallWorkload.on(mariadb_server), Random(97)
    pipeline = mysql_pipeline(tmp_path, mariadb_server, work.pattern, scan__startup__mode="latest-offset")
    with ended(pipeline):
        run = pipeline.start()
        wait_for("the first offset", lambda: (pipeline.state / "initial_offset.json").exists() or not run.alive)
        with _written_meanwhile(work):
            for kill in range(3):
                run = pipeline.start() if kill else run
                run.shows(work.seen(work.rounds), "a round that was written before")
                threading.Event().wait(rng.uniform(0, 1))
                run.kill9()
        pipeline.catch_up()
        work.assert_equal(pipeline)
        assert "0 changes in 0 batches" in pipeline.catch_up().output


def _killed(run: CdcRun, word: str) -> None:
    for pid in wait_for(f"a process {word}", lambda: run.processes(word)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_kills_of_python_processes(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """Workers come back by themselves; a run without its stream reader ends with an error."""
    work = SmallWorkload.on(mysql_server)
    pipeline = mysql_pipeline(tmp_path, mysql_server, work.pattern, scan__startup__mode="latest-offset")
    with ended(pipeline):
        run = pipeline.start()
        wait_for("the first offset", lambda: (pipeline.state / "initial_offset.json").exists() or not run.alive)
        run.shows(work.seen(work.round()), "the first round")
        _killed(run, "pyspark.daemon pyspark.worker")
        run.shows(work.seen(work.round()), "the round after the workers were killed")
        _killed(run, "python_streaming_source_runner")
        work.round()
        assert run.ends(5).splitlines()[-1].startswith("cdc: ")
        wait_for("the end of all its processes", lambda: not run.processes())
        pipeline.catch_up()
        work.assert_equal(pipeline)
