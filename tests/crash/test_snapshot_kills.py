"""SIGKILL while tables are copied: no row is lost, none is there twice, and no chunk is read again once decided."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from cdc_process import TWO_TRIES, ended, mysql_pipeline
from small_workload import SmallWorkload
from tiers import EXHAUSTIVE

from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(900)]

_IN_A_WORKER = 5
"""There a Python worker dies, not the driver; it is tried again, and then given up."""

_POINTS = {
    "in-chunk": _IN_A_WORKER,
    "after-chunk": _IN_A_WORKER,
    "after-prepare": -signal.SIGKILL,
    "after-decide": -signal.SIGKILL,
}


@pytest.mark.parametrize("points", [["after-decide"], pytest.param([*_POINTS], marks=EXHAUSTIVE)], ids=len)
def test_kills_while_tables_are_copied(mysql_server: MySqlServer, tmp_path: Path, points: list[str]) -> None:
    """Each run takes the copying up where it was, and dies at another point of a batch; meanwhile rows change.

    `make test` kills the driver here; Python workers it kills in `test_kills.py`, and the driver before it has decided
    in `test_several_sinks.py`."""
    work = SmallWorkload.on(mysql_server)
    for _ in range(4):
        work.round(40)
    pipeline = mysql_pipeline(
        tmp_path, mysql_server, work.pattern, scan__incremental__snapshot__chunk__size=20, max_batch_rows=120
    )
    pipeline.settings["retry-timeout"] = "1 s"
    with ended(pipeline):
        for point in points:
            output = pipeline.start("--until-caught-up", *TWO_TRIES, env={"CDC_CRASH_AT": point}).ends(_POINTS[point])
            assert "\tat " not in output  # no trace of Java
            work.round(3)
        pipeline.catch_up()
        work.assert_equal(pipeline)
    marks = _lines(pipeline.state / "source" / "watermarks.jsonl")
    assert all(mark["done"] for mark in marks)
    assert max(Counter(mark["number"] for mark in marks).values()) == 1
    chunks = {
        number for number, e in enumerate(_lines(pipeline.state / "source" / "chunks.jsonl")) if e["kind"] == "chunk"
    }
    assert {mark["number"] for mark in marks} == chunks
    assert len(chunks) > 5
    found = json.loads((pipeline.state / "snapshot.json").read_text())
    assert {table["state"] for table in found["tables"].values()} == {"done"}


def _lines(path: Path) -> list[dict[str, int]]:
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]
