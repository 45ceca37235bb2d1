"""`--state-dir s3://...`: a run that is killed with its machine goes on elsewhere, with nothing but the store.

So does a run on a cluster in `test_cluster.py`, and one that is killed at any put in `test_remote_crashes.py`.
"""

from __future__ import annotations

import json
import runpy
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cdc_process import Pipeline

from cdc.state.remote.bucket import Bucket

if TYPE_CHECKING:
    from s3_server import S3Server

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = json.loads((ROOT / "tests" / "golden" / "demo.json").read_text(encoding="utf-8"))
digest = runpy.run_path(str(ROOT / "scripts" / "record_demo.py"))["digest"]

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow, pytest.mark.spark]


def test_a_run_goes_on_where_nothing_is_left_of_the_machine_it_was_killed_on(s3: S3Server, tmp_path: Path) -> None:
    url, cache = f"{s3.new_bucket()}/demo", tmp_path / "cache"
    source = {"type": "binlog-files", "path": str(ROOT / "pipelines/demo/shop.binlog.*"), "tables": r"shop.\.*"}
    pipeline = Pipeline(tmp_path / "work", source)
    env = {**s3.environment, "CDC_STATE_CACHE": str(cache), "CDC_STATE_LEASE_S": "2"}
    pipeline.start("--state-dir", url, env={**env, "CDC_CRASH_AT": "after-decide:1"}).ends(-signal.SIGKILL)
    assert Bucket(url).names("bulk"), "the rows of a decided batch have to be in the store"
    shutil.rmtree(cache)

    pipeline.start("--state-dir", url, env=env).ends(0)
    for table, expected in EXPECTED.items():
        columns = ", ".join(f'"{column}"' for column in expected["columns"])
        rows = pipeline.query(f"SELECT {columns} FROM shop.{table}")
        assert (len(rows), digest(rows)) == (expected["rows"], expected["sha256"]), table
    assert Bucket(url).names("bulk") == []
    assert not pipeline.state.exists()
    text = pipeline.runs[-1].log.read_text(encoding="utf-8")
    assert "word" not in text, "the secret key shows in the log"
