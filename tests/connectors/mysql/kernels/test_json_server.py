"""JSON text: the kernel, and trees made of its text, against what a real MySQL shows for the same logged bytes."""

from __future__ import annotations

import json
import random

import pytest
from json_binary import random_document, random_double
from json_kernel import kernel_text
from json_log import JsonTable

from cdc_services.server import MySqlServer
from connectors.mysql.rows.json_value import decode, tree_text

pytestmark = pytest.mark.mysql

OPAQUE = (
    "CAST(1.50 AS DECIMAL(10,2))", "CAST('-0.0' AS DECIMAL(5,3))", "CAST('-0.001' AS DECIMAL(65,30))", "0.5", "-7.0",
    "CAST(-12345678901234567.8901234567 AS DECIMAL(40,20))", "CAST(999999999.999999999 AS DECIMAL(18,9))",
    "CAST(1000000000 AS DECIMAL(10))", "CAST(REPEAT('9',65) AS DECIMAL(65,0))", "CAST(0 AS DECIMAL(65,30))",
    "CAST(CONCAT(REPEAT('9',35),'.',REPEAT('9',30)) AS DECIMAL(65,30))",
    "DATE'2020-01-02'", "DATE'0001-01-01'", "TIME'01:02:03'", "CAST('838:59:59' AS TIME)", "TIME'-00:00:00.5'",
    "TIMEDIFF('-838:59:59','0:0:0')", "CAST('100:00:00.000001' AS TIME(6))", "TIMESTAMP'2020-01-02 03:04:05.123456'",
    "CAST('9999-12-31 23:59:59.999999' AS DATETIME(6))", "NOW()", "CAST(2021 AS YEAR)",
    "x''", "x'00'", "x'DEADBEEF'", "b'101'", "REPEAT(x'ff00',29)", "REPEAT(x'ff',57)", "REPEAT(x'ab',58)",
    "REPEAT(x'ab',114)", "REPEAT(x'0a',100000)", "ST_GeomFromText('POINT(1 2)')",
    "CONVERT('caf\u00e9' USING latin1)", "TRUE", "NULL", "JSON_OBJECT()", "JSON_ARRAY()",
    "JSON_OBJECT('', JSON_ARRAY())",
)  # fmt: skip
PLAIN = (
    "null", "true", "false", "0", "-1", "32767", "32768", "-32768", "-32769", "65535", "65536", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296", "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808", "18446744073709551615", "18446744073709551616", "-0", "-0.0", "1.0", "1e15", "1e14", "1e-15",
    "1e-16", "5e-324", "1.7976931348623157e308", "123456789012345678", "0.1", '""', '"\\u0000\\u001f\\u007f\\u0080/"',
)  # fmt: skip


def assert_same_text(table: JsonTable, expected: int) -> None:
    shown = table.shown()
    logged = {image.id: image.after for image in table.logged()}
    assert len(logged) == len(shown) == expected
    for row, text in shown.items():
        document = logged[row]
        if text is None or document is None:
            assert text is document
            continue
        assert kernel_text(document) == text
        assert tree_text(decode(document)) == text


@pytest.mark.parametrize("seed", range(3))
def test_random_documents_print_as_the_server_prints_them(mysql_server: MySqlServer, seed: int) -> None:
    rnd = random.Random(seed)
    table = JsonTable(mysql_server)
    table.insert([json.dumps(random_document(rnd)) for _ in range(500)])
    assert_same_text(table, 500)


def test_random_doubles_print_as_the_server_prints_them(mysql_server: MySqlServer) -> None:
    rnd = random.Random(7)
    values = [random_double(rnd) for _ in range(8_000)] + [2.0**power for power in range(-1074, 1024)]
    table = JsonTable(mysql_server)
    table.insert([json.dumps(values[i : i + 500]) for i in range(0, len(values), 500)])
    assert_same_text(table, len(range(0, len(values), 500)))


def test_plain_values_alone_and_nested(mysql_server: MySqlServer) -> None:
    table = JsonTable(mysql_server)
    table.insert([*PLAIN, *(f'{{"k": [{text}]}}' for text in PLAIN)])
    assert_same_text(table, 2 * len(PLAIN))


def test_sql_values_that_json_has_no_type_for(mysql_server: MySqlServer) -> None:
    table = JsonTable(mysql_server)
    for i, expression in enumerate(OPAQUE):
        table.execute(f"INSERT INTO t VALUES ({2 * i}, JSON_ARRAY(1, {expression}))")
        table.execute(f"INSERT INTO t SELECT {2 * i + 1}, JSON_EXTRACT(j, '$[1]') FROM t WHERE id = {2 * i}")
    assert_same_text(table, 2 * len(OPAQUE))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BIT(12)", "b'111100001'"), ("BLOB", "'abc'"), ("TINYBLOB", "''"), ("LONGBLOB", "'abc'"), ("BINARY(3)", "'a'"),
        ("ENUM('a','b')", "'b'"), ("SET('a','b')", "'a,b'"), ("YEAR", "2021"),
        ("TIMESTAMP(3)", "'2020-01-02 03:04:05.6'"),
        ("DATETIME(2)", "'2020-01-02 03:04:05.6'"), ("TIME(1)", "'-1:2:3.4'"), ("FLOAT", "1.1"), ("DOUBLE", "1e30"),
        ("BIGINT UNSIGNED", "18446744073709551615"), ("TEXT CHARACTER SET latin1", "'\u00e9'"),
    ],
)  # fmt: skip
def test_column_values_inside_json(mysql_server: MySqlServer, kind: str, value: str) -> None:
    table = JsonTable(mysql_server)
    table.execute(f"CREATE TEMPORARY TABLE v (v {kind})")
    table.execute(f"INSERT INTO v VALUES ({value})")
    table.execute("INSERT INTO t SELECT 1, JSON_OBJECT('k', v) FROM v")
    assert_same_text(table, 1)


def test_nesting_to_the_servers_limit_and_documents_beyond_64_kb(mysql_server: MySqlServer) -> None:
    many = {f"k{i}": "v" * i for i in range(1_000)}
    table = JsonTable(mysql_server)
    table.insert([
        "[" * 100 + "]" * 100,
        '{"a":' * 100 + "1" + "}" * 100,
        json.dumps(many),
        json.dumps([70_000, -70_000, {"a": [many, 1, 100_000, None, True]}, "x" * 300_000]),
        json.dumps(list(range(-40_000, 40_000, 7))),
        json.dumps("\u00e9\"\\\n" * 30_000),
    ])  # fmt: skip
    assert_same_text(table, 6)


def test_null_columns_and_the_null_of_insert_ignore(mysql_server: MySqlServer) -> None:
    table = JsonTable(mysql_server)
    table.execute("INSERT INTO t VALUES (0, NULL), (1, 'null')")
    table.execute("CREATE TEMPORARY TABLE v (v JSON NOT NULL)")
    table.execute("INSERT IGNORE INTO v VALUES (NULL)")
    table.execute("INSERT INTO t SELECT 2, v FROM v")
    assert table.shown() == {0: None, 1: "null", 2: "null"}
    assert_same_text(table, 3)


def test_in_place_updates_leave_documents_that_still_print(mysql_server: MySqlServer) -> None:
    rnd = random.Random(3)
    table = JsonTable(mysql_server)
    table.insert([json.dumps({"a": "x" * rnd.randrange(50), "b": [1.5, "y" * 30, {"c": 70_000}]}) for _ in range(200)])
    for change in (
        "JSON_SET(j, '$.a', 'z')", "JSON_REPLACE(j, '$.b[1]', JSON_ARRAY(1, 'q'))", "JSON_REMOVE(j, '$.b[0]')",
        "JSON_SET(j, '$.b[1].c', 1e99)", "JSON_REMOVE(j, '$.a')",
    ):  # fmt: skip
        table.execute(f"UPDATE t SET j = {change}")
    assert_same_text(table, 200)
