"""Results of real servers: over TLS, with rows of more than one packet, with rows much longer than the others."""

from __future__ import annotations

import hashlib
import ssl
from collections import Counter
from contextlib import closing

import pytest
from decoded import definitions
from snapshot_reads import SESSION, read_all

from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_plan import select_from
from connectors.mysql.snapshot.read.result_stream import ResultStream

pytestmark = pytest.mark.mysql

_LONGEST = 0xFFFFFF
_HEAD = 1 + 1 + 4
"""Bytes of a row before its second value: zero, bitmap, INT."""


def test_rows_around_the_size_of_a_packet(any_server: MySqlServer) -> None:
    database = any_server.new_database("long")
    sizes = [1, _LONGEST - _HEAD - 5, _LONGEST - _HEAD - 4, _LONGEST - _HEAD - 3, 3]
    any_server.execute(
        "SET SESSION sql_log_bin = 0",
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v LONGBLOB)",
        *[
            f"INSERT INTO {database}.t VALUES ({number}, LEFT(REPEAT(SHA2({number}, 256), {size // 64 + 1}), {size}))"
            for number, size in enumerate(sizes)
        ],
    )
    table = TableId(database, "t")
    read = read_all(any_server, definitions(any_server, database)[table], "id")
    found = [value for block in read.blocks for value in block.rows.column(1).to_pylist()]
    for number, (value, size) in enumerate(zip(found, sizes, strict=True)):
        text = hashlib.sha256(str(number).encode()).hexdigest().encode()
        assert value == (text * (size // 64 + 1))[:size], size
    any_server.execute("SET SESSION sql_log_bin = 0", f"DROP DATABASE {database}")


def test_lengths_that_change_all_the_time(any_server: MySqlServer) -> None:
    """Arenas are sized by what was seen; rows that do not fit go on in a new one, with NULLs and counts intact."""
    database = any_server.new_database("uneven")
    any_server.execute(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', cte_max_recursion_depth = 100000"
        if any_server.flavor == "mysql"
        else "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', max_recursive_iterations = 100000",
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, a DATE, b TEXT, c BIT(1), d TEXT, e DATETIME)",
        f"INSERT INTO {database}.t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
        "SELECT i, IF(i % 3, NULL, '2026-02-31'), REPEAT('x', IF(i % 4000 = 0, 60000, IF(i < 9000, 2, 40))), i % 2, "
        "IF(i % 5, REPEAT('y', i % 90), NULL), IF(i % 7, '2026-01-02', '0000-00-00') FROM n",
    )
    table = TableId(database, "t")
    read = read_all(any_server, definitions(any_server, database)[table], "id")
    assert len(read.blocks) > 2
    rows = read.table.to_pylist()
    assert len(rows) == 20_000
    for number, row in enumerate(rows, 1):
        assert row["id"] == number
        assert row["a"] is None
        assert len(row["b"]) == (60000 if number % 4000 == 0 else 2 if number < 9000 else 40)
        assert row["c"] is bool(number % 2)
        assert row["d"] == ("y" * (number % 90) if number % 5 else None)
        assert (row["e"] is None) == (number % 7 == 0)
    assert read.counts == Counter(
        {
            f"invalid-date-to-null {table}.a": 20_000 // 3,
            f"invalid-date-to-null {table}.e": 20_000 // 7,
        }
    )
    numbers = [number for block in read.blocks for number in block.row.to_pylist()]
    assert numbers == list(range(20_000))


def test_over_tls(mysql_server: MySqlServer) -> None:
    database = mysql_server.new_database("tls")
    mysql_server.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v TEXT)",
        *[f"INSERT INTO {database}.t VALUES ({number}, REPEAT('{number}', 9000))" for number in range(300)],
    )
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    table = definitions(mysql_server, database)[TableId(database, "t")]
    with closing(mysql_server.connect(ssl=context)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(SESSION)
            cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
            assert cursor.fetchall()[0][1]
        stream = ResultStream(connection, f"{select_from(table)} ORDER BY id", "t")
        reader = RowReader(table, stream.columns, Stamp(1, 0, 0), lambda reason, number: None, where="t")
        found = [row["v"] for block in reader.blocks(stream) for row in block.rows.to_pylist()]
    assert found == [str(number) * 9000 for number in range(300)]
