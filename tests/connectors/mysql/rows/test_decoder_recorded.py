"""Recorded logs of both servers, without a server: every type, partial updates, compressed transactions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from decoded import chunks_of, decode
from selected import shown
from together import together

from cdc.schema import TableId
from connectors.mysql.table import MySqlColumn, MySqlTable

_FIXTURES = Path(__file__).parents[3] / "fixtures"
_TABLE = TableId("recorded", "t")


def _recorded(name: str) -> tuple[MySqlTable, list[dict[str, Any]]]:
    columns = json.loads((_FIXTURES / "rows" / f"{name}.json").read_text(encoding="utf-8"))
    rows = [column.pop("rows") for column in columns]
    made = [MySqlColumn(**{**column, "labels": tuple(column["labels"])}) for column in columns]
    return MySqlTable(_TABLE, tuple(made), ("id",)), rows


@together("name, count", [("mysql", 9), ("mariadb", 9), ("mysql-5.5", 4), ("mariadb-10.1", 4)])
def test_every_type_as_the_server_answered_it(name: str, count: int) -> None:
    table, expected = _recorded(name)
    found = decode({_TABLE: table}, chunks_of(_FIXTURES / "rows" / f"{name}.binlog")).table(_TABLE)
    assert found.num_rows == count
    for column, values, wanted in zip(table.columns, found.columns, expected, strict=True):
        assert [shown(value) for value in values.to_pylist()] == wanted, column


def test_a_log_with_partial_updates_rollbacks_and_compressed_transactions() -> None:
    orders = TableId("shop", "orders")
    before = MySqlTable(
        orders,
        (
            MySqlColumn("id", "bigint", nullable=False),
            MySqlColumn("note", "varchar", 300, charset="utf8mb4"),
            MySqlColumn("doc", "json"),
            MySqlColumn("body", "longblob"),
        ),
        ("id",),
    )
    found = decode({orders: before}, chunks_of(_FIXTURES / "binlog" / "mysql.binlog"))
    rows, kinds = found.rows(orders), found.kinds(orders)
    assert kinds[:5] == [0, 0, 0, 1, 2]
    assert [row[1] for row in rows[:5]] == ["one", "two", "three", "two", "zwei"]
    documents = [row[2] for row in rows if row[2] is not None]
    assert documents[:3] == ['{"a": 1, "b": [1, 2, 3]}', '{"a": 1, "b": [1, 2, 3]}', '{"a": 2, "b": [1, 2, 3]}']
    repeated = [row[1] for row, kind in zip(rows, kinds, strict=True) if kind == 0 and row[1].startswith("compressed")]
    assert set(repeated) == {"compressed " * 20}
    assert kinds[-2:] == [3, 3]
