from together import together

from cdc.schema import Column, DataType
from connectors.doris.types import column_type, default_text, holds, read_type
from connectors.shared.streamload.sql_types import SqlType, data_type

CREATED = [
    # source, value column, key column
    ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
    ("TINYINT", "TINYINT", "TINYINT"),
    ("BIGINT", "BIGINT", "BIGINT"),
    ("TINYINT UNSIGNED", "SMALLINT", "SMALLINT"),
    ("SMALLINT UNSIGNED", "INT", "INT"),
    ("INT UNSIGNED", "BIGINT", "BIGINT"),
    ("BIGINT UNSIGNED", "LARGEINT", "LARGEINT"),
    ("DECIMAL(10, 2)", "DECIMAL(10, 2)", "DECIMAL(10, 2)"),
    ("DECIMAL(38, 38)", "DECIMAL(38, 38)", "DECIMAL(38, 38)"),
    ("DECIMAL(39, 2)", "STRING", "VARCHAR(42)"),
    ("FLOAT", "FLOAT", "VARCHAR(32)"),
    ("DOUBLE", "DOUBLE", "VARCHAR(32)"),
    ("CHAR(10)", "VARCHAR(40)", "VARCHAR(40)"),
    ("CHAR(0)", "VARCHAR(1)", "VARCHAR(1)"),
    ("VARCHAR(16383)", "VARCHAR(65532)", "VARCHAR(65532)"),
    ("VARCHAR(16384)", "STRING", "VARCHAR(65533)"),
    ("STRING", "STRING", "VARCHAR(65533)"),
    ("JSON", "STRING", "VARCHAR(65533)"),
    ("BINARY(16)", "STRING", "VARCHAR(32)"),
    ("VARBINARY(255)", "STRING", "VARCHAR(510)"),
    ("BYTES", "STRING", "VARCHAR(65533)"),
    ("DATE", "DATE", "DATE"),
    ("TIME(6)", "STRING", "VARCHAR(17)"),
    ("TIMESTAMP(0)", "DATETIME(0)", "DATETIME(0)"),
    ("TIMESTAMP(6)", "DATETIME(6)", "DATETIME(6)"),
    ("TIMESTAMP_LTZ(3)", "DATETIME(3)", "DATETIME(3)"),
    ("GEOMETRY", "STRING", "VARCHAR(65533)"),
    ("VECTOR(3)", "STRING", "VARCHAR(65533)"),
]


@together("source, value, key", CREATED)
def test_every_type_has_a_column(source: str, value: str, key: str) -> None:
    assert str(column_type(DataType.parse(source), key=False)) == value
    assert str(column_type(DataType.parse(source), key=True)) == key


@together("source", [line[0] for line in CREATED])
def test_a_column_that_was_created_holds_its_type(source: str) -> None:
    for key in (False, True):
        created = column_type(DataType.parse(source), key=key)
        assert holds(created, DataType.parse(source), key=key)
        assert read_type(str(created)) == created


@together(
    "shown, expected",
    [
        ("varchar(300)", "VARCHAR(300)"), ("VARCHAR(300)", "VARCHAR(300)"), ("text", "STRING"), ("TEXT", "STRING"),
        ("string", "STRING"), ("largeint", "LARGEINT"), ("bigint unsigned", "LARGEINT"), ("bigint(20)", "BIGINT"),
        ("int(11)", "INT"), ("tinyint(4)", "TINYINT"), ("tinyint(1)", "BOOLEAN"), ("boolean", "BOOLEAN"),
        ("decimalv3(10, 2)", "DECIMAL(10, 2)"), ("DECIMAL(10,2)", "DECIMAL(10, 2)"), ("datev2", "DATE"),
        ("datetimev2(6)", "DATETIME(6)"), ("datetime", "DATETIME(0)"), ("DATETIME(3)", "DATETIME(3)"),
        ("jsonb", "JSON"), ("json", "JSON"), ("char(3)", "CHAR(3)"), ("double", "DOUBLE"), ("float", "FLOAT"),
        ("array<int(11)>", "ARRAY<INT(11)>"),
    ],
)  # fmt: skip
def test_types_as_releases_show_them(shown: str, expected: str) -> None:
    assert str(read_type(shown)) == expected


@together(
    "actual, source, expected",
    [
        ("BIGINT", "INT", True),
        ("INT", "BIGINT", False),
        ("LARGEINT", "BIGINT UNSIGNED", True),
        ("BIGINT", "BIGINT UNSIGNED", False),
        ("DECIMAL(20, 0)", "BIGINT UNSIGNED", True),
        ("DECIMAL(19, 0)", "BIGINT UNSIGNED", False),
        ("DECIMAL(12, 4)", "DECIMAL(10, 2)", True),
        ("DECIMAL(12, 4)", "DECIMAL(12, 2)", False),
        ("VARCHAR(30)", "VARCHAR(10)", True),
        ("STRING", "BYTES", True),
        ("VARCHAR(20)", "BIGINT", True),
        ("VARCHAR(19)", "BIGINT", False),
        ("STRING", "BOOLEAN", False),
        ("DOUBLE", "FLOAT", True),
        ("FLOAT", "DOUBLE", False),
        ("DATETIME(6)", "TIMESTAMP(3)", True),
        ("DATETIME(0)", "TIMESTAMP(3)", False),
        ("DATETIME(0)", "DATE", True),
        ("JSON", "JSON", True),
        ("JSON", "STRING", False),
        ("ARRAY<INT>", "INT", False),
    ],
)
def test_which_columns_hold_which_values(actual: str, source: str, expected: bool) -> None:
    assert holds(read_type(actual), DataType.parse(source), key=False) is expected


@together(
    "source, default, expected",
    [
        ("INT", "7", "7"),
        ("INT", "rand()", None),
        ("INT", None, None),
        ("BOOLEAN", "b'1'", "1"),
        ("BINARY(2)", "b'100000001'", "0101"),
        ("VARBINARY(4)", "0x4100", "4100"),
        ("BYTES", "AB", "4142"),
        ("VARCHAR(2)", "größe", "größe"),
        ("VARCHAR(1)", "größe", None),
        ("VARCHAR(9)", "it's", "it's"),
        ("VARCHAR(9)", 'a "b"', 'a "b"'),
        ("VARCHAR(9)", 'it\'s "it"', None),
        ("STRING", r"a\b", None),
        ("STRING", "a\0b", None),
        ("DECIMAL(5, 2)", "-0.50", "-0.50"),
        ("DOUBLE", "1e-5", "1e-5"),
        ("DATE", "2024-02-29", "2024-02-29"),
        ("DATE", "0000-00-00", None),
        ("TIMESTAMP(3)", "2026-02-31 10:11:12.000", None),
        ("TIMESTAMP(3)", "2024-02-29 10:00:00.123", "2024-02-29 10:00:00.123"),
        ("TIMESTAMP", "CURRENT_TIMESTAMP", None),
        ("TIMESTAMP_LTZ", "2024-02-29 23:00:00", "2024-03-01 07:00:00"),
    ],
)
def test_defaults_that_doris_can_have(source: str, default: str | None, expected: str | None) -> None:
    column = Column("c", DataType.parse(source), default=default)
    assert default_text(column, column_type(column.type, key=False), "Asia/Shanghai") == expected


def test_types_come_back_as_near_as_they_go() -> None:
    assert str(data_type(SqlType("LARGEINT"))) == "BIGINT UNSIGNED"
    assert str(data_type(SqlType("DATETIME", 3))) == "TIMESTAMP(3)"
    assert str(data_type(SqlType("DECIMAL", 10, 2))) == "DECIMAL(10, 2)"
    assert str(data_type(SqlType("HLL"))) == "STRING"
