"""Damaged archives of binlog files: a clear error, nothing half-written, and the whole file goes on from there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cdc_process import Pipeline, ended
from servers import ServerFactory
from small_workload import SmallWorkload

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200)]


def test_damaged_files_are_refused_and_whole_ones_go_on(server_factory: ServerFactory, tmp_path: Path) -> None:
    server = server_factory("mysql")
    work = SmallWorkload.on(server)
    work.round()
    server.execute("FLUSH BINARY LOGS")
    files = tmp_path / "files"
    files.mkdir()
    first, second = (server.datadir / f"binlog.00000{number}" for number in (1, 2))
    shutil.copy(first, files)
    pipeline = Pipeline(tmp_path, {"type": "binlog-files", "path": f"{files}/binlog.*", "tables": work.pattern})
    with ended(pipeline):
        pipeline.start().ends(0)
        work.assert_equal(pipeline)
        before = pipeline.query(f"SELECT * FROM {work.database}.keyed ORDER BY id")

        work.round()
        work.change_columns()
        work.round()
        server.execute("FLUSH BINARY LOGS")
        whole = second.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0x10
        for damaged, word in ((bytes(flipped), "checksum"), (whole[: len(whole) // 2], "binlog.000002")):
            (files / second.name).write_bytes(damaged)
            last = pipeline.start().ends(3).splitlines()[-1]
            assert second.name in last
            assert word in last
            assert pipeline.query(f"SELECT * FROM {work.database}.keyed ORDER BY id") == before

        (files / second.name).write_bytes(whole)
        pipeline.start().ends(0)
        work.assert_equal(pipeline)
