"""The Spark session that many runs share: Java may end under it, and it starts again in the same process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PIPELINE = """
source: {type: values, path: rows.jsonl}
sink: {type: values, path: out.jsonl}
pipeline: {name: small}
"""
ROWS = """
{"change": "create.table", "table": "shop.t", "schema": {"columns": [{"name": "id", "type": "INT"}]}}
{"op": "+I", "table": "shop.t", "row": {"id": 1}}
"""
PROGRAM = (
    f"PIPELINE, ROWS = {PIPELINE!r}, {ROWS!r}"
    + """
import gc, io, json, os, signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from cdc.api import load
from cdc.job.control import RunControl
from cdc.job.run import run
from cdc.errors import WorkerLost
from cdc.job.spark.shared import SharedSpark

shared = SharedSpark(Path("state"), "local[1]", ("SHOP_PASSWORD",), lambda text, level: print(text))
shared.start()
with shared.open_session() as one, shared.open_session() as other:
    assert one is not other and one.sparkContext is other.sparkContext
    one.conf.set("spark.sql.shuffle.partitions", "7")
    assert other.conf.get("spark.sql.shuffle.partitions") == "1"
    assert one.sparkContext._jvm.java.lang.System.getenv("SHOP_PASSWORD") is None
assert os.environ["SHOP_PASSWORD"] == "secret"

Path("small.yaml").write_text(PIPELINE)
def run_once():
    Path("rows.jsonl").open("a").write(ROWS)
    log = io.StringIO()
    run(load("small.yaml").spec, state_dir=Path("small"), log_format="json", control=RunControl(log=log, shared=shared))
    assert "batch committed" in log.getvalue()

def threads():
    java = shared._spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    monitors = [thread for thread in java if thread.getName().startswith("Idle Worker Monitor")]
    return len(monitors) + threading.active_count()

run_once()
run_once()
begun_with = threads()
for _ in range(3):
    run_once()
while threads() > begun_with:
    pass

def left():
    gc.collect()
    of_runs = ("BatchRunner", "ForeachBatch", "Commits", "ValuesSink", "StreamParts", "PipelineRun")
    return [type(each).__name__ for each in gc.get_objects() if type(each).__name__ in of_runs]

until = time.monotonic() + 60  # a thread of a run that is ending may have them for a moment
while left() and time.monotonic() < until:
    pass
assert left() == []
with_java = [each for each in gc.get_objects() if type(each) is SparkSession and vars(each)]
assert len(with_java) <= 2, "the first, and the last batch's, which PySpark has in its RDD.toDF"


os.kill(json.loads(Path("state/lock").read_text())["java"], signal.SIGKILL)
while shared.alive():
    pass
try:
    with shared.open_session():
        raise AssertionError("a session without Java")
except WorkerLost:
    pass
shared.stop()
shared.start()
with shared.open_session() as again:
    assert again.range(3).count() == 3
    shared.stop()  # while a run unwinds, whose own error counts
sys.stdout.flush()
os._exit(0)
"""
)


def test_sessions_have_settings_of_their_own_runs_leave_nothing_and_java_may_end(tmp_path: Path) -> None:
    """A Spark of another version that the machine has, and arguments for it, are not used."""
    another = {"SPARK_HOME": "/opt/spark-3.5", "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env={**os.environ, "SHOP_PASSWORD": "secret", **another},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Idle Worker Monitor" not in done.stderr
