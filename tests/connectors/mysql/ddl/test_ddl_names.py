"""Which captured tables a statement may be about that is not understood."""

from __future__ import annotations

import pytest
from together import together

from cdc.schema import TableId
from connectors.mysql.ddl.catalog import TableDefinitions
from connectors.mysql.ddl.names import names_in
from connectors.mysql.table import MySqlColumn, MySqlTable

NAMES = ("t", "my-table", "a`b", 'say "hi"', "über", "a.b", "Orders", "100%", "left", "$x")
TABLES = [TableId("shop", name) for name in NAMES]


def found(sql: str, database: str = "shop") -> set[str]:
    return {table.table for table in names_in(sql, database, TABLES)}


@together(
    "sql, names",
    [
        ("FROB TABLE t", {"t"}),
        ("FROB TABLE `my-table`, t", {"my-table", "t"}),
        ("FROB `a``b`", {"a`b"}),
        ('FROB "say ""hi"""', {'say "hi"'}),
        ("FROB über", {"über"}),
        ("FROB shop.`a.b`", {"a.b"}),
        ("FROB ORDERS", {"Orders"}),
        ("FROB `100%`", {"100%"}),
        ("FROB /* left */ x", {"left"}),
        ("FROB $x", {"$x"}),
        ("FROB t1, at, t_, my-tables, Xüber, bütter", set()),
        ("EXCHANGE t WITH Orders", {"t", "Orders"}),
    ],
)
def test_captured_names_are_found_however_they_are_written(sql: str, names: set[str]) -> None:
    assert found(sql) == names


def test_a_table_of_another_database_counts_where_that_is_named() -> None:
    assert found("FROB t", "other") == set()
    assert found("FROB shop . t", "other") == {"t"}
    assert found("FROB `Shop`.`T`", "other") == {"t"}
    assert found("FROB t", "") == {"t"}


@pytest.mark.parametrize("sql", ["FROB TABLE other, `my-table`", "ALTER TABLE other FROB WITH `my-table`"])
def test_a_captured_table_behind_one_that_is_not_captured_is_not_overlooked(sql: str) -> None:
    catalog = TableDefinitions(captures=lambda table: table.table == "my-table")
    definition = MySqlTable(TableId("shop", "my-table"), (MySqlColumn("id", "int", nullable=False),), ("id",))
    catalog.define([definition])
    assert catalog.apply(sql, "shop").unparsed
    assert not catalog.apply("ALTER TABLE other FROB", "shop").unparsed
