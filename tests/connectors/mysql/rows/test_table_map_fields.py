"""What TABLE_MAP counts in its fields on signs and charsets, as MySQL 9.7 and MariaDB 10.11 write them."""

from __future__ import annotations

import pytest
from together import together

from cdc.errors import SchemaUnknown
from cdc.schema import TableId
from connectors.mysql.rows.definition_check import check_definition
from connectors.mysql.rows.table_map import parse_table_map
from connectors.mysql.table import MySqlColumn, MySqlTable

_HEAD = b"\x01\x00" + b"\x01d\x00" + b"\x01t\x00"


def test_year_takes_a_bit_and_has_no_sign() -> None:
    """(a INT UNSIGNED, y YEAR, b INT, c TINYINT UNSIGNED): the servers write 1101."""
    body = _HEAD + b"\x04" + bytes((3, 13, 3, 1)) + b"\x00" + b"\x0f" + b"\x01\x01\xd0"
    assert parse_table_map(body, "here").unsigned == (True, None, False, True)


def test_year_took_no_bit_in_mysql_8_0_12() -> None:
    """(a INT UNSIGNED, y YEAR, b INT, c TINYINT UNSIGNED): 101; nine bits would be two bytes."""
    body = _HEAD + b"\x04" + bytes((3, 13, 3, 1)) + b"\x00" + b"\x0f" + b"\x01\x01\xa0"
    assert parse_table_map(body, "here").unsigned == (True, None, False, True)
    body = _HEAD + b"\x09" + bytes((3, 13, *[3] * 7)) + b"\x00" + b"\x0f\x01" + b"\x01\x01\xff"
    assert parse_table_map(body, "here").unsigned == (True, None, *[True] * 7)


@together("sign", ["", "UNSIGNED"])
def test_bits_that_are_a_years_or_not_are_left_to_the_definition(sign: str) -> None:
    """(y YEAR, b INT UNSIGNED, c INT): 10 in MySQL 8.0.12, which is (y YEAR, b INT, c INT) elsewhere."""
    body = _HEAD + b"\x03" + bytes((13, 3, 3)) + b"\x00" + b"\x07" + b"\x01\x01\x80"
    columns = (MySqlColumn("y", "year"), MySqlColumn("b", "int", unsigned=bool(sign)), MySqlColumn("c", "int"))
    check_definition(MySqlTable(TableId("d", "t"), columns), parse_table_map(body, "here"), 3, "here")
    other = (*columns[:2], MySqlColumn("c", "int", unsigned=True))
    with pytest.raises(SchemaUnknown, match="column 3, c int: rows are signed there"):
        check_definition(MySqlTable(TableId("d", "t"), other), parse_table_map(body, "here"), 3, "here")


def test_types_without_a_number_take_no_bit() -> None:
    """(a INT UNSIGNED, b BIT(3), c INT, d TINYINT UNSIGNED)."""
    body = _HEAD + b"\x04" + bytes((3, 16, 3, 1)) + b"\x02\x03\x00" + b"\x0f" + b"\x01\x01\xa0"
    assert parse_table_map(body, "here").unsigned == (True, None, False, True)


def test_mysql_counts_a_vector_as_text() -> None:
    """(a VARCHAR(3) latin1, x VECTOR(3), b VARCHAR(3) latin1, c TEXT gbk): each with its charset, x with binary."""
    body = _HEAD + b"\x04" + bytes((15, 242, 15, 252)) + bytes.fromhex("060300040300020f0304083f081c")
    assert parse_table_map(body, "here").collations == (8, 63, 8, 28)


def test_mysql_does_not_count_a_geometry() -> None:
    """(a VARCHAR(3) latin1, x GEOMETRY, b VARCHAR(3) latin1, c TEXT gbk): default latin1, text column 2 is gbk."""
    body = _HEAD + b"\x04" + bytes((15, 255, 15, 252)) + bytes.fromhex("060300040300020f020308021c070100")
    assert parse_table_map(body, "here").collations == (8, None, 8, 28)


def test_mariadb_counts_a_geometry() -> None:
    body = _HEAD + b"\x04" + bytes((15, 255, 15, 252)) + bytes.fromhex("060300040300020f0304083f081c070100")
    assert parse_table_map(body, "here").collations == (8, None, 8, 28)


def test_what_can_be_counted_two_ways_is_left_to_the_definition() -> None:
    """(a VARCHAR latin1, x GEOMETRY, b VARBINARY, c TEXT latin1), default latin1, number 1 is binary: x or b?"""
    body = _HEAD + b"\x04" + bytes((15, 255, 15, 252)) + bytes.fromhex("060300040300020f020308013f070100")
    assert parse_table_map(body, "here").collations == (8, None, None, 8)
