"""A DuckDB file that an earlier pipeline left, and a new one with its own state: what the error says works."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from cdc.errors import ChangeRefused
from cdc.schema import Column, CreateTable, DataType, RenameColumn, TableId, TableSchema
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import ListSource, block, run_in_memory
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink

T = TableId("shop", "customers")
ID = Column("id", DataType.parse("INT"), nullable=False)
BEFORE = TableSchema((ID, Column("note", DataType.parse("STRING"))), ("id",))
AFTER = TableSchema((ID, Column("remark", DataType.parse("STRING"))), ("id",))
LOG = [
    CreateTable(T, BEFORE),
    block(T, BEFORE, [("+I", {"id": 1, "note": "a"})], sequence=1),
    RenameColumn(T, "note", "remark"),
    block(T, AFTER, [("+I", {"id": 2, "remark": "b"})], sequence=2),
]


def run(folder: Path, name: str) -> None:
    """The whole log, by a pipeline that has never run."""
    options = DuckDbSinkOptions(type="duckdb", path=str(folder / "left.duckdb"))
    sink = DuckDbSink(options, Context(name, LocalStore(folder / name / "sink")))
    run_in_memory(ListSource(LOG), sink, state=folder / name / "engine")


@pytest.mark.slow
def test_a_table_of_an_earlier_pipeline_stops_a_new_one_which_goes_on_without_it(tmp_path: Path) -> None:
    run(tmp_path, "first")
    with pytest.raises(ChangeRefused, match="column note cannot be renamed to remark: that column exists") as caught:
        run(tmp_path, "second")
    assert "if an earlier pipeline left the table there, drop it and start over with an empty --state-dir" in str(
        caught.value
    )
    with duckdb.connect(str(tmp_path / "left.duckdb")) as connection:
        connection.execute("DROP TABLE shop.customers")
    run(tmp_path, "third")
    with duckdb.connect(str(tmp_path / "left.duckdb")) as connection:
        assert connection.execute("SELECT * FROM shop.customers ORDER BY id").fetchall() == [(1, "a"), (2, "b")]
