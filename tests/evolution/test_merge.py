"""The widening lattice: every pair of types, and schemas of several tables as one."""

from __future__ import annotations

from itertools import product

import pytest

from cdc.evolution.merge import common_type, merge_all, merged
from cdc.schema import Column, DataType, TableId, TableSchema

ALL = [
    DataType.parse(text)
    for text in (
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "TINYINT UNSIGNED", "SMALLINT UNSIGNED", "INT UNSIGNED",
        "BIGINT UNSIGNED", "DECIMAL(10, 2)", "DECIMAL(5, 4)", "DECIMAL(65, 30)", "FLOAT", "DOUBLE", "CHAR(3)",
        "CHAR(9)", "VARCHAR(5)", "VARCHAR(40)", "STRING", "JSON", "BINARY(4)", "VARBINARY(9)", "BYTES", "DATE",
        "TIME(0)", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "GEOMETRY", "VECTOR(3)", "VECTOR(4)",
    )
]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right", "wide"),
    [
        ("TINYINT", "SMALLINT", "SMALLINT"),
        ("INT", "BIGINT", "BIGINT"),
        ("INT UNSIGNED", "INT", "BIGINT"),
        ("TINYINT UNSIGNED", "SMALLINT UNSIGNED", "SMALLINT UNSIGNED"),
        ("BIGINT UNSIGNED", "TINYINT", "DECIMAL(20, 0)"),
        ("TINYINT", "DECIMAL(4, 2)", "DECIMAL(5, 2)"),
        ("BIGINT", "DECIMAL(10, 2)", "DECIMAL(21, 2)"),
        ("INT", "DECIMAL(20, 2)", "DECIMAL(20, 2)"),
        ("DECIMAL(10, 2)", "DECIMAL(5, 4)", "DECIMAL(12, 4)"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 18)", "DECIMAL(56, 18)"),
        ("DECIMAL(65, 0)", "DECIMAL(30, 30)", "STRING"),
        ("SMALLINT", "FLOAT", "FLOAT"),
        ("INT", "FLOAT", "DOUBLE"),
        ("BIGINT", "DOUBLE", "DOUBLE"),
        ("FLOAT", "DOUBLE", "DOUBLE"),
        ("DECIMAL(10, 2)", "DOUBLE", "STRING"),
        ("DECIMAL(10, 2)", "FLOAT", "STRING"),
        ("VARCHAR(5)", "VARCHAR(40)", "VARCHAR(40)"),
        ("CHAR(9)", "VARCHAR(5)", "VARCHAR(9)"),
        ("CHAR(9)", "CHAR(5)", "CHAR(9)"),
        ("VARCHAR(5)", "STRING", "STRING"),
        ("JSON", "VARCHAR(5)", "STRING"),
        ("INT", "VARCHAR(5)", "STRING"),
        ("BINARY(4)", "VARBINARY(2)", "VARBINARY(4)"),
        ("BINARY(4)", "BINARY(2)", "VARBINARY(4)"),
        ("BINARY(4)", "BYTES", "BYTES"),
        ("BYTES", "STRING", "STRING"),
        ("BOOLEAN", "INT", "STRING"),
        ("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(3)"),
        ("TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"),
        ("DATE", "TIMESTAMP(0)", "TIMESTAMP(6)"),
        ("DATE", "TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(6)"),
        ("TIME(0)", "TIME(3)", "TIME(3)"),
        ("TIME(0)", "TIMESTAMP(0)", "STRING"),
        ("VECTOR(3)", "VECTOR(4)", "VECTOR"),
    ],
)
def test_the_type_that_holds_both(left: str, right: str, wide: str) -> None:
    assert str(common_type(DataType.parse(left), DataType.parse(right))) == wide


def test_the_order_of_two_types_makes_no_difference() -> None:
    for left, right in product(ALL, ALL):
        assert common_type(left, right) == common_type(right, left), (left, right)


def test_a_type_that_holds_both_is_not_widened_by_either() -> None:
    for left, right in product(ALL, ALL):
        wide = common_type(left, right)
        assert common_type(wide, common_type(wide, left)) == common_type(wide, left) == common_type(left, wide)
        if wide.kind not in (left.kind, right.kind):
            continue
        assert common_type(wide, left) == wide == common_type(wide, right), (left, right, wide)


def schema(*columns: str, key: str = "id") -> TableSchema:
    made = []
    for text in columns:
        name, _, data_type = text.partition(" ")
        made.append(Column(name, DataType.parse(data_type.rstrip("!")), nullable=not text.endswith("!")))
    return TableSchema(tuple(made), tuple(key.split()))


def test_columns_of_the_first_table_stay_where_they_are_and_new_ones_follow() -> None:
    one = schema("id INT!", "name VARCHAR(5)!", "old DATE!")
    two = schema("extra INT!", "name VARCHAR(9)", "ID BIGINT!")
    assert merged(one, two) == schema("id BIGINT!", "name VARCHAR(9)", "old DATE", "extra INT")


def test_merging_what_is_merged_changes_nothing() -> None:
    one, two = schema("id INT!", "a DECIMAL(10, 2)"), schema("id BIGINT!", "a DOUBLE", "b INT")
    both = merged(one, two)
    assert merged(both, two) == both
    assert merged(both, one) == both


def test_a_merge_says_why_a_column_has_its_type() -> None:
    tables = {
        TableId("s1", "t"): schema("id INT!", "a INT"),
        TableId("s2", "t"): schema("id BIGINT!", "a INT"),
        TableId("s3", "t"): schema("id INT!", "a INT", "b DATE"),
    }
    found = merge_all(tables)
    assert found.schema == schema("id BIGINT!", "a INT", "b DATE")
    assert found.why == {"id": "INT in s1.t, s3.t and BIGINT in s2.t", "b": "NULL for s1.t, s2.t, which lack it"}
