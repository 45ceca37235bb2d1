"""Iceberg metadata that the driver keeps in memory instead of reading it again: it is what the files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from iceberg_harness import IcebergHarness

from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.testing.blocks import block
from connectors.iceberg import manifest_cache, sql_catalog
from connectors.iceberg.lru_cache import LruCache
from connectors.iceberg.tables import LakeTable, table_for_files

pytestmark = pytest.mark.slow

TABLE = TableId("shop", "orders")
SCHEMA = TableSchema(
    (
        Column("id", DataType(Kind.BIGINT), nullable=False),
        Column("day", DataType(Kind.DATE)),
        Column("name", DataType(Kind.VARCHAR, 20)),
    ),
    ("id", "day"),
)


@pytest.fixture
def harness(tmp_path: Path) -> IcebergHarness:
    """A table with files of several batches, deletes and merged files in two partitions."""
    options = {"partition.key": "shop.orders:day", "sink.compaction.files": "5", "sink.snapshots.keep": "3"}
    harness = IcebergHarness(tmp_path, options)
    sink = harness.sink()
    sink.apply(0, [CreateTable(TABLE, SCHEMA)])
    for batch in range(12):
        rows = [{"id": number, "day": 7 + number % 2, "name": f"b{batch}"} for number in range(batch % 3, 6)]
        some = [block(TABLE, SCHEMA, [("-D" if row["id"] == 5 else "+U", row) for row in rows], sequence=batch)]
        sink.commit(batch, sink.prepare(TaskAttempt(batch, 0, 0, noting=lambda _: None), iter(some)))
    return harness


def _manifests(table: LakeTable) -> dict[str, list[Any]]:
    io, snapshots = table.library.io, table.metadata.snapshots
    found = [manifest for snapshot in snapshots for manifest in manifest_cache.manifests_of(io, snapshot)]
    return {manifest.manifest_path: _plain(manifest) for manifest in found}


def _plain(record: Any) -> list[Any]:
    return [[_plain(item) for item in value] if isinstance(value, list) else str(value) for value in record._data]


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_cache, "_lists", LruCache(1_000, len))
    monkeypatch.setattr(manifest_cache, "_files", LruCache(1_000, len))
    monkeypatch.setattr(sql_catalog, "_cache", LruCache(1_000, sql_catalog._size))


def test_memory_is_equal_to_the_files(harness: IcebergHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    table = harness.table(TABLE)
    manifests, files = _manifests(table), sorted(manifest_cache.live_files(table), key=lambda file: file.file_path)
    _forget(monkeypatch)
    read = harness.table(TABLE)
    assert read.metadata is not table.metadata
    assert read.metadata == table.metadata
    assert _manifests(read) == manifests
    assert sorted(manifest_cache.live_files(read), key=lambda file: file.file_path) == files
    assert {file.content for file in files} == {0, 1}


def test_memory_has_bounds(harness: IcebergHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand tables are written to by a driver with a few hundred megabytes."""
    files = sorted(manifest_cache.live_files(harness.table(TABLE)), key=lambda file: file.file_path)
    _forget(monkeypatch)
    small = LruCache[tuple[manifest_cache.CachedFile, ...]](2, len)
    monkeypatch.setattr(manifest_cache, "_files", small)
    monkeypatch.setattr(sql_catalog, "_cache", LruCache(1, sql_catalog._size))
    assert sorted(manifest_cache.live_files(harness.table(TABLE)), key=lambda file: file.file_path) == files
    assert small._values.currsize <= 2
    assert len(sql_catalog._cache._values) == 1


def test_memory_follows_the_table(harness: IcebergHarness) -> None:
    """Metadata that was written over, and manifests of snapshots that have expired, are let go of."""
    table = harness.table(TABLE)
    newest = [place for place, of in sql_catalog._cache._values.items() if of.table_uuid == table.metadata.table_uuid]
    assert newest == [table.library.metadata_location]
    folder = table.metadata.location
    named = {snapshot.manifest_list for snapshot in table.metadata.snapshots}
    assert {path for path in manifest_cache._lists._values if path.startswith(folder)} <= named
    assert {path for path in manifest_cache._files._values if path.startswith(folder)} <= set(_manifests(table))


def test_tasks_read_a_table_without_its_history(harness: IcebergHarness) -> None:
    """Fifty snapshots cost more to take apart than a small file to write."""
    whole, plain = harness.table(TABLE), table_for_files(harness.catalog, TABLE)
    assert whole.metadata.snapshots
    assert not plain.metadata.snapshots
    assert (plain.columns, plain.key, plain.identity) == (whole.columns, whole.key, whole.identity)
    assert plain.library.spec() == whole.library.spec()
    assert plain.batch("pipeline-1") == whole.batch("pipeline-1") == 11
