"""ALTER ... MODIFY with rows there: the sink converts them itself, and comes to the values that the server made."""

from __future__ import annotations

from pathlib import Path

import pytest
from cdc_process import mysql_pipeline
from comparison import differences
from direct import DirectRuns

from cdc.services.server import MySqlServer
from cdc.source import Limits

pytestmark = pytest.mark.mysql

_CONVERSIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("INT", "VARCHAR(20)", ("1", "-5", "2147483647")),
    ("INT", "DECIMAL(20,3)", ("7", "-1")),
    ("INT", "FLOAT", ("16777217",)),
    ("BIGINT UNSIGNED", "DOUBLE", ("18446744073709551615",)),
    ("BIGINT", "TINYINT(1)", ("1", "-128")),
    ("VARCHAR(20)", "INT", ("'12'", "'-7'")),
    ("DECIMAL(10,4)", "DECIMAL(10,2)", ("1.2350", "1.2349", "-1.235")),
    ("DECIMAL(10,2)", "VARCHAR(20)", ("1.50", "-0.5")),
    ("DECIMAL(10,2)", "INT", ("1.50", "2.5", "-1.5")),
    ("DOUBLE", "DECIMAL(20,5)", ("1.123456", "-2.5e3")),
    ("DOUBLE", "INT", ("1.5", "2.5", "-1.5")),
    ("DOUBLE", "FLOAT", ("0.1", "1e30")),
    ("FLOAT", "DOUBLE", ("0.1", "3.5")),
    ("DATETIME", "DATE", ("'2026-01-01 10:00:00'", "'2026-01-01 23:59:59'")),
    ("DATE", "DATETIME", ("'2026-01-01'",)),
    ("DATETIME", "VARCHAR(40)", ("'2026-01-01 10:00:00'",)),
    ("DATETIME(3)", "VARCHAR(40)", ("'2026-01-01 10:00:00.5'", "'2026-01-01 10:00:00'")),
    ("TIME", "VARCHAR(20)", ("'-838:59:59'", "'01:02:03'")),
    ("TIME(3)", "VARCHAR(20)", ("'-838:59:58.5'", "'01:02:03'", "'00:00:00.001'", "'100:00:00.12'")),
    ("VARCHAR(20)", "DATE", ("'2026-01-01'",)),
    ("VARCHAR(30)", "DATETIME(3)", ("'2026-01-01 10:11:12.5'",)),
    ("YEAR", "INT", ("2026", "0")),
    ("INT", "YEAR", ("2026", "0")),
    ("ENUM('a','b')", "VARCHAR(10)", ("'a'", "'b'")),
    ("VARCHAR(10)", "ENUM('a','b')", ("'a'", "'b'")),
    ("SET('a','b')", "VARCHAR(10)", ("'a,b'", "''")),
    ("BIT(1)", "TINYINT", ("0", "1")),
    ("TINYINT(1)", "BIT(1)", ("0", "1")),
    ("CHAR(10)", "VARCHAR(10)", ("'a'", "'b '")),
    ("VARCHAR(10)", "CHAR(10)", ("'a'", "'b '", "' c  '")),
    ("VARCHAR(10)", "VARCHAR(3)", ("'abc'", "'é😀'")),
    ("VARCHAR(10)", "TEXT", ("'a '",)),
    ("VARCHAR(20)", "VARBINARY(40)", ("'abc'", "'é'")),
    ("VARBINARY(20)", "VARCHAR(20)", ("'abc'",)),
    ("BLOB", "TEXT", ("'a'",)),
    ("TEXT", "BLOB", ("'a'",)),
    ("BINARY(5)", "VARBINARY(9)", ("'a'",)),
    ("BINARY(5)", "BINARY(9)", ("'a'",)),
    ("VARBINARY(5)", "BINARY(9)", ("'a'", "''")),
)
"""Type before, type after, values. Changes that DuckDB may see differently are refused: see its own tests."""


def test_rows_that_are_there_are_converted_as_the_server_does(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("convert")
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*", scan__startup__mode="earliest-offset"))
    for number, (before, _, values) in enumerate(_CONVERSIONS):
        table = f"t{number:02}"
        any_server.execute(
            f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, c {before})",
            *(f"INSERT INTO {table} (c) VALUES ({value})" for value in (*values, "NULL")),
            database=database,
        )
    runs.catch_up(Limits(1 << 26, 10**6))
    assert differences(any_server, runs.pipeline, [database]) == []
    alters = [f"ALTER TABLE t{number:02} MODIFY COLUMN c {after}" for number, (_, after, _) in enumerate(_CONVERSIONS)]
    any_server.execute("SET sql_mode = 'STRICT_ALL_TABLES'", *alters, database=database)
    runs.catch_up(Limits(1 << 26, 10**6))
    assert differences(any_server, runs.pipeline, [database]) == []
