"""Loads of at-least-once are visible at once: a task that copied rows and died leaves them beside its repeat's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns
from doris_harness import Harness, given_options
from doris_servers import shared_doris
from repeated_copies import FIFTY_ROWS, LIMITS, PipelineInto, copy_and_die_in_each_batch

from cdc.schema import TableId
from cdc.sink import TaskAttempt
from cdc.testing.crashes import Crash
from cdc_services.server import MySqlServer
from connectors.doris.sink import DorisSink


@pytest.mark.mysql
def test_no_change_between_a_copy_and_its_repeat_is_left_out(
    mysql_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task dies after its load, its batch several times more."""
    database = mysql_server.new_database("least")
    mysql_server.execute(*FIFTY_ROWS, database=database)
    begun = set[tuple[int, int]]()
    real = DorisSink.prepare

    def change() -> None:
        gone = f"DELETE FROM orders WHERE id = {20 + len(begun)}"
        moved = f"UPDATE orders SET id = id + 1000 WHERE id = {len(begun)}"
        mysql_server.execute("UPDATE orders SET n = n + 1", gone, moved, database=database)

    def prepare(sink: DorisSink, task: TaskAttempt, blocks: Any) -> Any:
        prepared = real(sink, task, blocks)
        if (task.batch, task.partition) not in begun:
            begun.add((task.batch, task.partition))
            change()
            raise Crash("loaded, and nobody was told")
        return prepared

    monkeypatch.setattr(DorisSink, "prepare", prepare)
    with shared_doris() as server:
        wanted = {**given_options(server), "sink.delivery-guarantee": "at-least-once"}
        pipeline = PipelineInto(mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*"), database, wanted)
        copy_and_die_in_each_batch(pipeline, change)
        monkeypatch.setattr(DorisSink, "prepare", real)
        DirectRuns(pipeline, pipeline.name).catch_up(LIMITS)
        rows = Harness(server, tmp_path / "read", "read").rows(TableId(database, "orders"))
    assert len(begun) > 1
    assert {row["id"]: row["n"] for row in rows or ()} == dict(
        mysql_server.execute("SELECT id, n FROM orders", database=database)
    )
