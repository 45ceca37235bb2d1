"""The signedness field of TABLE_MAP, as MySQL 9.7 and MariaDB 10.11 write it."""

from __future__ import annotations

from connectors.mysql.table_map import parse_table_map

_HEAD = b"\x01\x00" + b"\x01d\x00" + b"\x01t\x00"


def test_year_takes_a_bit_and_has_no_sign() -> None:
    """(a INT UNSIGNED, y YEAR, b INT, c TINYINT UNSIGNED): the servers write 1101."""
    body = _HEAD + b"\x04" + bytes((3, 13, 3, 1)) + b"\x00" + b"\x0f" + b"\x01\x01\xd0"
    assert parse_table_map(body, "here").unsigned == (True, None, False, True)


def test_types_without_a_number_take_no_bit() -> None:
    """(a INT UNSIGNED, b BIT(3), c INT, d TINYINT UNSIGNED)."""
    body = _HEAD + b"\x04" + bytes((3, 16, 3, 1)) + b"\x02\x03\x00" + b"\x0f" + b"\x01\x01\xa0"
    assert parse_table_map(body, "here").unsigned == (True, None, False, True)
