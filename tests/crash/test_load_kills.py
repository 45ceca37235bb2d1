"""`cdc run` from MySQL into Doris, killed while it works: every row is there once, no load is open.

Each step of a load into Doris and StarRocks is crashed in `test_load_crash_matrix.py`.
"""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest
from cdc_process import ended, mysql_pipeline, wait_for
from load_pipeline import LoadPipeline, finished, own_standin
from small_workload import SmallWorkload, Writing

from cdc_services.server import MySqlServer

pytestmark = [
    pytest.mark.exhaustive, pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200),
]  # fmt: skip


class LoadWorkload(SmallWorkload):
    """The small workload without what a table of no key cannot follow there: its rows only come."""

    def run(self, *statements: str) -> None:
        """Statements on the source."""
        kept = [one for one in statements if not one.startswith(("UPDATE keyless", "DELETE FROM keyless"))]
        super().run(*kept)


def test_a_kill_of_the_driver_under_a_live_workload(mysql_server: MySqlServer, tmp_path: Path) -> None:
    work = LoadWorkload.on(mysql_server)
    made = mysql_pipeline(tmp_path, mysql_server, work.pattern, scan__startup__mode="latest-offset")
    with (
        own_standin("doris") as standin,
        ended(LoadPipeline(made.folder, made.source, made.password, standin=standin)) as pipeline,
    ):
        run = pipeline.start()
        wait_for("the first offset", lambda: (pipeline.state / "initial_offset.json").exists() or not run.alive)
        run.shows(work.seen(work.round()), "the first round")
        with Writing(work, alter_every=5) as writing:
            writing.more(12)
            threading.Event().wait(Random().random())
            run.kill9()
        pipeline.catch_up()
        work.assert_equal(pipeline)
        assert set(finished(standin)) <= {"VISIBLE", "ABORTED"}
