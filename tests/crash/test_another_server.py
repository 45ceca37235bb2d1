"""The address of a running pipeline leads to another server: planned, and because the first one was killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_process import ended, mysql_pipeline, wait_for
from cutting_proxy import CuttingProxy
from replication import Replication
from servers import FLAVORS, ServerFactory
from small_workload import SmallWorkload

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_run_goes_on_with_the_replica(flavor: str, server_factory: ServerFactory, tmp_path: Path) -> None:
    pair = Replication.started(flavor, server_factory)
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


@pytest.mark.parametrize("point", ["before-prepare", "after-prepare", "after-decide"])
def test_a_batch_that_a_killed_run_left_is_finished_on_the_replica(
    point: str, server_factory: ServerFactory, tmp_path: Path
) -> None:
    pair = Replication.started("mysql", server_factory)
    work, proxy = SmallWorkload.on(pair.primary), CuttingProxy(pair.primary.port)
    pipeline = mysql_pipeline(tmp_path, pair.primary, work.pattern, **work.beginning, port=proxy.port)
    with ended(pipeline):
        work.round()
        work.change_columns()
        pair.caught_up()
        run = pipeline.start("--until-caught-up", env={"CDC_CRASH_AT": f"{point}:1"})
        run.ends(-9)
        run.kill_all()
        pair.primary.kill9()
        pair.stop()
        work.server = pair.replica
        proxy.lead_to(pair.replica.port)
        work.round()
        pipeline.catch_up()
        work.assert_equal(pipeline)
    proxy.close()
