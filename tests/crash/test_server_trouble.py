"""The server goes away, comes back, and cuts connections in the middle of an event: a whole run.

`make test` has the source alone outlive that, of both servers, in `test_mysql_source.py` and `test_log_stream.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_process import ended, mysql_pipeline, wait_for
from cutting_proxy import CuttingProxy
from servers import ServerFactory
from small_workload import SmallWorkload

pytestmark = [
    pytest.mark.exhaustive, pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200),
]  # fmt: skip

_DURABLE = ["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"]
"""Else a killed server loses rows that its binlog has told already, and no reader of the log can know."""


def test_a_run_outlives_cut_connections_and_a_killed_server(server_factory: ServerFactory, tmp_path: Path) -> None:
    server = server_factory("mysql", extra_args=_DURABLE)
    work, proxy = SmallWorkload.on(server), CuttingProxy(server.port)
    pipeline = mysql_pipeline(tmp_path, server, work.pattern, scan__startup__mode="latest-offset", port=proxy.port)
    with ended(pipeline):
        run = pipeline.start()
        wait_for("the first offset", lambda: (pipeline.state / "initial_offset.json").exists() or not run.alive)
        run.shows(work.seen(work.round()), "the first round")
        for received in (1, 70, 1000):
            proxy.cut_after(received)
            run.shows(work.seen(work.round()), f"the round cut after {received} bytes")
        assert proxy.cuts == 3

        server.kill9()
        run.says("warning: waiting for the server: ")
        server.start()
        run.shows(work.seen(work.round()), "the round after the server was killed")
        server.restart()
        work.change_columns()
        run.shows(work.seen(work.round()), "the round after the server was restarted")
        run.stop()
        work.assert_equal(pipeline)
    proxy.close()
