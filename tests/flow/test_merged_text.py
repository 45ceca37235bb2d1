"""Columns of merged tables that become wider when rows are there: old rows read as new ones of the same value do."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from doris_harness import Harness as Doris
from doris_servers import DorisServer
from starrocks_harness import Harness as StarRocks
from starrocks_servers import StarRocksServer

from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import AddColumn, AlterColumnType, Column, CreateTable, DataType, DropColumn, TableId, TableSchema
from cdc.sink import Sink
from cdc.sink_columns import Coercion
from cdc.source import Context
from cdc.spec.model import RouteRule
from cdc.state.store import LocalStore
from cdc.testing import ListSink, ListSource, block, run_in_memory
from connectors.duckdb.options import DuckDbSinkOptions

pytestmark = pytest.mark.slow

ONE, TWO, ALL = TableId("s1", "t"), TableId("s2", "t"), TableId("ods", "t")
PLAIN: dict[str, list[Any]] = {
    "INT": [0, -7, 2**31 - 1],
    "BIGINT UNSIGNED": [2**64 - 1],
    "DECIMAL(10, 2)": [Decimal("1.50"), Decimal("-0.05"), Decimal("0.00")],
    "DATE": [date(2024, 2, 29), date(1, 1, 1)],
}
OTHERS: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "DECIMAL(30, 30)": [Decimal("0.000000000000000000000000000001"), Decimal("-0.5" + "0" * 29)],
    "DOUBLE": [0.1, 1.0, -123456.789, 999_999_999.5],
    "TIMESTAMP(6)": [datetime(2024, 5, 6, 7, 8, 9), datetime(2024, 5, 6, 7, 8, 9, 120_000)],
    "TIMESTAMP_LTZ(3)": [datetime(2024, 5, 6, 7, 8, 9, 100_000, UTC), datetime(2024, 5, 6, 0, 0, 0, 0, UTC)],
    "TIME(6)": [timedelta(hours=-800, microseconds=-1500), timedelta(hours=9), timedelta(0)],
    "VARBINARY(9)": [b"", b"\x00\xffa"],
}


def schema(**types: str) -> TableSchema:
    columns = [Column("id", DataType.parse("INT"), nullable=False)]
    return TableSchema((*columns, *(Column(name, DataType.parse(kind)) for name, kind in types.items())), ("id",))


def run(sink: Sink, folder: Path, items: list[Any], behavior: Behavior = Behavior.EVOLVE, to: str = "ods.t") -> None:
    """Both tables into one."""
    rules = [RouteRule(source_table=r"s\d.t", sink_table=to)]
    routing = Middle(RouteTable(rules), Policy(behavior), Coercion("fail"))
    run_in_memory(ListSource(items), sink, middle=routing, state=folder)


def before_and_after(first: dict[str, str], values: dict[str, list[Any]]) -> list[Any]:
    """Rows of the first table, then a second one whose columns are text, then the first table's rows again."""
    count = max(map(len, values.values()))
    rows = [{name: each[number % len(each)] for name, each in values.items()} for number in range(count)]
    there = schema(**first)
    return [
        CreateTable(ONE, there),
        block(ONE, there, [("+I", {"id": number, **row}) for number, row in enumerate(rows)], sequence=1),
        CreateTable(TWO, schema(**dict.fromkeys(first, "STRING"))),
        block(ONE, there, [("+I", {"id": number + 100, **row}) for number, row in enumerate(rows)], sequence=2),
    ]


def named(types: dict[str, list[Any]]) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """Types and values by column."""
    return (
        {f"c{number}": kind for number, kind in enumerate(types)},
        {f"c{number}": values for number, values in enumerate(types.values())},
    )


def check_alike(rows: list[dict[str, Any]]) -> None:
    """Each row of the first half is as the one of the second half, and text."""
    by_id = {row["id"]: {name: value for name, value in row.items() if name != "id"} for row in rows}
    assert by_id
    assert all(isinstance(value, str) for row in by_id.values() for value in row.values())
    assert [by_id[number] for number in sorted(by_id) if number < 100] == [
        by_id[number] for number in sorted(by_id) if number >= 100
    ]


def in_duckdb(folder: Path) -> tuple[Sink, Path]:
    path = folder / "sink.duckdb"
    return DuckDbSinkOptions(type="duckdb", path=str(path)).build(Context("p", LocalStore(folder / "state"))), path


def read(path: Path) -> list[dict[str, Any]]:
    with duckdb.connect(str(path), read_only=True) as file:
        rows = file.execute("SELECT * FROM ods.t ORDER BY id").fetchall()
        return [dict(zip([column[0] for column in file.description or ()], row, strict=True)) for row in rows]


def test_filled_columns_become_text_in_duckdb(tmp_path: Path) -> None:
    sink, path = in_duckdb(tmp_path)
    run(sink, tmp_path / "engine", before_and_after(*named(PLAIN | OTHERS)))
    check_alike(read(path))


def test_filled_columns_become_text_in_doris(tmp_path: Path, doris: DorisServer) -> None:
    harness = Doris(doris, tmp_path / "sink", "merged-text")
    run(harness.sink(), tmp_path / "engine", before_and_after(*named(PLAIN)))
    check_alike(harness.rows(ALL) or [])


def test_filled_columns_become_text_in_starrocks(tmp_path: Path, starrocks: StarRocksServer) -> None:
    harness = StarRocks(starrocks, tmp_path / "sink")
    run(harness.sink(), tmp_path / "engine", before_and_after(*named(PLAIN)))
    check_alike(harness.rows(ALL) or [])


def test_integers_that_a_double_does_not_hold_stop_the_run(tmp_path: Path) -> None:
    sink, path = in_duckdb(tmp_path)
    there = schema(n="BIGINT")
    items = [CreateTable(ONE, there), block(ONE, there, [("+I", {"id": 1, "n": 2**53 + 1})], sequence=1)]
    with pytest.raises(ChangeRefused, match="BIGINT values would not stay the same") as caught:
        run(sink, tmp_path / "engine", [*items, CreateTable(TWO, schema(n="DOUBLE"))])
    assert "cdc resync" not in caught.value.hint, "a merged table is not re-snapshotted for a refused change"
    assert read(path) == [{"id": 1, "n": 2**53 + 1}]


@pytest.mark.parametrize(("old", "new", "value"), [("FLOAT", "DOUBLE", 0.1), ("TIME(1)", "TIME(6)", timedelta(0))])
def test_keys_that_doris_has_as_text_are_not_spelled_in_two_ways(
    tmp_path: Path, doris: DorisServer, old: str, new: str, value: Any
) -> None:
    """A row that changes later would be there twice."""
    harness = Doris(doris, tmp_path / "sink", "merged-keys")
    one, two = (TableSchema((Column("k", DataType.parse(kind), nullable=False),), ("k",)) for kind in (old, new))
    items = [CreateTable(ONE, one), block(ONE, one, [("+I", {"k": value})], sequence=1), CreateTable(TWO, two)]
    with pytest.raises(ChangeRefused, match="values would not stay the same"):
        run(harness.sink(), tmp_path / "engine", items, to=f"ods.{old[:4]}_keys")


def test_long_decimals_which_are_text_are_not_spelled_in_two_ways(tmp_path: Path) -> None:
    """`1.50` that is there and `1.5000` of the same row later: a delete without a key would not find it."""
    sink, path = in_duckdb(tmp_path)
    there = schema(n="DECIMAL(40, 2)")
    items = [CreateTable(ONE, there), block(ONE, there, [("+I", {"id": 1, "n": "1.50"})], sequence=1)]
    with pytest.raises(ChangeRefused, match=r"DECIMAL\(40, 2\) values would not stay the same"):
        run(sink, tmp_path / "engine", [*items, CreateTable(TWO, schema(n="DECIMAL(42, 4)"))])
    assert read(path) == [{"id": 1, "n": "1.50"}]


def test_an_integer_that_its_table_makes_text_is_text_in_a_lenient_sink_too(tmp_path: Path) -> None:
    sink, path = in_duckdb(tmp_path)
    old, new = schema(n="INT"), schema(n="VARCHAR(20)")
    run(
        sink,
        tmp_path / "engine",
        [
            CreateTable(ONE, old),
            block(ONE, old, [("+I", {"id": 1, "n": 7})], sequence=1),
            AlterColumnType(ONE, new.columns[1], old.columns[1]),
            block(ONE, new, [("+I", {"id": 2, "n": "eight"})], sequence=2),
        ],
        Behavior.LENIENT,
    )
    assert read(path) == [{"id": 1, "n": "7"}, {"id": 2, "n": "eight"}]


def test_a_column_that_was_dropped_and_comes_back_as_text_keeps_its_old_values(tmp_path: Path) -> None:
    sink, path = in_duckdb(tmp_path)
    old = schema(n="INT")
    items = [CreateTable(ONE, old), block(ONE, old, [("+I", {"id": 1, "n": 7})], sequence=1)]
    back = AddColumn(ONE, Column("n", DataType.parse("VARCHAR(20)")))
    run(sink, tmp_path / "engine", [*items, DropColumn(ONE, "n"), back], Behavior.LENIENT)
    assert read(path) == [{"id": 1, "n": "7"}]


def test_a_time_of_day_that_a_date_does_not_hold_is_lost_as_the_policy_says(tmp_path: Path) -> None:
    """The column stays a DATE: what does not fit is NULL, and counted."""
    sink, path = in_duckdb(tmp_path)
    old, new = schema(day="DATE"), schema(day="TIMESTAMP(0)")
    rows = [("+I", {"id": 1, "day": datetime(2024, 5, 6)}), ("+I", {"id": 2, "day": datetime(2024, 5, 6, 13)})]
    items = [CreateTable(ONE, old), AlterColumnType(ONE, new.columns[1], old.columns[1])]
    routing = Middle(RouteTable([]), Policy(Behavior.IGNORE), Coercion("null"))
    done = run_in_memory(ListSource([*items, block(ONE, new, rows, sequence=1)]), sink, middle=routing)
    with duckdb.connect(str(path), read_only=True) as file:
        assert file.execute("SELECT * FROM s1.t ORDER BY id").fetchall() == [(1, date(2024, 5, 6)), (2, None)]
    assert done.reasons["does-not-fit-to-null s1.t.day"] == 1


@pytest.mark.parametrize("behavior", [Behavior.EVOLVE, Behavior.LENIENT])
def test_a_default_of_a_table_that_joins_is_not_for_the_rows_of_others(behavior: Behavior, tmp_path: Path) -> None:
    column = Column("x", DataType.parse("INT"), default="5")
    other = TableSchema((*schema().columns, column), ("id",))
    row = block(ONE, schema(), [("+I", {"id": 1})], sequence=1)
    there = block(TWO, other, [("+I", {"id": 2, "x": 7})], sequence=2)
    found = []
    for number, items in enumerate((
        [CreateTable(ONE, schema()), row, CreateTable(TWO, other), there],
        [CreateTable(ONE, schema()), CreateTable(TWO, other), row, there],
    )):  # fmt: skip
        sink = ListSink()
        run(sink, tmp_path / str(number), items, behavior)
        found.append(sink.rows(ALL))
    assert found == [[{"id": 1, "x": None}, {"id": 2, "x": 7}]] * 2
