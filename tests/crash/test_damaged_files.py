"""Damaged archives of binlog files: a clear error, only whole transactions, and the whole file goes on from there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cdc_process import Pipeline
from direct import DirectRuns
from servers import ServerFactory
from small_workload import SmallWorkload

from cdc.errors import CdcError
from cdc.source import Limits

_PAIRS = 40
_LIMITS = Limits(1 << 26, 30)
"""Several batches of whole transactions, of which some come before the damage."""

pytestmark = [pytest.mark.slow, pytest.mark.mysql]


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
    runs = DirectRuns(pipeline)
    for number in range(_PAIRS):
        work.run(
            "BEGIN",
            f"INSERT INTO keyed (round, note) VALUES (99, '{number:03}')",
            f"INSERT INTO keyless (round, note) VALUES (99, '{number:03}')",
            "COMMIT",
        )
    server.execute("FLUSH BINARY LOGS")
    whole = second.read_bytes()
    flipped = bytearray(whole)
    flipped[2 * len(whole) // 3] ^= 0x10
    found = 0
    for damaged, word in ((whole[: len(whole) // 2], "ends inside"), (bytes(flipped), "checksum")):
        (files / second.name).write_bytes(damaged)
        with pytest.raises(CdcError, match=word) as refused:
            runs.catch_up(_LIMITS)
        assert second.name in str(refused.value)
        assert refused.value.exit_code == 3
        before, found = found, _whole_transactions(pipeline, work.database)
        assert before < found < _PAIRS

    (files / second.name).write_bytes(whole)
    runs.catch_up(_LIMITS)
    work.assert_equal(pipeline)


def _whole_transactions(pipeline: Pipeline, database: str) -> int:
    """How many of the pairs have arrived: the first ones, both rows of each."""
    keyed, keyless = (
        [note for (note,) in pipeline.query(f"SELECT note FROM {database}.{table} WHERE round = 99 ORDER BY note")]
        for table in ("keyed", "keyless")
    )
    assert keyed == keyless == [f"{number:03}" for number in range(len(keyed))]
    return len(keyed)
