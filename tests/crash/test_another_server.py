"""The address of a running pipeline leads to another server: planned, and because the first one was killed.

`make test` has the source alone go on with replicas of both servers, in `test_failover.py` and
`test_snapshot_failover.py`; batches that killed runs have left are finished in `test_several_sinks.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_process import ended, mysql_pipeline, wait_for
from cutting_proxy import CuttingProxy
from replication import Replication
from servers import ServerFactory
from small_workload import SmallWorkload

pytestmark = [
    pytest.mark.exhaustive, pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200),
]  # fmt: skip


def test_a_run_goes_on_with_the_replica(server_factory: ServerFactory, tmp_path: Path) -> None:
    """A whole run, of MariaDB; the source alone meets the replicas of both servers in `test_failover.py`."""
    pair = Replication.started("mariadb", server_factory)
    work, proxy = SmallWorkload.on(pair.primary), CuttingProxy(pair.primary.port)
    pair.caught_up()
    pipeline = mysql_pipeline(
        tmp_path, pair.primary, work.pattern, scan__startup__mode="latest-offset", port=proxy.port
    )
    with ended(pipeline):
        run = pipeline.start()
        wait_for("the first offset", lambda: (pipeline.state / "initial_offset.json").exists() or not run.alive)
        run.shows(work.seen(work.round()), "the first round")

        # The address moves while the old server goes on, as by a proxy or a name; a batch may be on its way.
        work.change_columns()
        latest = work.round(rows=400)
        pair.caught_up()
        proxy.lead_to(pair.replica.port)
        run.shows(work.seen(latest), "what was written before the address moved")
        proxy.lead_to(pair.primary.port)
        run.shows(work.seen(work.round()), "the round after it moved back")

        # The old server dies; the replica has everything, is written to from now on, and has the address.
        latest = work.round(rows=400)
        pair.caught_up()
        pair.primary.kill9()
        pair.stop()
        work.server = pair.replica
        work.change_columns()
        proxy.lead_to(pair.replica.port)
        run.shows(work.seen(latest), "what was written before the first server was killed")
        run.shows(work.seen(work.round()), "the round on the second server")
        run.stop()
        work.assert_equal(pipeline)
    proxy.close()


def test_batches_that_killed_runs_left_are_finished_on_the_replica(
    server_factory: ServerFactory, tmp_path: Path
) -> None:
    """One run dies before the decision about its batch, another after it: that batch is not read again."""
    pair = Replication.started("mysql", server_factory)
    proxy = CuttingProxy(pair.primary.port)
    left = {}
    for point in ("after-prepare", "after-decide"):
        work = SmallWorkload.on(pair.primary)
        pipeline = mysql_pipeline(tmp_path / point, pair.primary, work.pattern, **work.beginning, port=proxy.port)
        work.round()
        work.change_columns()
        left[point] = work, pipeline
    pair.caught_up()
    for point, (_, pipeline) in left.items():
        with ended(pipeline):
            pipeline.start("--until-caught-up", env={"CDC_CRASH_AT": f"{point}:1"}).ends(-9)
    pair.primary.kill9()
    pair.stop()
    proxy.lead_to(pair.replica.port)
    for work, pipeline in left.values():
        with ended(pipeline):
            work.server = pair.replica
            work.round()
            pipeline.catch_up()
            work.assert_equal(pipeline)
    proxy.close()
