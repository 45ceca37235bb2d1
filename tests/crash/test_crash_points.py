"""SIGKILL at steps of the protocol; after each restart no row is lost and none is there twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from cdc_process import TWO_TRIES, ended, mysql_pipeline
from small_workload import SmallWorkload
from tiers import EXHAUSTIVE

from cdc.process.faults import POINTS as ALL
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200)]

_IN_A_WORKER = "in-prepare"
"""There a Python worker dies, not the driver; Spark tries the task again and then gives up."""

_ELSEWHERE = {"after-prepare", "after-decide"}
"""Runs are killed at these while they copy tables, in `test_snapshot_kills.py`, and while they follow the log, in
`test_another_server.py`."""

_POINTS = [point for point in ALL if not point.startswith("before-") and point not in _ELSEWHERE]
"""Before a step nothing is there that is not at the point after it; what the sink has done by then is tried
statement by statement in `test_duckdb_crash.py`."""


@EXHAUSTIVE
def test_a_kill_at_any_point_loses_and_doubles_nothing(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """One batch is killed at each point in turn: every restart takes it up again and dies at the next point. Without
    Spark batches are killed at all points in `test_load_crash_matrix.py`; `make test` kills whole runs while they copy
    tables in `test_snapshot_kills.py`, while they follow the log in `test_several_sinks.py`, workers in
    `test_kills.py`."""
    work = SmallWorkload.on(mysql_server)
    pipeline = mysql_pipeline(tmp_path, mysql_server, work.pattern, **work.beginning)
    pipeline.settings["retry-timeout"] = "1 s"
    with ended(pipeline):
        work.change_columns()
        work.round()
        for point in _POINTS:
            expected = 5 if point == _IN_A_WORKER else -signal.SIGKILL
            pipeline.start("--until-caught-up", *TWO_TRIES, env={"CDC_CRASH_AT": point}).ends(expected)
            work.round(5)
        pipeline.catch_up()
        work.assert_equal(pipeline)
