"""Column types as information_schema spells them."""

from __future__ import annotations

import pytest
from together import together

from connectors.mysql.server.column_type import ColumnType, parse_column_type


@together(
    "text, expected",
    [
        ("int", ColumnType("int")),
        ("int(10) unsigned zerofill", ColumnType("int", 10, unsigned=True)),
        ("bigint unsigned", ColumnType("bigint", unsigned=True)),
        ("tinyint(1)", ColumnType("tinyint", 1)),
        ("decimal(65,30) unsigned", ColumnType("decimal", 65, 30, unsigned=True)),
        ("float(7,4)", ColumnType("float", 7, 4)),
        ("double", ColumnType("double")),
        ("datetime(6)", ColumnType("datetime", 6)),
        ("timestamp /* mariadb-5.3 */", ColumnType("timestamp")),
        ("varchar(100) /*M!100301 COMPRESSED*/", ColumnType("varchar", 100)),
        ("year(4)", ColumnType("year", 4)),
        ("geomcollection", ColumnType("geometrycollection")),
        ("vector(2048)", ColumnType("vector", 2048)),
        ("enum('a')", ColumnType("enum", labels=("a",))),
        ("enum('')", ColumnType("enum", labels=("",))),
        (r"set('a','b''c','d\\e','f\ng')", ColumnType("set", labels=("a", "b'c", r"d\e", "f\ng"))),
        ("enum('x,y','(z)')", ColumnType("enum", labels=("x,y", "(z)"))),
        ("enum('/* no */','c) unsigned')", ColumnType("enum", labels=("/* no */", "c) unsigned"))),
    ],
)  # fmt: skip
def test_types(text: str, expected: ColumnType) -> None:
    assert parse_column_type(text) == expected


@together("text", ["", "enum('a", "enum('a'b)", "9(", "int(3"])
def test_what_is_not_a_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not understood"):
        parse_column_type(text)
