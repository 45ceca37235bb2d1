"""Every MySQL type, from a real server's log into StarRocks: as a value, as NULL, and as a key."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from cdc_process import mysql_pipeline, present_end
from starrocks_harness import Harness

from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import run_in_memory
from cdc_services.server import MySqlServer
from connectors.mysql.options import MySqlSourceOptions

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

VALUES: tuple[tuple[str, str, Any], ...] = (
    ("TINYINT(1)", "2", 2),
    ("TINYINT UNSIGNED", "255", 255),
    ("SMALLINT UNSIGNED", "65535", 65535),
    ("MEDIUMINT UNSIGNED", "16777215", 16777215),
    ("INT UNSIGNED", "4294967295", 4294967295),
    ("BIGINT", "-9223372036854775808", -(2**63)),
    ("BIGINT UNSIGNED", "18446744073709551615", b"18446744073709551615"),
    ("BIT(1)", "b'1'", None),
    ("BIT(12)", "b'101000000001'", b"\x0a\x01"),
    ("YEAR", "1999", 1999),
    ("FLOAT", "1.1", 1.1),
    ("DOUBLE", "-1.7976931348623157e308", -1.7976931348623157e308),
    ("DECIMAL(38,10)", "-9999999999999999999999999999.0123456789", Decimal("-9999999999999999999999999999.0123456789")),
    ("DECIMAL(65,30)", "-0.5", b"-0.500000000000000000000000000000"),
    ("DATE", "'9999-12-31'", date(9999, 12, 31)),
    ("TIME(3)", "'-838:59:59.000'", b"-838:59:59.000"),
    ("DATETIME(6)", "'1000-01-01 23:59:59.999999'", datetime(1000, 1, 1, 23, 59, 59, 999999)),
    ("TIMESTAMP(3) NULL", "'2001-02-03 04:05:06.789'", datetime(2001, 2, 3, 4, 5, 6, 789000)),
    ("CHAR(5)", "'ab\U0001f600'", "ab\U0001f600".encode()),
    ("VARCHAR(20) CHARACTER SET latin1", "'grün'", "grün".encode()),
    ("TEXT", "CONCAT(CHAR(0,1,2,9,10,13,92), '\\\\N')", b"\0\x01\x02\t\n\r\\\\N"),
    ("LONGTEXT", "REPEAT('x', 300000)", b"x" * 300_000),
    ("ENUM('one','two')", "'two'", b"two"),
    ("SET('a','b','c')", "'a,c'", b"a,c"),
    ("JSON", '\'{"b": [1, 2.5], "a": null}\'', b'{"a": null, "b": [1, 2.5]}'),
    ("BINARY(4)", "x'00ff'", b"\0\xff\0\0"),
    ("VARBINARY(8)", "x'01025c4e'", b"\x01\x02\\N"),
    ("LONGBLOB", "REPEAT(x'00ff', 1000)", b"\0\xff" * 1000),
    ("POINT", "ST_GeomFromText('POINT(1 2)')", None),
)
KEYS: tuple[tuple[str, str, Any], ...] = (
    ("DECIMAL(10,2)", "-1.50", b"-1.50"),
    ("BIGINT UNSIGNED", "18446744073709551615", b"18446744073709551615"),
    ("BINARY(4)", "x'00ff0102'", b"00FF0102"),
    ("CHAR(5)", "'ü'", "ü".encode()),
    ("DATETIME(3)", "'2020-01-01 00:00:00.123'", datetime(2020, 1, 1, 0, 0, 0, 123000)),
    ("DATE", "'2020-01-01'", date(2020, 1, 1)),
    ("TIME", "'-01:00:00'", b"-01:00:00"),
    ("DOUBLE", "0.1", b"0.1"),
    ("ENUM('x','y')", "'y'", b"y"),
)


class Source:
    """A database of the server, and a pipeline from where its log ends now."""

    def __init__(self, server: MySqlServer, harness: Harness, folder: Path) -> None:
        self.server, self.harness, self.folder = server, harness, folder
        made = mysql_pipeline(folder, server, r"srt.\.*", **present_end(server))
        self.options = MySqlSourceOptions.model_validate({**made.source, "password": server.password})

    def executes(self, *statements: str) -> None:
        """Run them in UTC, and the pipeline up to them."""
        self.server.execute("SET time_zone = '+00:00'", *statements, database="srt")
        (self.folder / "source").mkdir(parents=True)
        source = self.options.build(Context("types", LocalStore(self.folder / "source")))
        source.stop_at_current()
        run_in_memory(source, self.harness.sink())


@pytest.fixture
def source(mysql_server: MySqlServer, harness: Harness, tmp_path: Path) -> Source:
    harness.server.query("DROP DATABASE IF EXISTS srt FORCE")
    mysql_server.execute("DROP DATABASE IF EXISTS srt", "CREATE DATABASE srt")
    return Source(mysql_server, harness, tmp_path)


def test_every_type_as_a_value_and_as_null(source: Source, harness: Harness) -> None:
    columns = ", ".join(f"c{index} {kind}" for index, (kind, _, _) in enumerate(VALUES))
    source.executes(
        f"CREATE TABLE t (id INT PRIMARY KEY, {columns})",
        f"INSERT INTO t VALUES (1, {', '.join(sql for _, sql, _ in VALUES)})",
        "INSERT INTO t (id) VALUES (2)",
    )
    names = ", ".join(f"c{index}" for index in range(len(VALUES)))
    ((*values,), (*nulls,)) = harness.query(f"SELECT {names} FROM srt.t ORDER BY id")
    for (kind, _, expected), value in zip(VALUES, values, strict=True):
        assert value is not None, kind
        wanted = pytest.approx(expected) if kind == "FLOAT" else expected
        assert expected is None or value == wanted, kind
    assert set(nulls) == {None}


def test_every_type_of_a_key_finds_its_row_again(source: Source, harness: Harness) -> None:
    statements = [
        (f"CREATE TABLE k{index} (k {kind} PRIMARY KEY, n INT)", f"INSERT INTO k{index} VALUES ({sql}, 1)")
        for index, (kind, sql, _) in enumerate(KEYS)
    ]
    source.executes(*chain(*statements), *(f"UPDATE k{index} SET n = 2" for index, _ in enumerate(KEYS)))
    for index, (kind, _, expected) in enumerate(KEYS):
        assert harness.query(f"SELECT k, n FROM srt.k{index}") == [(expected, 2)], kind


FLINKS_KEYS = [
    ("DECIMAL(9, 0)", "-999999999", "INT"),
    ("DECIMAL(18, 0)", "999999999999999999", "BIGINT"),
    ("DECIMAL(38, 0)", "9" * 38, "LARGEINT"),
    ("DECIMAL(12, 1)", "-9999999.9", "VARCHAR(12)"),
    ("BIGINT UNSIGNED", "18446744073709551615", "LARGEINT"),
]


def test_keys_of_tables_that_flink_cdc_made_find_their_rows(source: Source, harness: Harness) -> None:
    harness.server.query("CREATE DATABASE srt")
    statements = []
    for index, (kind, value, made) in enumerate(FLINKS_KEYS):
        harness.server.query(
            f"CREATE TABLE srt.f{index} (k {made} NOT NULL, n INT NULL) PRIMARY KEY (k) DISTRIBUTED BY HASH (k)"
        )
        statements += [
            f"CREATE TABLE f{index} (k {kind} PRIMARY KEY, n INT)", f"INSERT INTO f{index} VALUES ({value}, 1), (0, 1)",
            f"UPDATE f{index} SET n = 2 WHERE k <> 0", f"DELETE FROM f{index} WHERE k = 0",
        ]  # fmt: skip
    source.executes(*statements)
    for index, (kind, value, _) in enumerate(FLINKS_KEYS):
        ((key, count),) = harness.query(f"SELECT k, n FROM srt.f{index}")
        assert (key.decode() if isinstance(key, bytes) else str(key), count) == (value, 2), kind
