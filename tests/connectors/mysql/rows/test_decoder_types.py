"""Every column type on both real servers: what was decoded from the log equals what SELECT answers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from decoded import executed
from selected import selected

from cdc.schema import TableId
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql

_ROWS = 60
Draw = Callable[[random.Random], str]


def _integer(bits: int, *, unsigned: bool = False) -> Draw:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return lambda rnd: str(rnd.choice([low, high, 0, 1, rnd.randint(low, high), rnd.randint(-100 if low else 0, 100)]))


def _decimal(precision: int, scale: int) -> Draw:
    def draw(rnd: random.Random) -> str:
        digits = "".join(rnd.choice("0123456789") for _ in range(rnd.choice([1, precision, rnd.randint(1, precision)])))
        digits = rnd.choice([digits, "9" * precision, "0", "1"]).rjust(scale, "0")
        whole, fraction = (digits[: len(digits) - scale], digits[len(digits) - scale :]) if scale else (digits, "0")
        return f"{rnd.choice(['', '-'])}{whole or '0'}.{fraction}"

    return draw


def _text(longest: int, letters: str = "aZ09 äß日本😀'\\\"\n") -> Draw:
    def draw(rnd: random.Random) -> str:
        size = rnd.choice([0, 1, longest, rnd.randint(0, longest), min(longest, 8), min(longest, 64), min(longest, 65)])
        value = "".join(rnd.choice(letters) for _ in range(size))
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"

    return draw


def _binary(longest: int) -> Draw:
    def draw(rnd: random.Random) -> str:
        value = bytes(rnd.choice([0, 0, 255, 32, rnd.randrange(256)]) for _ in range(rnd.choice([0, 1, longest])))
        return f"x'{value.hex()}'"

    return draw


def _moment(first: int, last: int, digits: int) -> Draw:
    def draw(rnd: random.Random) -> str:
        year = rnd.choice([first, last, rnd.randint(first, last)])
        fraction = "." + "".join(rnd.choice("0123456789") for _ in range(digits)) if digits else ""
        day = f"{year:04}-{rnd.randint(2, 12):02}-{rnd.randint(1, 28):02}"
        return f"'{day} {rnd.randint(0, 23):02}:{rnd.randint(0, 59):02}:{rnd.randint(0, 59):02}{fraction}'"

    return draw


def _time(digits: int) -> Draw:
    def draw(rnd: random.Random) -> str:
        fraction = "." + "".join(rnd.choice("0123456789") for _ in range(digits)) if digits else ""
        hours = rnd.choice([0, 0, 1, 837, rnd.randint(0, 837)])
        return f"'{rnd.choice(['', '-'])}{hours}:{rnd.randint(0, 59):02}:{rnd.randint(0, 59):02}{fraction}'"

    return draw


def _either(*values: str) -> Draw:
    return lambda rnd: rnd.choice(values)


def _bits(count: int) -> Draw:
    return lambda rnd: f"b'{rnd.choice([0, 2**count - 1, rnd.getrandbits(count)]):b}'"


_MANY_LABELS = [f"label {number}" for number in range(300)]
_JSONS = (
    "'{}'", "'[]'", "'null'", "'1'", "'-1.5e300'", "'\"text\"'", '\'{"a": [1, 2.25, {"b": null}], "c": "é😀"}\'',
    "'[9223372036854775807, 18446744073709551615, -32769]'",
)  # fmt: skip
COMMON: dict[str, Draw] = {
    "TINYINT": _integer(8), "TINYINT UNSIGNED": _integer(8, unsigned=True), "BOOLEAN": _either("0", "1", "2"),
    "SMALLINT": _integer(16), "SMALLINT UNSIGNED": _integer(16, unsigned=True),
    "MEDIUMINT": _integer(24), "MEDIUMINT UNSIGNED ZEROFILL": _integer(24, unsigned=True),
    "INT": _integer(32), "INT UNSIGNED": _integer(32, unsigned=True),
    "BIGINT": _integer(64), "BIGINT UNSIGNED": _integer(64, unsigned=True),
    **{
        f"DECIMAL({precision},{scale})": _decimal(precision, scale)
        for precision, scale in (
            (1, 0), (1, 1), (5, 2), (9, 0), (9, 9), (10, 1), (12, 2), (18, 0), (18, 18), (18, 9), (19, 0), (19, 10),
            (27, 9), (30, 30), (38, 0), (38, 30), (38, 20), (39, 0), (40, 30), (65, 0), (65, 30), (64, 9),
        )
    },
    "FLOAT": _either("0", "1.5", "-3.402823e38", "1.17e-38", "0.1"),
    "DOUBLE": _either("0", "-2.25", "1.7976931348623157e308", "4.9e-324", "0.1"),
    **{f"BIT({count})": _bits(count) for count in (1, 2, 8, 9, 33, 64)},
    "YEAR": _either("0", "1901", "2155", "2026"),
    "DATE": _either("'1000-01-01'", "'9999-12-31'", "'1970-01-01'", "'2024-02-29'", "'1969-12-31'", "'2000-03-01'"),
    **{f"TIME({digits})": _time(digits) for digits in range(7)},
    **{f"DATETIME({digits})": _moment(1000, 9999, digits) for digits in range(7)},
    **{f"TIMESTAMP({digits}) NULL": _moment(1970, 2037, digits) for digits in range(7)},
    "CHAR(1)": _text(1), "CHAR(255)": _text(255), "CHAR(63)": _text(63), "CHAR(64)": _text(64),
    "VARCHAR(63)": _text(63), "VARCHAR(64)": _text(64), "VARCHAR(700)": _text(700),
    "VARCHAR(20) CHARACTER SET latin1": _text(20, "aé€ "), "VARCHAR(20) CHARACTER SET gbk": _text(20, "a中文"),
    "VARCHAR(20) CHARACTER SET big5": _text(20, "a中文"), "VARCHAR(20) CHARACTER SET sjis": _text(20, "a日本"),
    "VARCHAR(20) CHARACTER SET utf16": _text(20, "a日😀"), "VARCHAR(20) CHARACTER SET utf8mb3": _text(20, "aé日"),
    "CHAR(20) CHARACTER SET latin1": _text(20, "aé€ "), "TEXT CHARACTER SET ucs2": _text(40, "aé日"),
    "TINYTEXT": _text(50), "TEXT": _text(3000), "MEDIUMTEXT": _text(300), "LONGTEXT": _text(300),
    "BINARY(1)": _binary(1), "BINARY(5)": _binary(5), "BINARY(255)": _binary(255),
    "VARBINARY(50)": _binary(50), "VARBINARY(300)": _binary(300),
    "TINYBLOB": _binary(255), "BLOB": _binary(300), "MEDIUMBLOB": _binary(300), "LONGBLOB": _binary(300),
    "ENUM('red','green','a,b','é')": _either("'red'", "'a,b'", "'é'", "'green'"),
    "ENUM(" + ",".join(f"'{label}'" for label in _MANY_LABELS) + ")": lambda rnd: f"'{rnd.choice(_MANY_LABELS)}'",
    "ENUM('größe','b') CHARACTER SET latin1": _either("'größe'", "'b'"),
    "SET('x','y','é')": _either("''", "'x'", "'x,é'", "'x,y,é'"),
    "SET(" + ",".join(f"'s{number}'" for number in range(64)) + ")": lambda rnd: str(rnd.getrandbits(64)),
    "JSON": _either(*_JSONS),
    "POINT": _either("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-1.5 2)')"),
    "GEOMETRY": _either("ST_GeomFromText('LINESTRING(0 0, 1 1)', 4326)", "ST_GeomFromText('POINT(0 0)')"),
    "POLYGON": _either("ST_GeomFromText('POLYGON((0 0,0 1,1 1,1 0,0 0))')"),
}  # fmt: skip
MYSQL: dict[str, Draw] = {
    "VECTOR(3)": _either("STRING_TO_VECTOR('[1,2.5,-3]')", "STRING_TO_VECTOR('[0,3.4e38,1.2e-38]')"),
    "VECTOR": _either("STRING_TO_VECTOR('[1]')", "STRING_TO_VECTOR('[1,2,3,4,5]')"),
    "JSON DEFAULT NULL": _either(
        "JSON_ARRAY(CAST('2026-01-02 03:04:05.678' AS DATETIME(3)), CAST(1.10 AS DECIMAL(5,2)))"
    ),
}
MARIADB: dict[str, Draw] = {
    "UUID": _either(
        "'123e4567-e89b-12d3-a456-426614174000'", "'00000000-0000-0000-0000-000000000000'",
        "'f47ac10b-58cc-4372-a567-0e02b2c3d479'", "'018f6b2e-7c1a-7def-8123-456789abcd00'",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    ),
    "INET4": _either("'0.0.0.0'", "'255.255.255.255'", "'10.1.0.0'"),
    "INET6": _either("'::'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.4'", "'fe80::1:0:0:1'", "'1:0:2:3:4:5:6:7'"),
    "TEXT COMPRESSED": _text(2000), "BLOB COMPRESSED": _binary(255), "VARCHAR(300) COMPRESSED": _text(300),
    "VARCHAR(100) COMPRESSED CHARACTER SET latin1": _text(100, "aé"),
}  # fmt: skip


def statements(types: dict[str, Draw], seed: int, rows: int) -> list[str]:
    """A table with a column of every type, and rows drawn at random; the first has only NULLs."""
    rnd = random.Random(seed)
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(types))
    found = [
        "SET sql_mode = ''",
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns})",
        "INSERT INTO t (id) VALUES (0)",
    ]
    for number in range(1, rows):
        values = [draw(rnd) if rnd.random() < 0.85 else "NULL" for draw in types.values()]
        found.append(f"INSERT INTO t VALUES ({number}, {', '.join(values)})")
    return found


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_decoded_values_equal_selected_ones(any_server: MySqlServer, metadata: str) -> None:
    types = {**COMMON, **(MARIADB if any_server.flavor == "mariadb" else MYSQL)}
    before = any_server.execute("SELECT @@GLOBAL.binlog_row_metadata")[0][0]
    any_server.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        log = executed(any_server, *statements(types, seed=20261121, rows=_ROWS))
    finally:
        any_server.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    found, expected = log.decode(), log.selected()
    rows = found.rows(log.table)
    assert len(rows) == _ROWS
    for index, name in enumerate(["id", *types]):
        assert [row[index] for row in rows] == [row[index] for row in expected], name
    assert not [name for name in found.counts if "timestamp" in name]


def test_zero_and_invalid_dates_become_null_and_are_counted(any_server: MySqlServer) -> None:
    values = "'0000-00-00', '2026-00-10', '2023-02-30 01:02:03', '0000-00-00 00:00:00'"
    log = executed(
        any_server,
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        "CREATE TABLE t (id INT PRIMARY KEY, a DATE, b DATE NOT NULL, c DATETIME(3), d TIMESTAMP(2) NULL)",
        f"INSERT INTO t VALUES (1, {values}), (2, '2026-01-01', '2026-01-01', '2026-01-01', '2026-01-01')",
    )
    found = log.decode()
    assert found.rows(log.table)[0] == (1, None, None, None, None)
    assert None not in found.rows(log.table)[1]
    assert found.counts == {f"invalid-date-to-null {log.table}.{column}": 1 for column in "abcd"}


def test_dates_that_come_again_after_others(any_server: MySqlServer) -> None:
    day, zero, moment = "'2024-02-29'", "'0000-00-00'", "'2024-02-29 23:59:59.123456'"
    values = [day, day, zero, day, "NULL", day, "'2024-03-01'", zero, zero, "NULL", day]
    moments = [moment if value == day else value for value in values]
    rows = ", ".join(f"({n}, {a}, {b}, {b}, TIME({a}))" for n, (a, b) in enumerate(zip(values, moments, strict=True)))
    log = executed(
        any_server,
        "SET sql_mode = ''",
        "CREATE TABLE t (id INT PRIMARY KEY, a DATE, b DATETIME(6), c DATETIME, d TIME)",
        f"INSERT INTO t VALUES {rows}",
        "CREATE TABLE inserted SELECT * FROM t",
        "UPDATE t SET id = id + 100",
    )
    known, found = log.definitions(), log.decode()
    inserted = selected(any_server, known[TableId(log.database, "inserted")], "id")
    by_kind = {
        kind: [row for row, of in zip(found.rows(log.table), found.kinds(log.table), strict=True) if of == kind]
        for kind in (0, 1, 2)
    }
    assert by_kind == {0: inserted, 1: inserted, 2: log.selected()}
    assert [row[1] is None for row in inserted] == [value in (zero, "NULL") for value in values]


def test_generated_and_invisible_columns_are_there(any_server: MySqlServer) -> None:
    extra = ", KEY ((a + 2)), KEY ((CAST(j->'$.n' AS UNSIGNED ARRAY)))" if any_server.flavor == "mysql" else ""
    log = executed(
        any_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT GENERATED ALWAYS AS (a + 1) VIRTUAL, s VARCHAR(20) "
        f"GENERATED ALWAYS AS (CONCAT('x', a)) STORED, hidden INT INVISIBLE DEFAULT 7, j JSON{extra})",
        "INSERT INTO t (id, a, j) VALUES (1, 5, '{\"n\": [1]}'), (2, NULL, NULL)",
        "UPDATE t SET a = 6 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    )
    rows = [row[:5] for row in log.rows()]
    first, second = (1, 5, 6, "x5", 7), (2, None, None, None, 7)
    assert rows == [first, second, first, (1, 6, 7, "x6", 7), second]


def test_columns_of_no_length(any_server: MySqlServer) -> None:
    log = executed(
        any_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a BINARY(0), b VARBINARY(0), c CHAR(0), d VARCHAR(0))",
        "INSERT INTO t VALUES (1, NULL, NULL, NULL, NULL), (2, '', '', '', '')",
    )
    assert log.rows() == [(1, None, None, None, None), (2, b"", b"", "", "")]


def test_hidden_columns_of_long_unique_keys_are_passed_over(mariadb_server: MySqlServer) -> None:
    log = executed(
        mariadb_server,
        "CREATE TABLE t (url TEXT UNIQUE, n INT, name VARCHAR(2000) CHARACTER SET utf8mb4, UNIQUE (name, n))",
        "INSERT INTO t VALUES ('x', 5, 'X'), (NULL, 6, NULL)",
        "UPDATE t SET url = 'y' WHERE n = 5",
    )
    assert log.rows() == [("x", 5, "X"), (None, 6, None), ("x", 5, "X"), ("y", 5, "X")]
