"""When a pipeline has caught up: a bounded run, `cdc verify`, the lag and `cdc status` say the same of one pipeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cdc_process import wait_for
from running import ShortPipeline
from servers import ServerFactory

from cdc.offsets import source_offset
from cdc.progress import ProgressTotals
from cdc.source import Context, Lag, Source
from cdc.state.decisions import CommitLog
from cdc.status.model import StatusDocument
from cdc.status.recorder import Recorder
from cdc.verify.report import Verdict
from cdc_services.server import StartedServer

pytestmark = pytest.mark.mysql

CAUGHT_UP = {"run": True, "verify": True, "lag": True, "status": True}
BEHIND = dict.fromkeys(CAUGHT_UP, False)


def flush(server: StartedServer) -> None:
    server.execute("FLUSH BINARY LOGS")


def restart(server: StartedServer) -> None:
    server.restart()


def write_elsewhere(server: StartedServer) -> None:
    server.execute(
        *["INSERT INTO other VALUES (REPEAT('A', 3000000), 't')"] * 4, "FLUSH BINARY LOGS", database="elsewhere"
    )


def alter_elsewhere(server: StartedServer) -> None:
    server.execute("ALTER TABLE other ADD COLUMN t INT", "CREATE TABLE t (id INT)", "TRUNCATE t", database="elsewhere")


def index_the_table(server: StartedServer) -> None:
    server.execute("ALTER TABLE verify.t ADD INDEX by_a (a(3))")


def test_they_agree_whatever_lies_behind_the_position(server_factory: ServerFactory, tmp_path: Path) -> None:
    server = server_factory("mysql")
    server.execute(
        "CREATE DATABASE verify", "CREATE DATABASE elsewhere", "CREATE TABLE elsewhere.other (x LONGTEXT, y TEXT)"
    )
    pipeline = ShortPipeline(server, tmp_path, "verify")
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY, a TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    pipeline.run()
    pipeline.sink("UPDATE t SET a = 'z' WHERE id = 1")  # verify can only tell of it when the pipeline has caught up
    happens: tuple[Callable[[StartedServer], None], ...] = (
        lambda _: None, flush, write_elsewhere, alter_elsewhere, index_the_table, restart,
    )  # fmt: skip
    for happen in happens:
        happen(server)
        assert what_they_say(pipeline) == CAUGHT_UP, happen
    pipeline.source("INSERT INTO t VALUES (3, 'c')")
    flush(server)
    assert what_they_say(pipeline) == BEHIND
    pipeline.run()
    assert what_they_say(pipeline) == CAUGHT_UP


def what_they_say(pipeline: ShortPipeline) -> dict[str, bool]:
    """Whether each takes the pipeline, which does not run, for one that has caught up."""
    log = CommitLog(pipeline.state.commits)
    decision = log.get(log.last())
    assert decision is not None
    at = source_offset(decision.end)
    lag = lag_at(source_of(pipeline), at)
    first = StatusDocument("p", "p", "mysql", "duckdb", "running", 1, "here", 0.0, 0.0, batches_total=1)
    seen = Recorder(first).status(ProgressTotals(lag_bytes=lag.bytes, lag_transactions=lag.transactions), None)
    return {
        "run": not deliveries(source_of(pipeline), at),
        "verify": pipeline.report().state is Verdict.DIFFERENT,
        "lag": lag.bytes == 0 and not lag.transactions,
        "status": seen.lag.seconds == 0.0,
    }


def source_of(pipeline: ShortPipeline) -> Source:
    spec, state = pipeline.spec, pipeline.state
    source: Source = spec.source.build(Context(state.open(name=spec.name, source=spec.source.type), state.source))
    return source


def deliveries(source: Source, at: dict[str, Any]) -> int:
    """The parts that a bounded run would still read."""
    source.stop_at_current()
    found = 0
    try:
        while (end := source.latest_offset(at, None, 0.0)) != at:
            found += len(source.splits(at, end, 1)) + len(source.events(at, end))
            at = end
    finally:
        source.stop()
    return found


def lag_at(source: Source, at: dict[str, Any]) -> Lag:
    """The lag of a run that has read the log to its end and has not taken anything of it yet."""
    source.latest_offset(at, None, 0.0)
    tail: Any = source
    wait_for("the end of the log", lambda: tail._parts.tail._follower.at_end)
    try:
        lag = source.lag()
        assert lag is not None
        return lag
    finally:
        source.stop()
