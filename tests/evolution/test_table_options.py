"""What a rule says about new tables reaches CREATE TABLE of sinks that take it; others refuse it before they create."""

from __future__ import annotations

import pytest
from printed_steps import printed

from cdc.errors import ChangeRefused
from cdc.evolution.steps import Statement
from cdc.evolution.table import Layout
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from cdc.schema_json import change_from_json, change_to_json
from connectors.doris.dialect import DorisDialect
from connectors.duckdb.database import FullNames
from connectors.duckdb.dialect import DuckDbDialect
from connectors.starrocks.dialect import StarRocksDialect

CREATE = CreateTable(
    TableId("shop", "t"), TableSchema((Column("id", DataType.parse("INT"), nullable=False),), ("id",)),
    (("replication_num", "3"), ("storage_medium", "SSD")), ("id",),
)  # fmt: skip


def created(dialect: object) -> str:
    steps = printed(dialect, Layout(), [CREATE])  # type: ignore[arg-type]
    return next(step.sql for step in steps if isinstance(step, Statement) and "CREATE TABLE" in step.sql)


def test_they_are_properties_and_win_over_those_of_the_sink() -> None:
    doris = created(DorisDialect({"replication_num": "1", "compression": "zstd"}))
    for pair in ("'replication_num' = '3'", "'compression' = 'zstd'", "'storage_medium' = 'SSD'"):
        assert pair.replace("'", '"') in doris.replace("'", '"')
    starrocks = created(StarRocksDialect(properties=(("replication_num", "1"),)))
    assert "storage_medium" in starrocks
    assert starrocks.count("replication_num") == 1


def test_a_sink_without_properties_refuses_them() -> None:
    with pytest.raises(ChangeRefused, match="takes no table-options, got replication_num, storage_medium"):
        created(DuckDbDialect(FullNames("file")))


def test_they_are_in_the_line_of_the_change() -> None:
    assert change_from_json(change_to_json(CREATE)) == CREATE
    assert "options" not in change_to_json(CreateTable(CREATE.table, CREATE.schema))
