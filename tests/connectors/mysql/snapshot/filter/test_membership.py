"""Which part of a table a key belongs to: what the task computes against what real servers say, for many key types."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cdc.block import arrow_schema
from cdc.errors import UnsupportedChange
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.snapshot.chunk import Chunk, entry_from_json, entry_to_json
from connectors.mysql.snapshot.filter.membership import InChunk, Membership
from connectors.mysql.snapshot.plan.bounds import condition
from connectors.mysql.snapshot.plan.key_columns import key_columns
from connectors.mysql.snapshot.plan.split_points import ChunkSize, Splitter
from connectors.mysql.table import MySqlColumn, MySqlTable, table_schema

pytestmark = pytest.mark.mysql

_WORDS = [
    "",
    "a",
    "A",
    "b ",
    "B",
    "é",
    "E",
    "z",
    "Z",
    "ß",
    "ss",
    "ä",
    "%",
    "_",
    "'",
    "\\\\",
    "10",
    "9",
    "aa",
    "Ab",
    "ñ",
    "n",
]

KEYS: dict[str, tuple[str, list[str]]] = {
    "tinyint": ("a TINYINT", [str(n) for n in range(-128, 128, 5)]),
    "unsigned": ("a BIGINT UNSIGNED", [str(n) for n in (0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1)]),
    "bigint": ("a BIGINT", [str(n) for n in (-(2**63), -1, 0, 1, 2**63 - 1)]),
    "year": ("a YEAR", [str(n) for n in (0, *range(1950, 2030, 3))]),
    "decimal": ("a DECIMAL(20, 5)", ["-1.5", "-1.50001", "0", "0.00001", "99999999999999.99999", "3"]),
    "wide_decimal": ("a DECIMAL(60, 2)", [f"{'9' * 50}.5", "-1", "0.01", f"{'8' * 50}"]),
    "date": ("a DATE", [f"'{y}-{m:02}-15'" for y in (1, 1969, 2024) for m in range(1, 13)]),
    "time": ("a TIME(3)", ["'-838:59:59'", "'-00:00:00.001'", "'00:00:00'", "'12:00:00.5'", "'838:59:59'"]),
    "datetime": ("a DATETIME(6)", [f"'2024-02-29 23:59:{s:02}.{s * 7:06}'" for s in range(0, 60, 4)]),
    "timestamp": (
        "a TIMESTAMP(2) DEFAULT 0",
        ["'1970-01-02 00:00:00'", "'2038-01-19 03:14:07'", "'2024-03-31 02:30:00.25'"],
    ),
    "varbinary": ("a VARBINARY(8)", ["''", "X'00'", "X'0000'", "X'61'", "X'6100'", "X'ff'", "X'7f'"]),
    "binary": ("a BINARY(3)", ["''", "X'01'", "X'61ff'", "X'ffffff'"]),
    "general_ci": ("a VARCHAR(9) COLLATE utf8mb4_general_ci", [f"'{w}'" for w in _WORDS if w != "'"]),
    "bin": ("a VARCHAR(9) COLLATE utf8mb4_bin", [f"'{w}'" for w in _WORDS if w != "'"]),
    "unicode_ci": ("a CHAR(9) COLLATE utf8mb4_unicode_ci", [f"'{w}'" for w in _WORDS if w != "'"]),
    "latin1": ("a VARCHAR(9) CHARACTER SET latin1", [f"'{w}'" for w in _WORDS if w != "'"]),
    "german": ("a VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_german2_ci", [f"'{w}'" for w in _WORDS if w != "'"]),
    "two_numbers": ("a SMALLINT, b INT UNSIGNED", [f"{a}, {b}" for a in (-3, 0, 7) for b in (0, 1, 2**31)]),
    "date_and_number": ("a DATE, b TINYINT", [f"'2024-01-{d:02}', {b}" for d in range(1, 9) for b in (-1, 1)]),
    "text_and_number": ("a VARCHAR(5), b INT", [f"'{w}', {n}" for w in ("a", "A", "b", "é") for n in (-1, 5, 10)]),
    "bytes_and_decimal": (
        "a VARBINARY(3), b DECIMAL(5, 1)",
        [f"X'{x}', {n}" for x in ("", "00", "ff") for n in (-1, 2)],
    ),
    "three": (
        "a INT, b VARCHAR(3), c DATE",
        [f"{n}, '{w}', '2024-01-0{d}'" for n in (1, 2) for w in "xY" for d in (1, 2)],
    ),
}


def make(server: MySqlServer, name: str) -> tuple[str, MySqlTable]:
    """A table of one key type with all of its values as rows."""
    columns, values = KEYS[name]
    database = server.new_database("member")
    names = ", ".join(part.split()[0] for part in columns.split(", ") if part[1] == " ")
    server.execute(
        "SET sql_mode = ''", "SET time_zone = '+00:00'",
        f"CREATE TABLE k ({columns}, PRIMARY KEY ({names})) CHARACTER SET utf8mb4",
        f"INSERT IGNORE INTO k VALUES {', '.join(f'({value})' for value in values)}", database=database,
    )  # fmt: skip
    with closing(server.connect()) as connection:
        (table,) = read_tables(connection, TableId(database, "k").__eq__).values()
    return database, table


def keys_of(server: MySqlServer, table: MySqlTable) -> pa.RecordBatch:
    """The keys as a change block has them, by the snapshot's own reader."""
    from snapshot_reads import read_all

    found = read_all(server, table, ", ".join(table.primary_key)).table.combine_chunks()
    schema = arrow_schema(table_schema(table))
    return pa.RecordBatch.from_arrays([found.column(c).combine_chunks() for c in found.column_names], schema=schema)


@pytest.mark.parametrize("name", KEYS)
def test_chunks_part_a_table_and_tasks_agree_with_the_server(any_server: MySqlServer, name: str) -> None:
    """Every row is in exactly one chunk by the server's WHERE, and `InChunk` says the same of its key."""
    _, table = make(any_server, name)
    keys = keys_of(any_server, table)
    with closing(any_server.connect(sql_mode="")) as connection:
        key = key_columns(connection, table, None)
        assert key.columns == table.primary_key
        estimate = keys.num_rows if name in ("year", "tinyint") else 0  # of evenly spread numbers
        cut = list(Splitter(connection, table, key, ChunkSize(3), estimate).chunks())
        chunks = [
            Chunk(n, table.id, part.columns, part.lower, part.upper, {}, part.collations, part.last)
            for n, part in enumerate(cut)
        ]
        seen = np.zeros(keys.num_rows, np.int64)
        for chunk in chunks:
            read = entry_from_json(entry_to_json(chunk))
            assert isinstance(read, Chunk)
            inside = InChunk(read, table, asking(connection))
            mine = inside(keys.select(list(chunk.columns)))
            seen += mine
            assert int(mine.sum()) == rows_of(connection, table, chunk)
    assert len(chunks) > 1
    assert seen.tolist() == [1] * keys.num_rows


def rows_of(connection: Any, table: MySqlTable, chunk: Chunk) -> int:
    text = condition(chunk, table)
    with connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT COUNT(*) FROM `{table.id.database}`.`{table.id.table}` WHERE {text}")
        return int(cursor.fetchone()[0])


def asking(connection: Any) -> Any:
    def ask(statement: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()

    return ask


@pytest.mark.parametrize("name", ["bigint", "two_numbers", "text_and_number", "general_ci"])
def test_chunks_are_ranges_of_the_index(any_server: MySqlServer, name: str) -> None:
    """The server reads a range of the key for a chunk, not the table."""
    columns, _ = KEYS[name]
    database = any_server.new_database("range")
    names = ", ".join(part.split()[0] for part in columns.split(", ") if part[1] == " ")
    random_ = random.Random(5)
    rows = ", ".join(
        "(" + ", ".join(
            f"'{random_.randrange(10**5)}'" if "CHAR" in part else str(random_.randrange(30_000))
            for part in columns.split(", ") if part[1] == " "
        ) + ", 'x')"
        for _ in range(4000)
    )  # fmt: skip
    any_server.execute(
        f"CREATE TABLE k ({columns}, filler CHAR(50), PRIMARY KEY ({names})) CHARACTER SET utf8mb4",
        f"INSERT IGNORE INTO k VALUES {rows}", "ANALYZE TABLE k", database=database,
    )  # fmt: skip
    with closing(any_server.connect()) as connection:
        (table,) = read_tables(connection, TableId(database, "k").__eq__).values()
        key = key_columns(connection, table, None)
        chunk = list(Splitter(connection, table, key, ChunkSize(200), 0).chunks())[3]
        text = condition(chunk, table)
        with connection.cursor() as cursor:
            form = "FORMAT=TRADITIONAL" if any_server.flavor == "mysql" else ""
            cursor.execute(f"EXPLAIN {form} SELECT * FROM `{database}`.k WHERE {text}")
            names_of_plan = [column[0].lower() for column in cursor.description]
            plan = dict(zip(names_of_plan, cursor.fetchone(), strict=True))
    assert plan["type"] == "range"
    assert int(plan["rows"]) < 1500


def test_null_in_a_column_that_may_be_null_is_below_every_bound() -> None:
    column = MySqlColumn("a", "int")
    places = Membership([column], [None], [(5,), (9,)], never)
    keys = pa.RecordBatch.from_arrays([pa.array([None, 5, 6, 10], pa.int32())], names=["a"])
    assert places(keys).tolist() == [0, 0, 1, 2]


def test_a_date_that_no_calendar_has_has_no_place_as_a_key() -> None:
    column = MySqlColumn("day", "date", nullable=False)
    places = Membership([column], [None], [("2024-01-01",)], never)
    keys = pa.RecordBatch.from_arrays([pa.array([None], pa.date32())], names=["day"])
    with pytest.raises(UnsupportedChange, match="an invalid date"):
        places(keys)


def test_bounds_of_such_dates_have_one() -> None:
    column = MySqlColumn("day", "date", nullable=False)
    places = Membership([column], [None], [("0000-00-00",), ("2023-00-10",), ("2024-02-30",)], never)
    days = np.array(["2022-12-31", "2023-01-01", "2024-02-29", "2024-03-01"], "datetime64[D]")
    keys = pa.RecordBatch.from_arrays([pa.array(days)], names=["day"])
    assert places(keys).tolist() == [1, 2, 2, 3]


def test_long_keys_are_asked_about_in_statements_that_a_server_takes() -> None:
    column = MySqlColumn("a", "varchar", length=768, charset="utf8mb4")
    keys = [f"{number:04}" + "x" * 764 for number in range(1500)]
    asked: list[int] = []
    numbers: list[int] = []

    def ask(statement: str) -> list[int]:
        asked.append(len(statement))
        numbers.append(statement.count((b"b" * 768).hex()))
        return list(range(numbers[-1]))

    found = Membership([column], ["utf8mb4_general_ci"], [("b" * 768,)], ask)(
        pa.RecordBatch.from_arrays([pa.array(keys)], names=["a"])
    )
    assert max(asked) < 1_000_000
    assert found.tolist() == [number for size in numbers for number in range(size)]


def never(statement: str) -> Any:
    raise AssertionError(f"asked the server: {statement}")
