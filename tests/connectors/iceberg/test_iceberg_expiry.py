"""Snapshots of an Iceberg table that expire: they are few whatever the pace of commits, and queries under way end."""

from __future__ import annotations

from pathlib import Path

import pytest
from iceberg_harness import IcebergHarness

from cdc.errors import SinkUnavailable
from cdc.schema import CreateTable, DropTable
from cdc.testing.sink_conformance import KEYED, ORDERS, keyed, prepare, row
from connectors.iceberg import upkeep
from connectors.iceberg.expired import ExpiredFiles, snapshot_files
from connectors.iceberg.sink import IcebergSink

pytestmark = pytest.mark.slow

HOUR_S = 3600.0
LATER_S = 4_102_444_800.0
"""The year 2100."""


@pytest.fixture
def lake(tmp_path: Path) -> IcebergHarness:
    return IcebergHarness(tmp_path, {"sink.compaction.files": "2", "sink.snapshots.keep": "3"})


def commits(sink: IcebergSink, first: int, count: int) -> None:
    if first == 0:
        sink.apply(0, [CreateTable(ORDERS, KEYED)])
    for batch in range(first, first + count):
        sink.commit(batch, prepare(sink, batch, [keyed("+I", row(batch % 3, f"{batch}"))]))


def expired(lake: IcebergHarness) -> ExpiredFiles:
    """Much later."""
    return ExpiredFiles(lake.context.store.bulk("expired"), HOUR_S, clock=lambda: LATER_S)


def files(folder: Path) -> set[str]:
    found = (path for path in (folder / "lake").rglob("*.*") if path.suffix in (".parquet", ".avro"))
    return {str(path) for path in found}


def test_commits_in_a_short_time_leave_few_snapshots_and_all_files_for_a_while(
    tmp_path: Path, lake: IcebergHarness
) -> None:
    sink = lake.sink()
    commits(sink, 0, 2)
    reading = lake.table(ORDERS).library.scan().plan_files()
    commits(sink, 2, 10)
    table = lake.table(ORDERS)
    assert len(table.metadata.snapshots) <= 5
    assert all(Path(task.file.file_path.removeprefix("file://")).exists() for task in reading)
    expired(lake).remove(table)
    named = {path.removeprefix("file://") for path in snapshot_files(table, table.metadata.snapshots)}
    assert files(tmp_path) == named
    commits(sink, 12, 4)
    assert {item["id"]: item["name"] for item in lake.rows(ORDERS) or []} == {0: "15", 1: "13", 2: "14"}
    sink.apply(16, [DropTable(ORDERS)])
    assert not [path for path in (tmp_path / "lake" / "shop").rglob("*") if path.is_file()]


def test_snapshots_that_stayed_keep_their_files(
    tmp_path: Path, lake: IcebergHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their expiry was noted, and the catalog never heard of it."""
    sink = lake.sink()
    commits(sink, 0, 6)

    def lost(*_: object) -> None:
        raise SinkUnavailable("away", where="catalog")

    with monkeypatch.context() as patched:
        patched.setattr(upkeep, "commit", lost)
        commits(sink, 6, 2)
    there = files(tmp_path)
    table = lake.table(ORDERS)
    assert len(table.metadata.snapshots) > 3
    expired(lake).remove(table)
    named = {path.removeprefix("file://") for path in snapshot_files(table, table.metadata.snapshots)}
    assert named <= files(tmp_path)
    assert named <= there
    assert len(lake.rows(ORDERS) or []) == 3
