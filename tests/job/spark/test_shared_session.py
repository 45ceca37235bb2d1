"""The Spark session that many runs share: Java may end under it, and it starts again in the same process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from cdc.errors import WorkerLost
from cdc.job.spark.shared import SharedSpark

shared = SharedSpark(Path("state"), "local[1]", ("SHOP_PASSWORD",), lambda text, level: print(text))
shared.start()
with shared.opened() as one, shared.opened() as other:
    assert one is not other and one.sparkContext is other.sparkContext
    one.conf.set("spark.sql.shuffle.partitions", "7")
    assert other.conf.get("spark.sql.shuffle.partitions") == "1"
    assert one.sparkContext._jvm.java.lang.System.getenv("SHOP_PASSWORD") is None
assert os.environ["SHOP_PASSWORD"] == "secret"
os.kill(json.loads(Path("state/lock").read_text())["java"], signal.SIGKILL)
while shared.alive():
    pass
try:
    with shared.opened():
        raise AssertionError("a session without Java")
except WorkerLost:
    pass
shared.stop()
shared.start()
with shared.opened() as again:
    assert again.range(3).count() == 3
shared.stop()
sys.stdout.flush()
os._exit(0)
"""


def test_sessions_have_settings_of_their_own_and_java_may_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env={**os.environ, "SHOP_PASSWORD": "secret"},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
