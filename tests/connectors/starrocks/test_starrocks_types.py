"""Types of StarRocks columns: what a source's type becomes, and what an existing column takes."""

from __future__ import annotations

from together import together

from cdc.schema import Column, DataType, Kind
from connectors.shared.streamload.sql_types import SqlType, data_type
from connectors.starrocks.types import SECONDS_DIGITS, TypeRules, default_text, read_type

RULES = TypeRules()


@together(
    "source, created, in_key",
    [
        ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
        ("TINYINT", "TINYINT", "TINYINT"),
        ("SMALLINT", "SMALLINT", "SMALLINT"),
        ("INT", "INT", "INT"),
        ("BIGINT", "BIGINT", "BIGINT"),
        ("TINYINT UNSIGNED", "SMALLINT", "SMALLINT"),
        ("SMALLINT UNSIGNED", "INT", "INT"),
        ("INT UNSIGNED", "BIGINT", "BIGINT"),
        ("BIGINT UNSIGNED", "LARGEINT", "LARGEINT"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 2)", "VARCHAR(13)"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 0)", "VARCHAR(39)"),
        ("DECIMAL(65, 30)", "VARCHAR(68)", "VARCHAR(68)"),
        ("FLOAT", "FLOAT", "VARCHAR(32)"),
        ("DOUBLE", "DOUBLE", "VARCHAR(32)"),
        ("CHAR(10)", "VARCHAR(40)", "VARCHAR(40)"),
        ("VARCHAR(64)", "VARCHAR(256)", "VARCHAR(256)"),
        ("VARCHAR(0)", "VARCHAR(1)", "VARCHAR(1)"),
        ("VARCHAR(300000)", "VARCHAR(1048576)", "VARCHAR(1048576)"),
        ("STRING", "VARCHAR(1048576)", "VARCHAR(1048576)"),
        ("JSON", "VARCHAR(1048576)", "VARCHAR(1048576)"),
        ("BINARY(16)", "VARBINARY", "VARCHAR(32)"),
        ("VARBINARY(255)", "VARBINARY", "VARCHAR(510)"),
        ("BYTES", "VARBINARY", "VARCHAR(1048576)"),
        ("GEOMETRY", "VARBINARY", "VARCHAR(1048576)"),
        ("DATE", "DATE", "DATE"),
        ("TIME(0)", "VARCHAR(10)", "VARCHAR(10)"),
        ("TIME", "VARCHAR(17)", "VARCHAR(17)"),
        ("TIME(6)", "VARCHAR(17)", "VARCHAR(17)"),
        ("TIMESTAMP(3)", "DATETIME", "DATETIME"),
        ("TIMESTAMP_LTZ(6)", "DATETIME", "DATETIME"),
        ("VECTOR(3)", "VARCHAR(1048576)", "VARCHAR(1048576)"),
    ],
)
def test_every_source_type_has_a_column_type(source: str, created: str, in_key: str) -> None:
    assert str(RULES.column_type(DataType.parse(source), key=False)) == created
    assert str(RULES.column_type(DataType.parse(source), key=True)) == in_key


@together("kind", list(Kind))
def test_a_created_column_takes_the_values_it_was_made_for(kind: Kind) -> None:
    spelled = {Kind.DECIMAL: "DECIMAL(20, 2)", Kind.CHAR: "CHAR(3)"}
    source = DataType.parse(spelled.get(kind, kind.value))
    for key in (False, True):
        wanted = RULES.column_type(source, key=key)
        assert RULES.holds(wanted, source, key=key)
        assert wanted.target("c", nullable=True, is_key=key) is not None


def test_bytes_per_character_and_json_follow_the_options() -> None:
    rules = TypeRules(character_bytes=3, native_json=True)
    assert str(rules.column_type(DataType.parse("VARCHAR(10)"), key=False)) == "VARCHAR(30)"
    assert str(rules.column_type(DataType.parse("JSON"), key=False)) == "JSON"


@together(
    "actual, source, takes",
    [
        (SqlType("BIGINT"), "INT", True),
        (SqlType("INT"), "BIGINT", False),
        (SqlType("LARGEINT"), "BIGINT UNSIGNED", True),
        (SqlType("BIGINT"), "BIGINT UNSIGNED", False),
        (SqlType("DECIMAL", 20, 0), "BIGINT UNSIGNED", True),
        (SqlType("DECIMAL", 19, 0), "BIGINT UNSIGNED", False),
        (SqlType("VARCHAR", 21), "BIGINT UNSIGNED", True),
        (SqlType("DECIMAL", 12, 2), "DECIMAL(10, 2)", True),
        (SqlType("DECIMAL", 12, 1), "DECIMAL(10, 2)", False),
        (SqlType("DECIMAL", 10, 3), "DECIMAL(10, 2)", False),
        (SqlType("DECIMAL", 12, 2), "INT", True),
        (SqlType("DECIMAL", 11, 2), "INT", False),
        (SqlType("INT"), "DECIMAL(9, 0)", True),
        (SqlType("INT"), "DECIMAL(10, 0)", False),
        (SqlType("INT"), "DECIMAL(9, 1)", False),
        (SqlType("BIGINT"), "DECIMAL(18, 0)", True),
        (SqlType("LARGEINT"), "DECIMAL(38, 0)", True),
        (SqlType("LARGEINT"), "DECIMAL(39, 0)", False),
        (SqlType("VARCHAR", 30), "VARCHAR(10)", True),
        (SqlType("CHAR", 30), "VARCHAR(10)", True),
        (SqlType("DOUBLE"), "FLOAT", True),
        (SqlType("FLOAT"), "DOUBLE", False),
        (SqlType("DATETIME"), "DATE", True),
        (SqlType("DATE"), "TIMESTAMP(6)", False),
        (SqlType("JSON"), "JSON", True),
        (SqlType("JSON"), "STRING", False),
        (SqlType("BOOLEAN"), "TINYINT", False),
        (SqlType("ARRAY<INT>"), "INT", False),
    ],
)
def test_an_existing_column_is_taken_when_it_holds_every_value(actual: SqlType, source: str, takes: bool) -> None:
    assert RULES.holds(actual, DataType.parse(source), key=False) is takes


@together(
    "row, expected",
    [
        (("tinyint", None, None), "BOOLEAN"),
        (("tinyint", 3, 0), "TINYINT"),
        (("bigint unsigned", 39, 0), "LARGEINT"),
        (("decimal", 12, 2), "DECIMAL(12, 2)"),
        (("varchar", 64, None), "VARCHAR(64)"),
        (("varbinary", None, None), "VARBINARY"),
        (("datetime", 26, None), "DATETIME"),
        (("array<int(11)>", None, None), "ARRAY<INT(11)>"),
    ],
)
def test_types_are_read_from_the_columns_table(row: tuple[str, int | None, int | None], expected: str) -> None:
    assert str(read_type(*row)) == expected


def test_types_that_are_never_written_show_as_text_and_cannot_be_loaded() -> None:
    assert data_type(SqlType("BITMAP"), digits=SECONDS_DIGITS) == DataType(Kind.STRING)
    assert SqlType("BITMAP").target("c", nullable=True, is_key=False) is None


@together(
    "source, default, text",
    [
        ("INT", "7", "7"),
        ("INT", "uuid()", None),
        ("TINYINT", "b'101'", "5"),
        ("BOOLEAN", "1", "1"),
        ("DECIMAL(10, 2)", "-1.50", "-1.50"),
        ("DECIMAL(10, 2)", "1e3", None),
        ("DOUBLE", "1e3", "1e3"),
        ("VARCHAR(3)", "a'b", "a'b"),
        ("VARCHAR(1)", "12345", None),
        ("DATE", "2020-02-01", "2020-02-01"),
        ("DATE", "0000-00-00", None),
        ("TIMESTAMP(3)", "2026-02-31 10:11:12.000", None),
        ("TIMESTAMP", "2020-02-01 00:00:00", "2020-02-01 00:00:00"),
        ("TIMESTAMP", "CURRENT_TIMESTAMP", None),
        ("TIMESTAMP_LTZ", "2020-02-01 23:00:00", "2020-02-02 07:00:00"),
        ("VARBINARY(4)", "0x41", None),
        ("TIME", "-01:00:00", "-01:00:00"),
    ],
)
def test_defaults_that_are_constants_of_the_type_are_kept(source: str, default: str, text: str | None) -> None:
    column = Column("c", DataType.parse(source), default=default)
    assert default_text(column, RULES.column_type(column.type, key=False), "Asia/Shanghai") == text
