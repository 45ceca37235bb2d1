"""Which changes of type leave the values of existing rows certain: one list for all sinks."""

from __future__ import annotations

from together import together

from cdc.schema import DataType
from cdc.types.certain import AnyValue, LongerBytes, condition, uncertain, uncertain_text_key

CERTAIN = [
    ("INT", "BIGINT"), ("INT UNSIGNED", "BIGINT"), ("TINYINT", "DECIMAL(5, 2)"), ("INT", "VARCHAR(20)"),
    ("BIGINT", "DOUBLE"), ("FLOAT", "DOUBLE"), ("DECIMAL(10, 2)", "DECIMAL(12, 4)"), ("DECIMAL(10, 2)", "VARCHAR(20)"),
    ("VARCHAR(10)", "VARCHAR(20)"), ("VARCHAR(10)", "STRING"), ("CHAR(10)", "VARCHAR(10)"), ("BINARY(5)", "BYTES"),
    ("VARBINARY(5)", "VARBINARY(9)"), ("DATE", "TIMESTAMP(3)"), ("TIMESTAMP(0)", "TIMESTAMP(6)"),
    ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)"), ("JSON", "JSON"), ("TINYINT", "CHAR(4)"), ("DECIMAL(9, 0)", "INT"),
    ("DECIMAL(10, 2)", "CHAR(12)"), ("DECIMAL(3, 3)", "CHAR(6)"), ("DECIMAL(45, 4)", "STRING"),
    ("DECIMAL(30, 10)", "DOUBLE"),
]  # fmt: skip
ROWS = [
    ("BIGINT", "INT", "`c` < -2147483648 OR `c` > 2147483647"),
    ("INT", "INT UNSIGNED", "`c` < 0 OR `c` > 4294967295"),
    ("SMALLINT", "DECIMAL(5, 2)", "`c` < -999 OR `c` > 999"),
    ("DECIMAL(10, 4)", "DECIMAL(10, 2)", "`c` <> round(`c`, 2)"),
    ("DECIMAL(10, 4)", "DECIMAL(4, 2)", "`c` <> round(`c`, 2) OR `c` >= 100 OR `c` <= -100"),
    ("DECIMAL(10, 0)", "INT", "`c` < -2147483648 OR `c` > 2147483647"),
    ("DECIMAL(10, 1)", "TINYINT", "`c` <> round(`c`, 0) OR `c` >= 100 OR `c` <= -100"),
    ("DECIMAL(10, 3)", "VARCHAR(8)", "`c` < -999.999 OR `c` > 9999.999"),
    ("DECIMAL(3, 3)", "CHAR(5)", "`c` < 0 OR `c` > 9.999"),
    ("DECIMAL(10, 2)", "CHAR(3)", "`c` < 0 OR `c` > -1"),
    ("DECIMAL(45, 4)", "VARCHAR(20)", "char_length(`c`) > 20"),
    ("INT", "VARCHAR(3)", "`c` < -99 OR `c` > 999"),
    ("INT", "CHAR(1)", "`c` < 0 OR `c` > 9"),
    ("VARCHAR(20)", "VARCHAR(10)", "char_length(`c`) > 10"),
    ("STRING", "VARCHAR(10)", "char_length(`c`) > 10"),
    ("VARCHAR(20)", "CHAR(20)", "`c` LIKE '% '"),
    ("VARCHAR(20)", "CHAR(9)", "char_length(`c`) > 9 OR `c` LIKE '% '"),
    ("VARBINARY(20)", "VARBINARY(10)", "length(hex(`c`)) > 20"),
]
ANY = [
    ("DOUBLE", "FLOAT"), ("DOUBLE", "VARCHAR(64)"), ("VARCHAR(10)", "INT"), ("STRING", "JSON"), ("INT", "STRING"),
    ("INT", "BOOLEAN"), ("INT", "BINARY(4)"), ("VARCHAR(10)", "VARBINARY(20)"), ("BYTES", "STRING"),
    ("VARBINARY(5)", "BINARY(9)"), ("TIMESTAMP(6)", "TIMESTAMP(3)"), ("TIMESTAMP(6)", "DATE"), ("TIME(0)", "TIME(3)"),
    ("TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"), ("DATE", "TIMESTAMP_LTZ(6)"), ("TIMESTAMP(6)", "VARCHAR(30)"),
    ("DECIMAL(45, 4)", "DECIMAL(45, 2)"), ("VECTOR(3)", "STRING"), ("GEOMETRY", "BYTES"),
    ("JSON", "INT"), ("JSON", "STRING"), ("BOOLEAN", "INT"), ("BOOLEAN", "DECIMAL(5, 0)"), ("BOOLEAN", "DOUBLE"),
    ("BOOLEAN", "VARCHAR(5)"), ("BOOLEAN", "STRING"), ("INT UNSIGNED", "VARCHAR(20)"), ("DECIMAL(45, 0)", "BIGINT"),
    ("INT", "DECIMAL(65, 30)"), ("BIGINT UNSIGNED", "DECIMAL(39, 0)"), ("DECIMAL(10, 2)", "DECIMAL(45, 4)"),
]  # fmt: skip


@together("old, new", CERTAIN)
def test_every_value_stays_itself(old: str, new: str) -> None:
    assert uncertain(DataType.parse(new), DataType.parse(old)) is None


@together("old, new, rows", ROWS)
def test_only_some_values_are_uncertain(old: str, new: str, rows: str) -> None:
    found = uncertain(DataType.parse(new), DataType.parse(old))
    assert found is not None
    assert condition("`c`", found.rows) == rows
    assert found.reason


@together("old, new", ANY)
def test_any_value_is_uncertain(old: str, new: str) -> None:
    found = uncertain(DataType.parse(new), DataType.parse(old))
    assert found is not None
    assert found.rows == AnyValue()
    assert f"{old} values may come out differently as {new}" in found.reason


def test_where_bytes_are_kept_as_text_their_length_is_not_asked_for() -> None:
    assert condition("`c`", LongerBytes(4), native_bytes=False) == "`c` IS NOT NULL"


@together(
    "old, new, spelled_anew",
    [
        ("DECIMAL(5, 2)", "DECIMAL(9, 4)", True),
        ("DECIMAL(5, 2)", "DECIMAL(9, 2)", False),
        ("TIME(0)", "TIME(3)", True),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "DOUBLE", False),
        ("INT", "DOUBLE", True),
        ("INT", "VARCHAR(20)", False),
    ],
)
def test_a_key_that_is_kept_as_text_may_be_spelled_anew(old: str, new: str, spelled_anew: bool) -> None:
    assert (uncertain_text_key(DataType.parse(new), DataType.parse(old)) is not None) == spelled_anew
