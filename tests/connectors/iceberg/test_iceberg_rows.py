"""Random changes into Iceberg tables, held against a dictionary: any key, partitions, tasks, compaction between.

Read by the library's own scan, and by DuckDB's extension where it is installed (`make services`).
"""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from iceberg_harness import IcebergHarness
from iceberg_judge import duckdb_rows

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused
from cdc.schema import AlterColumnType, Column, CreateTable, DataType, Kind, TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.testing.blocks import block
from connectors.iceberg import index, load
from connectors.iceberg.parquet import RowsFile, write_rows

pytestmark = pytest.mark.slow

TABLE = TableId("shop", "orders")
NUMBER = (Column("id", DataType(Kind.BIGINT), nullable=False),)
COMPOSITE = (
    Column("id", DataType(Kind.INT), nullable=False),
    Column("code", DataType(Kind.VARCHAR, 20), nullable=False),
    Column("day", DataType(Kind.DATE), nullable=False),
)
OTHERS = (Column("qty", DataType(Kind.INT)), Column("at", DataType(Kind.TIMESTAMP, 6)))


class Lives:
    """A table's rows by key, and random changes of them."""

    def __init__(self, schema: TableSchema, seed: int) -> None:
        self.schema, self.random, self.rows = schema, random.Random(seed), dict[tuple[Any, ...], dict[str, Any]]()

    def changes(self, number: int) -> list[tuple[str, dict[str, Any]]]:
        return [change for _ in range(number) for change in self._change()]

    def _change(self) -> list[tuple[str, dict[str, Any]]]:
        new = self._row()
        key = tuple(new[name] for name in self.schema.primary_key)
        old = self.rows.get(key)
        if old is None:
            self.rows[key] = new
            return [("+I", new)]
        if self.random.random() < 0.3:
            del self.rows[key]
            return [("-D", old)]
        self.rows[key] = new
        return [("-U", old), ("+U", new)]

    def _row(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.random.randrange(-20, 20)}
        if "code" in self.schema.names:
            found["id"] %= 4
            found["code"] = self.random.choice(["", "a", "A", "ä", "a\x00b", "1:x", "x" * 30])
            found["day"] = datetime.date(2024, 1, 1 + self.random.randrange(3))
        found["qty"] = self.random.choice([None, 1, 2, 3])
        found["at"] = datetime.datetime(2024, 1, 1 + self.random.randrange(3), 5)
        return found


@pytest.mark.parametrize("indexed", [False, True], ids=["scan", "index"])
@pytest.mark.parametrize(
    ("keys", "partition"),
    [
        pytest.param(NUMBER, "", id="number"),
        pytest.param(NUMBER, "day(at),bucket[3](id)", id="number-partitioned"),
        pytest.param(COMPOSITE, "", id="composite"),
        pytest.param(COMPOSITE, "code,truncate[2](id),month(day)", id="composite-partitioned"),
    ],
)
def test_random_changes_end_as_in_the_source(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: tuple[Column, ...],
    partition: str,
    indexed: bool,
) -> None:
    if indexed:
        monkeypatch.setattr(index, "FROM_ROWS", 0)
        monkeypatch.setattr(index, "MOST_SHARE", 0)
        monkeypatch.setattr(load, "_INLINE_BYTES", 0)
    schema = TableSchema((*keys, *OTHERS), tuple(column.name for column in keys))
    options = {"partition.key": f"shop.orders:{partition}"} if partition else {}
    harness = IcebergHarness(
        tmp_path, {**options, "retry-timeout": "1s", "sink.compaction.files": "4", "sink.snapshots.keep": "3"}
    )
    sink, lives = harness.sink(), Lives(schema, 7)
    sink.apply(0, [CreateTable(TABLE, schema)])
    for batch in range(8):
        handles = list[Prepared]()
        for partition_number in range(2):
            blocks = [_block(schema, lives.changes(5)) for _ in range(2)]
            handles += sink.prepare(TaskAttempt(batch, partition_number, 0, noting=[].append), iter(blocks))
        sink.commit(batch, handles)
        if batch % 5 == 0:
            assert _sorted(harness.rows(TABLE) or []) == _sorted(list(lives.rows.values()))
    sink.compact(TABLE)
    assert _sorted(harness.rows(TABLE) or []) == _sorted(list(lives.rows.values()))
    assert _sorted(duckdb_rows(harness.table(TABLE).library.metadata_location)) == _sorted(list(lives.rows.values()))


def _block(schema: TableSchema, changes: list[tuple[str, dict[str, Any]]]) -> ChangeBlock:
    return block(TABLE, schema, changes)


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


_DAY = datetime.date
_MOMENT = datetime.datetime
KEYS: list[tuple[str, str, list[Any]]] = [
    ("INT", "BIGINT", [1, -2, 3]),
    ("DECIMAL(10,2)", "DECIMAL(12,2)", [Decimal("1.10"), Decimal("-2.20"), Decimal("3.30")]),
    ("VARCHAR(200)", "", ["ä" * 50, "b", "\U0001f600" * 20]),
    ("VARBINARY(20)", "", [b"\xff\x00", b"\x01", b""]),
    ("DATE", "", [_DAY(1, 1, 1), _DAY(9999, 12, 31), _DAY(2024, 1, 1)]),
    ("TIMESTAMP(6)", "", [_MOMENT(1, 1, 1), _MOMENT(9999, 12, 31, 23, 59, 59, 999999), _MOMENT(2024, 1, 1)]),
    ("BIGINT UNSIGNED", "", [2**64 - 1, 0, 5]),
    ("FLOAT", "DOUBLE", [1.5, -0.25, 0.0]),
    ("DOUBLE", "", [0.1, -2e300, 3.0]),
]


@pytest.mark.parametrize(("kind", "wider", "keys"), KEYS, ids=[kind for kind, _, _ in KEYS])
def test_rows_are_found_by_keys_of_any_kind_also_once_it_was_promoted(
    tmp_path: Path, kind: str, wider: str, keys: list[Any]
) -> None:
    """Bounds of files are cut texts, and those of before a promotion are of the former type."""
    harness = IcebergHarness(tmp_path, {"retry-timeout": "1s"})
    sink = harness.sink()

    def commit(batch: int, type_text: str, *changes: tuple[str, int, int]) -> None:
        schema = keyed_by(type_text)
        rows = [(image, {"k": keys[number], "v": value}) for image, number, value in changes]
        blocks = iter([block(TABLE, schema, rows)])
        sink.commit(batch, sink.prepare(TaskAttempt(batch, 0, 0, noting=[].append), blocks))

    sink.apply(0, [CreateTable(TABLE, keyed_by(kind))])
    commit(0, kind, ("+I", 0, 1), ("+I", 1, 1), ("+I", 2, 1))
    if wider:
        sink.apply(1, [AlterColumnType(TABLE, keyed_by(wider).columns[0])])
    commit(1, wider or kind, ("-U", 0, 1), ("+U", 0, 2), ("-D", 1, 1))
    assert sorted((str(row["k"]), row["v"]) for row in harness.rows(TABLE) or []) == sorted(
        [(str(keys[0]), 2), (str(keys[2]), 1)]
    )


def test_a_type_that_a_column_cannot_be_promoted_to_is_named(tmp_path: Path) -> None:
    """The run stops with it where several tables are merged."""
    sink = IcebergHarness(tmp_path).sink()
    sink.apply(0, [CreateTable(TABLE, keyed_by("DECIMAL(10,2)"))])
    with pytest.raises(ChangeRefused, match=r"column k cannot be changed from decimal\(10, 2\) to decimal\(12, 3\)"):
        sink.apply(1, [AlterColumnType(TABLE, keyed_by("DECIMAL(12,3)").columns[0])])


def keyed_by(type_text: str) -> TableSchema:
    key = Column("k", DataType.parse(type_text), nullable=False)
    return TableSchema((key, Column("v", DataType(Kind.INT))), ("k",))


@pytest.mark.parametrize("indexed", [False, True], ids=["files", "index"])
def test_key_columns_are_called_as_the_columns_of_keys_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, indexed: bool
) -> None:
    """`pos` and `file` beside a key are the places of its rows."""
    monkeypatch.setattr(index, "FROM_ROWS", 0 if indexed else 1 << 60)
    monkeypatch.setattr(index, "MOST_SHARE", 0)
    harness, key = IcebergHarness(tmp_path), ("file", "POS", "cdc_file", "cdc_rank", "cdc_flush", "key_1", "row")
    whole = DataType(Kind.INT)
    schema = TableSchema((*(Column(name, whole, nullable=False) for name in key), Column("v", whole)), key)
    sink = harness.sink()
    sink.apply(0, [CreateTable(TABLE, schema)])
    for batch in range(3):
        number = [0, 1] if batch == 0 else [0]
        rows = [("+I", {**dict.fromkeys(key, 7), "row": row, "v": batch}) for row in number]
        tasks = (TaskAttempt(batch, part, 0, noting=[].append) for part in range(2))
        prepared = [one for task in tasks for one in sink.prepare(task, iter([block(TABLE, schema, rows)]))]
        sink.commit(batch, prepared)
    assert sorted((row["row"], row["v"]) for row in harness.rows(TABLE) or []) == [(0, 2), (1, 0)]


def test_dates_beyond_the_years_of_the_library_are_written_without_bounds(tmp_path: Path) -> None:
    from pyiceberg.typedef import Record

    columns = {"id": "INT", "day": "DATE", "at": "TIMESTAMP(6)"}
    schema = TableSchema(tuple(Column(name, DataType.parse(text)) for name, text in columns.items()))
    harness = IcebergHarness(tmp_path)
    table = TableId("shop", "far")
    harness.sink().apply(0, [CreateTable(table, schema)])
    library = harness.table(table).library
    days, moments = [2_932_896, None, 2**31 - 1], [253_402_300_799_999_999, 253_402_300_800_000_000, None]
    arrays = [
        pa.array([1, 2, 3], pa.int32()),
        pa.array(days, pa.int32()).view(pa.date32()),
        pa.array(moments, pa.int64()).view(pa.timestamp("us")),
    ]
    rows = pa.RecordBatch.from_arrays(arrays, list(columns))
    with RowsFile(library, str(tmp_path / "rows.parquet"), Record()) as file:
        file.write(rows[:1])
        assert not file.takes(rows[1:])
    file = write_rows(library, str(tmp_path / "far.parquet"), rows, Record())
    assert set(file.lower_bounds) == set(file.upper_bounds) == {1}
    found = pq.read_table(tmp_path / "far.parquet")
    assert found["day"].cast(pa.int32()).to_pylist() == days
    assert found["at"].cast(pa.int64()).to_pylist() == moments
