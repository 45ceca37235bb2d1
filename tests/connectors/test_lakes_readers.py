"""Lakes between other systems: readers that pass over files by their bounds, and engines that let snapshots expire."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import iceberg_judge
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from iceberg_harness import IcebergHarness
from paimon_harness import PaimonHarness
from test_lakes_reports import LAKES, T, commit, judged, prepared, schema, texts

from cdc.schema import AlterColumnType, Column, CreateTable, DataType, TableSchema
from cdc.sink import TaskAttempt
from cdc.testing import block
from connectors.iceberg import manifest_cache, rewrite
from connectors.iceberg.lru_cache import LruCache
from connectors.paimon.file_writer import column_stats

pytestmark = pytest.mark.slow

NUMBERS = TableSchema(
    (Column("id", DataType.parse("INT"), nullable=False), Column("v", DataType.parse("DOUBLE"))), ("id",)
)
NAN = float("nan")
VALUES = {1: [0.5, NAN], 2: [NAN, NAN], 3: [-0.0, -1.0], 4: [0.0, 7.0], 5: [None, -math.inf], 6: [None, math.inf]}
"""By batch, so by file."""


@pytest.mark.parametrize("piece_bytes", [1, 128 << 20], ids=["one by one", "at once"])
def test_numbers_that_are_none_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    """Iceberg: NaN is greater than any number to DuckDB and is in no bounds; a file with it is not passed over."""
    monkeypatch.setattr(rewrite, "_PIECE_BYTES", piece_bytes)
    harness = IcebergHarness(tmp_path, {"sink.compaction": "off"})
    harness.sink().apply(0, [CreateTable(T, NUMBERS)])
    for batch, values in VALUES.items():
        commit(harness, batch, NUMBERS, *(("+I", {"id": 10 * batch + at, "v": v}) for at, v in enumerate(values)))
    place = harness.table(T).library.metadata_location
    wanted = {
        "isnan(v)": [11, 20, 21], "v > 5": [11, 20, 21, 41, 60 + 1], "v = 0": [30, 40], "v < 0": [31, 51],
        "v IS NULL": [50, 60], "v = 'inf'::DOUBLE": [61], "v = '-inf'::DOUBLE": [51], "v = 0.5": [10],
    }  # fmt: skip
    with iceberg_judge.Judge() as judge:
        for condition, ids in wanted.items():
            assert sorted(row["id"] for row in judge.rows(place, condition)) == ids, condition
    harness.sink().compact(T)
    with iceberg_judge.Judge() as judge:
        place = harness.table(T).library.metadata_location
        for condition, ids in wanted.items():
            assert sorted(row["id"] for row in judge.rows(place, condition)) == ids, f"{condition}, compacted"
    for file in _bounds(harness):
        assert not any(math.isnan(bound) for bound in file), file


def _bounds(harness: IcebergHarness) -> Iterator[list[float]]:
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import DoubleType

    from connectors.iceberg.snapshots import live_entries

    for entry in live_entries(harness.table(T)):
        bounds = (entry.data_file.lower_bounds or {}, entry.data_file.upper_bounds or {})
        yield [from_bytes(DoubleType(), each[2]) for each in bounds if 2 in each]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_bounds_of_numbers_that_are_none(kind: pa.DataType) -> None:
    """Paimon: Java compares -0.0 as less than 0.0, and NaN as greater than any number."""
    from pypaimon.write.writer.data_writer import DataWriter

    def bounds(values: list[float | None]) -> tuple[str, str]:
        found = column_stats(pa.chunked_array([values], kind), DataWriter._get_column_stats, "v")
        return str(found["min_values"]), str(found["max_values"])

    assert bounds([1.0, NAN]) == bounds([NAN]) == bounds([None]) == ("None", "None")
    assert bounds([0.0, 1.0]) == ("-0.0", "1.0")
    assert bounds([-0.0, -1.0]) == ("-1.0", "0.0")
    assert bounds([-0.0]) == bounds([0.0]) == ("-0.0", "0.0")


@LAKES
def test_columns_without_repeated_values_have_no_dictionary(tmp_path: Path, lake: Any) -> None:
    """It took half of the time that files of many rows are written in."""
    harness, of = lake(tmp_path, {"sink.compaction": "off"}), schema()
    harness.sink().apply(0, [CreateTable(T, of)])
    commit(harness, 0, of, *(("+I", {"id": number, "day": f"d{number % 7}", "v": 0}) for number in range(2_000)))
    (path,) = (tmp_path / "lake").rglob("*.parquet")
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    by_name = {column.path_in_schema: column.has_dictionary_page for column in columns}
    assert [by_name[name] for name in ("id", "day", "v")] == [False, True, True]
    assert len(harness.rows(T)) == 2_000


def test_a_delete_file_is_about_one_data_file(tmp_path: Path) -> None:
    """Iceberg: engines' compaction takes delete files apart by the path, which is whole in both bounds."""
    harness, of = IcebergHarness(tmp_path, {"sink.compaction": "off"}), schema()
    harness.sink().apply(0, [CreateTable(T, of)])
    rows = [{"id": number, "day": "x", "v": 0} for number in range(4)]
    for batch, row in enumerate(rows):
        commit(harness, batch, of, ("+I", row))
    commit(harness, 4, of, *(("-D", row) for row in rows[1:]))
    files = list(manifest_cache.live_files(harness.table(T)))
    about = [
        (file.lower_bounds[manifest_cache.PATH_ID], file.upper_bounds[manifest_cache.PATH_ID])
        for file in files
        if file.content == 1
    ]
    paths = [file.file_path.encode() for file in files if file.content == 0]
    assert len(paths) == 4
    assert sorted(about) == sorted((path, path) for path in paths if path in {lower for lower, _ in about})
    assert len(about) == 3


def test_another_type_of_a_key_moves_the_rows(tmp_path: Path) -> None:
    """Paimon: a bucket is the hash of the key as it is stored, so rows were looked for in another one."""
    harness, of = PaimonHarness(tmp_path, {"sink.buckets": "4"}), schema()
    harness.sink().apply(0, [CreateTable(T, of)])
    rows = [{"id": number - 10, "day": "x", "v": 0} for number in range(20)]
    commit(harness, 0, of, *(("+I", row) for row in rows))
    wide = TableSchema((Column("id", DataType.parse("BIGINT"), nullable=False), *of.columns[1:]), ("id",))
    harness.sink().apply(1, [AlterColumnType(T, wide.columns[0])])
    assert {column.name: column.type for column in harness.table(T).columns}["id"] == "BIGINT"
    updated = [image for row in rows[2:] for image in (("-U", row), ("+U", {**row, "v": 1}))]
    commit(harness, 1, wide, *updated, ("-D", rows[0]))
    wanted = sorted([(rows[1]["id"], 0), *((row["id"], 1) for row in rows[2:])])
    for _ in range(2):
        (found,) = judged(harness, T)
        assert sorted((int(row["id"]), int(row["v"])) for row in found) == wanted
        harness.sink().compact(T)


@LAKES
def test_a_snapshot_that_vanishes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lake: Any) -> None:
    """Another system merges the files and lets the snapshot go between two looks of a commit: it begins again."""
    others = {"sink.snapshots.keep": "1", "sink.snapshots.keep-for": "0s"} if lake is IcebergHarness else {}
    harness, of = lake(tmp_path, {"sink.compaction": "off"}), schema()
    harness.sink().apply(0, [CreateTable(T, of)])
    rows = [{"id": number, "day": "x", "v": 0} for number in range(4)]
    for batch, row in enumerate(rows):
        commit(harness, batch, of, ("+I", row))
    waiting = prepared(harness, 4, of, [("-U", rows[0]), ("+U", {**rows[0], "v": 4}), ("-D", rows[1])])
    gone: list[bool] = []
    owner, name = _look(lake, monkeypatch)
    real = getattr(owner, name)

    def look(*arguments: Any) -> Any:
        if not gone:
            gone.append(True)
            lake(tmp_path, others).sink().compact(T)
            if lake is PaimonHarness:  # its snapshots stay for an hour
                raise FileNotFoundError("snapshot-4")
        return real(*arguments)

    monkeypatch.setattr(owner, name, look)
    harness.sink().commit(4, waiting)
    assert gone
    (found,) = judged(harness, T)
    assert sorted((int(row["id"]), int(row["v"])) for row in found) == [(0, 4), (2, 0), (3, 0)]


def _look(lake: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """A function that reads what a snapshot consists of, which is not in memory."""
    if lake is PaimonHarness:
        from pypaimon.snapshot.snapshot_manager import SnapshotManager

        return SnapshotManager, "get_latest_snapshot"
    monkeypatch.setattr(manifest_cache, "_lists", LruCache(1_000, len))
    monkeypatch.setattr(manifest_cache, "_files", LruCache(1_000, len))
    return manifest_cache, "read_entries"


@LAKES
@pytest.mark.parametrize("key", [(), ("id",)], ids=["no key", "key"])
def test_files_of_rows_that_compress_well_are_merged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lake: Any, key: tuple[str, ...]
) -> None:
    """Merged files were cut by the bytes of rows in memory: they were as small as before, and merged without end."""
    monkeypatch.setattr(rewrite, "_PIECE_BYTES", 1 << 20)
    small = {"table.properties.target-file-size": "1 mb"} if lake is PaimonHarness else {}
    harness = lake(tmp_path, {"sink.compaction": "off", **small})
    of = TableSchema((Column("id", DataType.parse("INT"), not key), Column("v", DataType.parse("STRING"))), key)
    harness.sink().apply(0, [CreateTable(T, of)])
    for batch in range(6):
        commit(harness, batch, of, ("+I", {"id": batch, "v": f"{batch}" * 400_000}))
    assert harness.sink().compact(T).startswith("6 files merged")
    assert harness.sink().compact(T).startswith("0 files merged")
    assert {int(row["id"]): row["v"] for row in harness.rows(T)} == {id_: f"{id_}" * 400_000 for id_ in range(6)}


@LAKES
def test_minus_zero_takes_the_place_of_zero(tmp_path: Path, lake: Any) -> None:
    """A key that the source takes for the same: readers merge files in order of their keys, -0 before 0."""
    harness = lake(tmp_path, {"sink.compaction": "off"})
    of = TableSchema(
        (Column("id", DataType.parse("DOUBLE"), nullable=False), Column("v", DataType.parse("INT"))), ("id",)
    )
    harness.sink().apply(0, [CreateTable(T, of)])
    commit(harness, 0, of, ("+I", {"id": 0.0, "v": 0}), ("+I", {"id": -1.5, "v": 0}))
    other = {"id": -1.5, "v": 1}
    commit(harness, 1, of, ("+U", other), ("-U", {"id": 0.0, "v": 0}), ("+U", {"id": -0.0, "v": 1}))
    for _ in range(2):
        assert texts(harness.rows(T), "id", "v") == [("-0.0", "1"), ("-1.5", "1")]
        harness.sink().compact(T)
    back = [("-U", {"id": -0.0, "v": 2}), ("+U", {"id": 0.0, "v": 3})]
    parts = enumerate([[("+U", {"id": -0.0, "v": 2})], back])
    tasks = [(TaskAttempt(2, part, 0, noting=[].append), block(T, of, changes)) for part, changes in parts]
    harness.sink().commit(2, [one for task, changes in tasks for one in harness.sink().prepare(task, iter([changes]))])
    assert texts(harness.rows(T), "id", "v") == [("-1.5", "1"), ("0.0", "3")]
