"""Schemas of several tables as one."""

from __future__ import annotations

from cdc.evolution.merge import merge_all, merge_schemas
from cdc.schema import Column, DataType, TableId, TableSchema


def schema(*columns: str, key: str = "id") -> TableSchema:
    made = []
    for text in columns:
        name, _, data_type = text.partition(" ")
        made.append(Column(name, DataType.parse(data_type.rstrip("!")), nullable=not text.endswith("!")))
    return TableSchema(tuple(made), tuple(key.split()))


def test_columns_of_the_first_table_stay_where_they_are_and_new_ones_follow() -> None:
    one = schema("id INT!", "name VARCHAR(5)!", "old DATE!")
    two = schema("extra INT!", "name VARCHAR(9)", "ID BIGINT!")
    assert merge_schemas(one, two) == schema("id BIGINT!", "name VARCHAR(9)", "old DATE", "extra INT")


def test_merging_what_is_merged_changes_nothing() -> None:
    one, two = schema("id INT!", "a DECIMAL(10, 2)"), schema("id BIGINT!", "a DOUBLE", "b INT")
    both = merge_schemas(one, two)
    assert merge_schemas(both, two) == both
    assert merge_schemas(both, one) == both


def test_a_column_keeps_its_own_type_where_both_tables_have_it() -> None:
    own, other = (
        TableSchema((Column("e", DataType.parse("STRING"), source_type=text),)) for text in ("enum('a')", "enum('b')")
    )
    assert merge_schemas(own, own).column("e").source_type == "enum('a')"
    assert merge_schemas(own, other).column("e").source_type == ""


def test_a_merge_says_why_a_column_has_its_type() -> None:
    tables = {
        TableId("s1", "t"): schema("id INT!", "a INT"),
        TableId("s2", "t"): schema("id BIGINT!", "a INT"),
        TableId("s3", "t"): schema("id INT!", "a INT", "b DATE"),
    }
    found = merge_all(tables)
    assert found.schema == schema("id BIGINT!", "a INT", "b DATE")
    assert found.why == {"id": "INT in s1.t, s3.t and BIGINT in s2.t", "b": "NULL for s1.t, s2.t, which lack it"}
