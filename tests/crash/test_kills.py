"""SIGKILL at a moment nobody chose: the driver, Python workers, the stream reader process. More: `make chaos`."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from cdc_process import TWO_CORES, CdcRun, ended, mysql_pipeline, wait_for
from small_workload import SmallWorkload, Writing

from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200)]


@pytest.mark.exhaustive
def test_a_kill_of_the_driver_at_a_random_moment(mariadb_server: MySqlServer, tmp_path: Path) -> None:
    work = SmallWorkload.on(mariadb_server)
    pipeline = mysql_pipeline(tmp_path, mariadb_server, work.pattern, scan__startup__mode="latest-offset")
    with ended(pipeline):
        run = pipeline.start()
        wait_for("the first offset", lambda: (pipeline.state / "initial_offset.json").exists() or not run.alive)
        run.shows(work.seen(work.round()), "the first round")
        with Writing(work) as writing:
            writing.more(20)
            threading.Event().wait(Random().random())
            run.kill9()
        pipeline.catch_up()
        work.assert_equal(pipeline)


WORKER, READER = "pyspark.daemon pyspark.worker", "python_streaming_source_runner"


def _killed(run: CdcRun, word: str, most: int) -> None:
    found = wait_for(f"a process {word}", lambda: run.processes(word) or not run.alive)
    assert run.alive, run.output
    for pid in sorted(found)[-most:]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_kills_of_python_processes(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """One worker, all of them, the stream reader process, while rows are written: the run goes on by itself."""
    work = SmallWorkload.on(mysql_server)
    pipeline = mysql_pipeline(tmp_path, mysql_server, work.pattern, scan__startup__mode="latest-offset")
    with ended(pipeline):
        run = pipeline.start(*TWO_CORES)
        wait_for("the first offset", lambda: (pipeline.state / "initial_offset.json").exists() or not run.alive)
        run.shows(work.seen(work.round()), "the first round")
        with Writing(work) as writing:
            for kill, (word, most) in enumerate([(WORKER, 1), (WORKER, 99), (READER, 99)]):
                writing.more(10)
                threading.Event().wait(Random().random())
                _killed(run, word, most)
                later = work.rounds + 1
                writing.more(2)
                run.shows(work.seen(later), f"a round that was written after kill {kill}")
        run.shows(work.seen(work.rounds), "the last round")
        run.stop()
        work.assert_equal(pipeline)
