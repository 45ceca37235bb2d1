"""Rows that are there when a column with a default is added: they get what a row of the source has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from iceberg_harness import IcebergHarness
from paimon_harness import PaimonHarness

from cdc.schema import AddColumn, Column, CreateTable, DataType, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.testing.blocks import Row, block

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

pytestmark = pytest.mark.slow
T = TableId("shop", "orders")
KEY = Column("id", DataType.parse("INT"), False)
DEFAULTS: dict[str, tuple[str, Any]] = {
    "BOOLEAN": ("1", True),
    "INT UNSIGNED": ("4294967295", 4294967295),
    "BIGINT UNSIGNED": ("18446744073709551615", 2**64 - 1),
    "DECIMAL(10,2)": ("1.50", Decimal("1.50")),
    "DOUBLE": ("1000", 1000.0),
    "VARCHAR(9)": ("it's", "it's"),
    "DATE": ("2020-01-02", date(2020, 1, 2)),
    "TIME(0)": ("08:00:00", timedelta(hours=8)),
    "TIME(3)": ("-08:00:00.500", -timedelta(hours=8, seconds=0.5)),
    "TIME(6)": ("08:00:00.000000", timedelta(hours=8)),
    "TIMESTAMP(3)": ("1969-12-31 23:59:59.500", datetime(1969, 12, 31, 23, 59, 59, 500_000)),
    "TIMESTAMP_LTZ(0)": ("2020-01-02 03:04:05", datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)),
    "VARBINARY(4)": ("0x00FF", b"\x00\xff"),
}


@pytest.mark.parametrize("lake", [IcebergHarness, PaimonHarness], ids=["iceberg", "paimon"])
def test_rows_of_before_are_like_rows_behind(tmp_path: Path, lake: Callable[..., Any]) -> None:
    """By value and spelling: TIME is text in a lake, and a moment without a zone is in UTC."""
    harness, before = lake(tmp_path), TableSchema((KEY,), ("id",))
    added = [Column(f"c{at}", DataType.parse(kind), default=DEFAULTS[kind][0]) for at, kind in enumerate(DEFAULTS)]
    harness.sink().apply(0, [CreateTable(T, before)])
    _commit(harness, 0, before, {"id": 1})
    harness.sink().apply(1, [AddColumn(T, column) for column in added])
    values = {f"c{at}": value for at, (_, value) in enumerate(DEFAULTS.values())}
    _commit(harness, 1, TableSchema((KEY, *added), ("id",)), {"id": 2, **values})
    filled, written = sorted(harness.rows(T), key=lambda row: int(row["id"]))
    assert {**filled, "id": 2} == written


def _commit(harness: Any, batch: int, schema: TableSchema, row: Row) -> None:
    sink, task = harness.sink(), TaskAttempt(batch, 0, 0, noting=[].append)
    sink.commit(batch, sink.prepare(task, iter([block(T, schema, [("+I", row)])])))
