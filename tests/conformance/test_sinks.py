"""Every sink passes the same named behaviours."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from starrocks_harness import Harness
from starrocks_servers import StarRocksServer
from tiers import in_turn

from cdc.schema import TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import ListSink, SinkConformance, run_in_memory
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink
from connectors.values.options import ValuesSinkOptions, ValuesSourceOptions
from connectors.values.sink import ValuesSink
from connectors.values.source import ValuesSource


class ListHarness:
    def __init__(self) -> None:
        self._sink = ListSink()

    def sink(self) -> ListSink:
        return self._sink

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        return self._sink.rows(table) if table in self._sink.tables else None


class DuckDbHarness:
    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "shop.duckdb")
        self._context = Context("pipeline-1", LocalStore(folder / "state"))

    def sink(self) -> DuckDbSink:
        return DuckDbSink(DuckDbSinkOptions(type="duckdb", path=self._path), self._context)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        with duckdb.connect(self._path, read_only=True) as connection:
            known = "SELECT 1 FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?"
            if not connection.execute(known, [table.database, table.table]).fetchall():
                return None
            arrow = connection.sql(f'FROM shop."{table.database}"."{table.table}"').to_arrow_table()
        return [_plain(row) for row in arrow.to_pylist()]


class ValuesHarness:
    """Reads the lines back with the values source, into a list sink."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "out.jsonl")
        self._context = Context("pipeline-1", LocalStore(folder / "state"))

    def sink(self) -> ValuesSink:
        return ValuesSink(ValuesSinkOptions(type="values", path=self._path), self._context)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        sink = ListSink()
        run_in_memory(ValuesSource(ValuesSourceOptions(type="values", path=self._path), self._context), sink)
        return sink.rows(table) if table in sink.tables else None


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Arrow's interval as a timedelta; the rest is plain already."""
    return {
        name: timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
        if isinstance(value, pa.MonthDayNano)
        else value
        for name, value in row.items()
    }


class TestListSink(SinkConformance):
    @pytest.fixture
    def harness(self) -> ListHarness:
        return ListHarness()


class TestValuesSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> ValuesHarness:
        return ValuesHarness(tmp_path)


@pytest.mark.slow  # opens a database file some hundred times
class TestDuckDbSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> DuckDbHarness:
        return DuckDbHarness(tmp_path)


@pytest.mark.slow
@in_turn(1, 2)
class TestStarRocksSink(SinkConformance):
    @pytest.fixture
    def harness(self, starrocks: StarRocksServer, tmp_path: Path) -> Harness:
        starrocks.query("DROP DATABASE IF EXISTS shop FORCE")
        return Harness(starrocks, tmp_path / "state")
