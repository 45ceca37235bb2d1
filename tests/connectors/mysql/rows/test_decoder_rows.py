"""What rows events say, on real servers: kinds, order, row images, many and wide tables, definitions that change."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from decoded import decode, definitions, executed, logged
from servers import ServerFactory

from cdc.errors import SchemaUnknown, UnsupportedChange
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.rows import table_slots
from connectors.mysql.rows.decoder import Decoder
from connectors.mysql.value_rules import ValueRules

pytestmark = pytest.mark.mysql


def _ignore(name: str, number: int) -> None:
    """A count nobody asks for."""


def test_kinds_order_and_times(any_server: MySqlServer) -> None:
    log = executed(
        any_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
        "UPDATE t SET a = a + 1 WHERE id < 3",
        "UPDATE t SET id = 9 WHERE id = 3",
        "DELETE FROM t WHERE id = 1",
    )
    found = log.decode()
    assert found.kinds(log.table) == [0, 0, 0, 1, 2, 1, 2, 1, 2, 3]
    assert found.rows(log.table)[3:] == [(1, 10), (1, 11), (2, 20), (2, 21), (3, 30), (9, 30), (1, 11)]
    orders = [
        order for block in found.blocks for order in zip(block.sequence.to_pylist(), block.row.to_pylist(), strict=True)
    ]
    assert orders == sorted(set(orders))
    ends = {(chunk.file_number << 40) + int(end) for chunk in log.chunks for end in chunk.end_position}
    assert {sequence for sequence, _ in orders} <= ends
    assert [row for _, row in orders] == [0, 1, 2, 0, 1, 2, 3, 0, 1, 0]
    times = [time for block in found.blocks for time in block.timestamps_ms.to_pylist()]
    assert times == sorted(times)
    server_ms = any_server.execute("SELECT ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000)")[0][0]
    assert 0 <= server_ms - times[-1] < 600_000


def test_duplicate_rows_of_a_table_without_key(any_server: MySqlServer) -> None:
    log = executed(
        any_server,
        "CREATE TABLE t (a INT, b VARCHAR(20))",
        "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
        "DELETE FROM t WHERE a = 1 LIMIT 1",
    )
    found = log.decode()
    assert found.rows(log.table) == [(1, "x"), (1, "x"), (None, None), (1, "x")]
    assert found.kinds(log.table) == [0, 0, 0, 3]


def test_many_columns(any_server: MySqlServer) -> None:
    names = [f"c{number}" for number in range(4000 if any_server.flavor == "mysql" else 2000)]
    columns = ", ".join(f"{name} TINYINT{' UNSIGNED' if index % 3 else ''}" for index, name in enumerate(names))
    values = ", ".join("NULL" if index % 5 == 0 else str(index % 100) for index in range(len(names)))
    log = executed(any_server, f"CREATE TABLE t ({columns}) ENGINE=MyISAM", f"INSERT INTO t VALUES ({values})")
    assert log.rows() == [tuple(None if index % 5 == 0 else index % 100 for index in range(len(names)))]


def test_many_tables_in_one_chunk(any_server: MySqlServer) -> None:
    count = 150
    log = executed(
        any_server,
        *(f"CREATE TABLE t{number} (id INT PRIMARY KEY, a VARCHAR(20))" for number in range(count)),
        *(f"INSERT INTO t{number} VALUES (1, 'row {number}'), (2, NULL)" for number in range(count)),
    )
    found = log.decode()
    for number in range(count):
        assert found.rows(TableId(log.database, f"t{number}")) == [(1, f"row {number}"), (2, None)]


def test_a_statement_that_changes_several_tables(any_server: MySqlServer) -> None:
    log = executed(
        any_server,
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(9))",
        "CREATE TABLE c (id INT PRIMARY KEY, v DOUBLE)",
        "CREATE TRIGGER tr AFTER UPDATE ON a FOR EACH ROW INSERT INTO c VALUES (NEW.id, NEW.v)",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        "INSERT INTO b VALUES (1, 'x'), (2, 'y')",
        "UPDATE a JOIN b USING (id) SET a.v = a.v + 1, b.v = 'new'",
    )
    found = log.decode()
    assert found.rows(TableId(log.database, "a")) == [(1, 1), (2, 2), (1, 1), (1, 2), (2, 2), (2, 3)]
    assert found.rows(TableId(log.database, "b")) == [(1, "x"), (2, "y"), (1, "x"), (1, "new"), (2, "y"), (2, "new")]
    assert found.rows(TableId(log.database, "c")) == [(1, 2.0), (2, 3.0)]


def test_rows_events_may_come_in_a_later_chunk_than_their_announcement(any_server: MySqlServer) -> None:
    log = executed(
        any_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(2000))",
        "INSERT INTO t VALUES " + ", ".join(f"({number}, REPEAT('x', 1500))" for number in range(40)),
    )
    single = [chunk.part(number, number + 1) for chunk in log.chunks for number in range(len(chunk))]
    assert len(single) > 10
    rows = decode(log.definitions(), single).rows(log.table)
    assert [row[0] for row in rows] == list(range(40))


def test_blocks_stay_small(any_server: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_slots, "_BLOCK_BYTES", 20_000)
    rows = [
        f"({number}, REPEAT('ab', {number * 7 % 400}), {'NULL' if number % 3 else number})" for number in range(900)
    ]
    log = executed(
        any_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b INT)",
        f"INSERT INTO t VALUES {', '.join(rows)}",
        "UPDATE t SET b = id + 1",
    )
    found = log.decode()
    assert len(found.blocks) > 5
    inserts = [row for row, kind in zip(found.rows(log.table), found.kinds(log.table), strict=True) if kind == 0]
    afters = [row for row, kind in zip(found.rows(log.table), found.kinds(log.table), strict=True) if kind == 2]
    assert inserts == [(n, "ab" * (n * 7 % 400), None if n % 3 else n) for n in range(900)]
    assert afters == log.selected()
    last = (0, 0)
    for block in found.blocks:
        for order in zip(block.sequence.to_pylist(), block.row.to_pylist(), strict=True):
            assert order > last
            last = order


def test_values_of_many_megabytes(any_server: MySqlServer) -> None:
    log = executed(
        any_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a LONGTEXT, b LONGBLOB)",
        "INSERT INTO t VALUES (1, 'small', 'small')",
        "INSERT INTO t VALUES (2, REPEAT('é', 9000000), REPEAT(x'00ff', 100))",
        "INSERT INTO t VALUES (3, NULL, REPEAT(x'01', 5000000))",
    )
    assert log.rows() == [(1, "small", b"small"), (2, "é" * 9_000_000, b"\0\xff" * 100), (3, None, b"\1" * 5_000_000)]


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_incomplete_row_images_are_refused(any_server: MySqlServer, image: str) -> None:
    log = executed(
        any_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT)",
        "INSERT INTO t VALUES (1, 2, 'x')",
        f"SET SESSION binlog_row_image = {image}",
        "UPDATE t SET a = 3",
    )
    with pytest.raises(UnsupportedChange) as caught:
        log.decode()
    assert f"{log.table} at " in caught.value.where
    assert "SET GLOBAL binlog_row_image=FULL" in caught.value.hint


def test_partial_json_updates_become_whole_documents(mysql_server: MySqlServer) -> None:
    log = executed(
        mysql_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a JSON, n INT, b JSON, c JSON)",
        'INSERT INTO t VALUES (1, \'{"x": 1, "y": [1, 2, 3], "pad": "%s"}\', 1, \'{"k": "v"}\', NULL)' % ("p" * 200),
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        "UPDATE t SET a = JSON_SET(a, '$.x', 2)",
        "UPDATE t SET a = JSON_REMOVE(a, '$.y[1]'), b = JSON_SET(b, '$.k', 'w')",
        "UPDATE t SET n = 5, c = '[1]'",
        "UPDATE t SET a = JSON_SET(a, '$.z', JSON_OBJECT('é', 1.5)), c = JSON_ARRAY_INSERT(c, '$[0]', 0)",
        "UPDATE t SET b = NULL",
    )
    assert any(39 in chunk.type for chunk in log.chunks)
    rows = log.rows()
    assert rows[-1:] == log.selected()
    assert rows[1::2] == rows[:-1:2]
    documents = [json.loads(row[1]) for row in rows[2::2]]
    assert [document["x"] for document in documents] == [2] * 5
    assert [document["y"] for document in documents] == [[1, 2, 3], *[[1, 3]] * 4]
    assert [row[3] for row in rows[2::2]] == ['{"k": "v"}', *['{"k": "w"}'] * 3, None]
    assert [row[4] for row in rows[2::2]] == [None, None, "[1]", "[0, 1]", "[0, 1]"]


def test_many_partial_json_updates_in_one_statement(mysql_server: MySqlServer) -> None:
    rows = ", ".join(f'({n}, \'{{"n": {n}, "pad": "{"p" * 60}"}}\', REPEAT("x", {n % 50}))' for n in range(1, 3001))
    log = executed(
        mysql_server,
        "CREATE TABLE t (id INT PRIMARY KEY, doc JSON, s VARCHAR(60))",
        f"INSERT INTO t VALUES {rows}",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        "UPDATE t SET doc = JSON_SET(doc, '$.n', -id)",
    )
    assert any(39 in chunk.type for chunk in log.chunks)
    found = log.decode()
    afters = [row for row, kind in zip(found.rows(log.table), found.kinds(log.table), strict=True) if kind == 2]
    assert afters == log.selected()


def test_rows_of_a_compressed_transaction_share_a_sequence(mysql_server: MySqlServer) -> None:
    log = executed(
        mysql_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "SET SESSION binlog_transaction_compression = ON",
        "BEGIN",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "UPDATE t SET a = 3",
        "DELETE FROM t WHERE id = 1",
        "COMMIT",
        "INSERT INTO t VALUES (7, 7)",
    )
    found = decode(log.definitions(), [c.part(n, n + 1) for c in log.chunks for n in range(len(c))])
    assert [row for block in found.blocks for row in block.row.to_pylist()] == [*range(7), 0]
    assert len({sequence for block in found.blocks for sequence in block.sequence.to_pylist()}) == 2


def test_tables_of_before_5_6(server_factory: ServerFactory) -> None:
    server = server_factory("mariadb", extra_args=["--mysql56-temporal-format=OFF"])
    log = executed(
        server,
        "SET time_zone = '+00:00'",
        "CREATE TABLE t (id INT PRIMARY KEY, a DATE, b TIME, c DATETIME, d TIMESTAMP NULL)",
        "INSERT INTO t VALUES (1, '1000-01-01', '-838:59:59', '1000-01-01 00:00:01', '1970-01-01 00:00:01'), "
        "(2, '9999-12-31', '838:59:59', '9999-12-31 23:59:59', '2038-01-19 03:14:07'), "
        "(3, '2024-02-29', '-00:00:01', '2024-02-29 12:34:56', '2024-02-29 12:34:56'), (4, NULL, NULL, NULL, NULL)",
    )
    found = log.decode()
    assert {11, 12, 7} <= {code for chunk in log.chunks for i in range(len(chunk)) for code in chunk.body(i)[:60]}
    assert found.rows(log.table) == log.selected()


def test_a_definition_that_does_not_fit_is_refused(any_server: MySqlServer) -> None:
    log = executed(
        any_server,
        "CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(10,2), b DATETIME(3))",
        "INSERT INTO t VALUES (1, 2, '2026-01-01')",
    )
    table = log.table
    good = log.definitions()[table]
    first, second, third = good.columns
    wrong = {
        "known definition has 2": (first, second),
        "type code": (first, replace(second, type="bigint"), third),
        "DECIMAL(10, 2)": (first, replace(second, scale=3), third),
        "3 fractional digits": (first, second, replace(third, length=6)),
    }
    for message, columns in wrong.items():
        with pytest.raises(SchemaUnknown) as caught:
            decode({table: replace(good, columns=columns)}, log.chunks)
        assert message in str(caught.value)
        assert f"{table} at " in caught.value.where
        assert caught.value.hint
    with pytest.raises(SchemaUnknown, match="definition is not known"):
        decode({}, log.chunks, database=log.database)
    assert decode({}, log.chunks).blocks == []


def test_a_new_definition_is_used_from_the_next_chunk_on(any_server: MySqlServer) -> None:
    database = any_server.new_database()
    table = TableId(database, "t")
    tables = {}
    decoder = Decoder(tables, captures=lambda found: found == table, count=_ignore)
    rows = []
    for statements in (
        ("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 2)"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "INSERT INTO t VALUES (2, 3)"),
        ("ALTER TABLE t ADD COLUMN c VARCHAR(5) FIRST", "INSERT INTO t VALUES ('x', 3, 4)"),
        ("DROP TABLE t", "CREATE TABLE t (s CHAR(3))", "INSERT INTO t VALUES ('new')"),
    ):
        with logged(any_server) as chunks:
            any_server.execute(*statements, database=database)
        tables.update(definitions(any_server, database))
        rows += [row for chunk in chunks for block in decoder.decode(chunk) for row in block.rows.to_pylist()]
    assert rows == [{"id": 1, "a": 2}, {"id": 2, "b": 3}, {"c": "x", "id": 3, "b": 4}, {"s": "new"}]


def test_invalid_dates_can_be_refused(any_server: MySqlServer) -> None:
    log = executed(
        any_server,
        "SET sql_mode = ''",
        "CREATE TABLE t (id INT PRIMARY KEY, a DATETIME(2))",
        "INSERT INTO t VALUES (1, '2026-00-10 01:02:03.5')",
    )
    with pytest.raises(UnsupportedChange) as caught:
        log.decode(rules=ValueRules(strict_dates=True))
    assert "column a holds 2026-00-10 01:02:03" in caught.value.message
    assert f"{log.table} at " in caught.value.where
