"""Tables of the sink as Spark reads them, with Iceberg's own library: rows, deletes, partitions, changed schemas."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spark_judge
from iceberg_harness import IcebergHarness
from test_iceberg_partitions import CASES, T, write

from cdc.schema import AddColumn, AlterColumnType, Column, CreateTable, DataType, DropColumn, RenameColumn, TableSchema

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

INT = DataType.parse("INT")
ID = Column("id", INT, nullable=False)


@pytest.fixture(scope="module")
def judge() -> Iterator[spark_judge.Judge]:
    with spark_judge.Judge() as judge:
        yield judge


def plain(value: Any) -> Any:
    """A value as the test wrote it."""
    return bytes(value) if isinstance(value, bytearray) else value


def condition(value: Any) -> str:
    """The value's rows in SQL of Spark."""
    if value is None:
        return "v IS NULL"
    if isinstance(value, datetime.datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"v = {kind}'{value.replace(tzinfo=None).isoformat(' ').rjust(19, '0')}'"
    if isinstance(value, datetime.date):
        return f"v = DATE'{value.isoformat()}'"
    if isinstance(value, bytes):
        return f"v = X'{value.hex()}'"
    return f"v = '{value}'" if isinstance(value, str) else f"v = {value}"


@pytest.mark.parametrize("name", list(CASES))
def test_rows_of_every_partition(tmp_path: Path, judge: spark_judge.Judge, name: str) -> None:
    """Also when they are asked for by value, so that files and partitions are passed over."""
    kind, transforms, values = CASES[name]
    for number, transform in enumerate(transforms):
        field = "v" if transform == "identity" else f"{transform}(v)"
        folder = tmp_path / str(number)
        folder.mkdir()
        harness = IcebergHarness(folder, {"partition.key": f"shop.orders:{field}", "sink.compaction": "off"})
        schema = TableSchema((ID, Column("v", DataType.parse(kind)), Column("n", INT)), ("id",))
        harness.sink().apply(0, [CreateTable(T, schema)])
        rows = [{"id": number, "v": value, "n": 0} for number, value in enumerate([None, *values])]
        write(harness, 0, schema, [("+I", row) for row in rows])
        write(harness, 1, schema, [("-D", rows[1]), ("-U", rows[2]), ("+U", {**rows[2], "n": 1})])
        left = {row["id"]: row["v"] for row in rows if row["id"] != 1}
        place = harness.table(T).library.metadata_location
        found = {row["id"]: comparable(row["v"]) for row in judge.rows(place)}
        assert found == {number: comparable(value) for number, value in left.items()}, transform
        for value in dict.fromkeys(left.values()):
            same = sorted(other for other, each in left.items() if each == value)
            assert sorted(row["id"] for row in judge.rows(place, condition(value))) == same, (transform, value)


def comparable(value: Any) -> Any:
    """Spark gives moments with a zone as local ones of the process, which is in UTC."""
    value = plain(value)
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value


def test_files_of_changed_schemas_before_and_after_compaction(tmp_path: Path, judge: spark_judge.Judge) -> None:
    harness = IcebergHarness(tmp_path, {"sink.compaction": "off"})
    first = TableSchema((ID, Column("a", INT), Column("b", DataType.parse("VARCHAR(9)"))), ("id",))
    harness.sink().apply(0, [CreateTable(T, first)])
    write(harness, 0, first, [("+I", {"id": number, "a": number, "b": f"b{number}"}) for number in range(6)])
    wide = Column("a", DataType.parse("BIGINT"))
    changes = [AlterColumnType(T, wide), RenameColumn(T, "a", "c"), DropColumn(T, "b"), AddColumn(T, Column("b", INT))]
    harness.sink().apply(1, changes)
    second = TableSchema((ID, Column("c", wide.type), Column("b", INT)), ("id",))
    old = [{"id": number, "c": number, "b": None} for number in range(6)]
    new = {"id": 0, "c": 2**40, "b": 1}
    write(harness, 1, second, [("-U", old[0]), ("+U", new), ("-D", old[1]), ("+I", {**new, "id": 9})])
    wanted = [new, *old[2:], {**new, "id": 9}]
    for _ in range(2):
        found = judge.rows(harness.table(T).library.metadata_location)
        assert sorted(found, key=lambda row: int(row["id"])) == wanted
        harness.sink().compact(T)
