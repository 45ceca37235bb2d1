"""Table definitions of real servers."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pymysql
import pytest
from cdc_process import wait_for
from pymysql.cursors import Cursor

from cdc.errors import SourceUnavailable
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql.server.information_schema import charset_of, read_tables, table_ids, table_reader
from connectors.mysql.server.server_check import accept_checksums
from connectors.mysql.table import MySqlColumn, MySqlTable, table_schema

pytestmark = pytest.mark.mysql

EVERYTHING = r"""
CREATE TABLE everything (
  id int unsigned zerofill NOT NULL COMMENT 'the ''id''',
  e enum('a','b''c','d\\e','f\ng','h"i','x,y','(z)','ä','') CHARACTER SET latin1 DEFAULT 'b''c',
  st set('p','q') NOT NULL,
  g geometry, gc geometrycollection, f float(7,4), d double, de decimal(10,2) unsigned,
  b bit(3) DEFAULT b'101', bb bit, y year,
  dt datetime(3) DEFAULT current_timestamp(3), ts timestamp NULL DEFAULT current_timestamp ON UPDATE current_timestamp,
  t time, c char, vc varchar(10) DEFAULT 'it''s \\ x', bi binary(3), tx text, l1 mediumtext CHARACTER SET utf8mb3,
  mb mediumblob, i1 tinyint(1) DEFAULT 3, i8 bigint DEFAULT -5, dd date DEFAULT '2020-01-01',
  g1 int GENERATED ALWAYS AS (i8 + 1) VIRTUAL, g2 int GENERATED ALWAYS AS (i8 + 1) STORED,
  inv int INVISIBLE DEFAULT 4, nn varchar(3) NOT NULL DEFAULT '', vnull varchar(5) DEFAULT 'NULL',
  now varchar(30) DEFAULT 'CURRENT_TIMESTAMP', ex int DEFAULT (1 + 1), dec1 decimal(5,2) DEFAULT 1.50,
  UNIQUE KEY u (nn), PRIMARY KEY (i8, id)
) CHARACTER SET utf8mb4 COMMENT 't''c'
"""


def column(name: str, kind: str, length: int | None = None, scale: int | None = None, **more: object) -> MySqlColumn:
    return MySqlColumn(name, kind, length, scale, **more)  # type: ignore[arg-type]


def read(server: MySqlServer, database: str) -> dict[str, MySqlTable]:
    connection = server.connect()
    try:
        found = read_tables(connection, lambda table: table.database == database)
    finally:
        connection.close()
    return {table.table: definition for table, definition in found.items()}


def test_a_table_that_is_locked_is_not_taken_for_a_dropped_one(mariadb_server: MySqlServer) -> None:
    """The server answers with a warning only: the source left such a table out, and the sink said it does not exist."""
    database = mariadb_server.new_database()
    create = (f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in ("held", "last"))
    mariadb_server.execute(*create, database=database)
    reader, connection = mariadb_server.connect(database=database), mariadb_server.connect()
    try:
        reader.begin()
        reader.cursor().execute("SELECT * FROM last")
        rename = partial(mariadb_server.execute, "RENAME TABLE held TO a, last TO b", database=database)
        renaming = threading.Thread(target=rename)
        renaming.start()
        waiting = (
            f"SELECT 1 FROM information_schema.PROCESSLIST WHERE DB = '{database}' AND STATE LIKE '%metadata lock'"
        )
        wait_for("the rename that waits", lambda: mariadb_server.execute(waiting))
        connection.cursor().execute("SET SESSION lock_wait_timeout = 0")
        message = rf"{database}\.held on .*: a lock was not released in time"
        with pytest.raises(SourceUnavailable, match=message):
            read_tables(connection, lambda table: table.database == database)
        with pytest.raises(SourceUnavailable, match=message):
            table_reader(connection)(TableId(database, "held"))
        reader.rollback()
        renaming.join()
        assert [table.table for table in read_tables(connection, lambda table: table.database == database)] == [
            "a",
            "b",
        ]
    finally:
        reader.close()
        connection.close()


def test_every_kind_of_column(any_server: MySqlServer) -> None:
    database = any_server.new_database()
    any_server.execute(EVERYTHING, database=database)
    table = read(any_server, database)["everything"]
    assert (table.id, table.primary_key) == (TableId(database, "everything"), ("i8", "id"))
    assert (table.comment, table.charset) == ("t'c", "utf8mb4")
    text = {"charset": "utf8mb4"}
    mariadb = any_server.flavor == "mariadb"
    labels = ("a", "b'c", "d\\e", "f\ng", 'h"i', "x,y", "(z)", "ä", "")
    assert list(table.columns) == [
        column("id", "int", 10, unsigned=True, nullable=False, comment="the 'id'"),
        column("e", "enum", charset="latin1", labels=labels, default="b'c"),
        column("st", "set", labels=("p", "q"), nullable=False, **text),
        column("g", "geometry"),
        column("gc", "geometrycollection"),
        column("f", "float", 7, 4),
        column("d", "double"),
        column("de", "decimal", 10, 2, unsigned=True),
        column("b", "bit", 3, default="b'101'"),
        column("bb", "bit", 1),
        column("y", "year", 4 if mariadb else None),
        column("dt", "datetime", 3),
        column("ts", "timestamp"),
        column("t", "time"),
        column("c", "char", 1, **text),
        column("vc", "varchar", 10, default="it's \\ x", **text),
        column("bi", "binary", 3),
        column("tx", "text", **text),
        column("l1", "mediumtext", charset="utf8mb3"),
        column("mb", "mediumblob"),
        column("i1", "tinyint", 1, default="3"),
        column("i8", "bigint", 20 if mariadb else None, nullable=False, default="-5"),
        column("dd", "date", default="2020-01-01"),
        column("g1", "int", 11 if mariadb else None, generated=True),
        column("g2", "int", 11 if mariadb else None, generated=True),
        column("inv", "int", 11 if mariadb else None, default="4"),
        column("nn", "varchar", 3, nullable=False, default="", **text),
        column("vnull", "varchar", 5, default="NULL", **text),
        column("now", "varchar", 30, default="CURRENT_TIMESTAMP", **text),
        column("ex", "int", 11 if mariadb else None),
        column("dec1", "decimal", 5, 2, default="1.50"),
    ]
    assert [str(c.type) for c in table_schema(table).columns][:3] == ["INT UNSIGNED", "STRING", "STRING"]


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES"])
def test_labels_are_those_that_a_select_gives(any_server: MySqlServer, mode: str) -> None:
    database = any_server.new_database()
    labels = ["back\\slash", "\\n", "qu'ote", 'dou"ble', "comma,", "ü", "日本", "par)en", " x"]
    quoted = [label.replace("'", "''") if mode else label.replace("\\", "\\\\").replace("'", "''") for label in labels]
    members = ",".join(f"'{label}'" for label in quoted)
    any_server.execute(
        f"SET sql_mode = '{mode}'",
        f"CREATE TABLE a (e ENUM({members}))",
        *(f"INSERT INTO a VALUES ('{label}')" for label in quoted),
        database=database,
    )
    selected = [row[0] for row in any_server.execute(f"SELECT e FROM `{database}`.a ORDER BY e + 0")]
    assert selected == labels
    assert list(read(any_server, database)["a"].columns[0].labels) == labels


def test_views_system_tables_and_unwanted_tables_are_left_out(any_server: MySqlServer) -> None:
    database = any_server.new_database()
    any_server.execute(
        "CREATE TABLE a (i INT)", "CREATE TABLE b (i INT)", "CREATE VIEW v AS SELECT 1 AS one", database=database
    )
    connection = any_server.connect()
    found = read_tables(connection, lambda table: table.table == "b")
    ids = table_ids(connection)
    assert read_tables(connection, lambda table: False) == {}
    connection.close()
    assert TableId(database, "b") in found
    assert all(table.table == "b" for table in found)
    assert [table.table for table in ids if table.database == database] == ["a", "b"]
    assert not {table.database for table in ids} & {"mysql", "sys", "performance_schema", "information_schema"}


def test_a_unique_key_is_not_a_primary_key(any_server: MySqlServer) -> None:
    database = any_server.new_database()
    any_server.execute("CREATE TABLE a (i INT NOT NULL, UNIQUE KEY (i))", database=database)
    assert read(any_server, database)["a"].primary_key == ()


@pytest.mark.parametrize("shown", ["ON", "OFF"])
def test_mysqls_generated_invisible_primary_key(server_factory, shown: str) -> None:
    server = server_factory("mysql", extra_args=[f"--show-gipk-in-create-table-and-information-schema={shown}"])
    database = server.new_database()
    server.execute("SET sql_generate_invisible_primary_key = ON", "CREATE TABLE a (x INT)", database=database)
    table = read(server, database)["a"]
    assert table.primary_key == ("my_row_id",)
    assert [c.name for c in table.columns] == ["my_row_id", "x"]
    assert table.columns[0].unsigned


def test_types_that_only_mysql_has(mysql_server: MySqlServer) -> None:
    database = mysql_server.new_database()
    mysql_server.execute("CREATE TABLE a (j JSON, v VECTOR(3), vb VARBINARY(9) DEFAULT 0x4142)", database=database)
    assert list(read(mysql_server, database)["a"].columns) == [
        column("j", "json"),
        column("v", "vector", 3),
        column("vb", "varbinary", 9, default="0x4142"),
    ]


def test_types_that_only_mariadb_has(mariadb_server: MySqlServer) -> None:
    database = mariadb_server.new_database()
    mariadb_server.execute(
        "CREATE TABLE a (j JSON, u UUID, i INET6, h INET4, c VARCHAR(9) COMPRESSED, n INT NOT NULL DEFAULT 7, "
        "f CHAR(36) DEFAULT uuid())",
        "CREATE SEQUENCE s",
        database=database,
    )
    tables = read(mariadb_server, database)
    assert list(tables) == ["a"]
    assert list(tables["a"].columns) == [
        column("j", "longtext", charset="utf8mb4"),
        column("u", "uuid"),
        column("i", "inet6"),
        column("h", "inet4"),
        column("c", "varchar", 9, charset="utf8mb4"),
        column("n", "int", 11, nullable=False, default="7"),
        column("f", "char", 36, charset="utf8mb4"),
    ]


def test_mariadbs_system_versioned_tables_have_their_row_columns(mariadb_server: MySqlServer) -> None:
    database = mariadb_server.new_database()
    mariadb_server.execute(
        "CREATE TABLE plain (x INT PRIMARY KEY, y INT) WITH SYSTEM VERSIONING",
        "CREATE TABLE keyless (x INT) WITH SYSTEM VERSIONING",
        "CREATE TABLE declared (x INT PRIMARY KEY, a TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
        "b TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME (a, b)) WITH SYSTEM VERSIONING",
        database=database,
    )
    tables = read(mariadb_server, database)
    hidden = [
        column("row_start", "timestamp", 6, nullable=False, generated=True),
        column("row_end", "timestamp", 6, nullable=False, generated=True),
    ]
    assert list(tables["plain"].columns)[2:] == hidden
    assert tables["plain"].primary_key == ("x", "row_end")
    assert list(tables["keyless"].columns)[1:] == hidden
    assert tables["keyless"].primary_key == ()
    assert [c.name for c in tables["declared"].columns] == ["x", "a", "b"]
    assert tables["declared"].primary_key == ("x", "b")


def test_a_thousand_tables_take_a_few_queries(any_server: MySqlServer) -> None:
    databases = [any_server.new_database("many") for _ in range(2)]
    for database in databases:
        any_server.execute(
            *(f"CREATE TABLE t{n} (a INT PRIMARY KEY, b INT) ENGINE=InnoDB" for n in range(100)), database=database
        )
    connection = any_server.connect()
    before = int(any_server.execute("SHOW GLOBAL STATUS LIKE 'Com_select'")[0][1])
    found = read_tables(connection, lambda table: table.database in databases)
    after = int(any_server.execute("SHOW GLOBAL STATUS LIKE 'Com_select'")[0][1])
    connection.close()
    for database in databases:
        any_server.execute(f"DROP DATABASE `{database}`")
    assert len(found) == 200
    assert all(table.primary_key == ("a",) for table in found.values())
    assert after - before < 15


@pytest.mark.parametrize(
    ("collation", "charset"),
    [("utf8mb4_0900_ai_ci", "utf8mb4"), ("utf8_general_ci", "utf8mb3"), ("binary", "binary"), ("latin1_bin", "latin1")],
)
def test_the_charset_of_a_collation(collation: str, charset: str) -> None:
    assert charset_of(collation) == charset


class OfMySql55(Cursor):
    """Answers as MySQL 5.5 does where 9.7 has more."""

    def execute(self, query: Any, args: Any = None) -> int:
        for name, code in (("GENERATION_EXPRESSION", 1054), ("@@GLOBAL.binlog_checksum", 1193)):
            if name in query:
                raise pymysql.err.OperationalError(code, f"Unknown column or variable '{name}'")
        query = query.replace("LIKE 'binlog_checksum'", "LIKE 'no such variable'")
        return super().execute("SELECT '5.5.9-log'" if query == "SELECT VERSION()" else query, args)


def test_a_server_that_shows_no_expressions_and_knows_no_checksums(mysql_server: MySqlServer) -> None:
    database = mysql_server.new_database()
    mysql_server.execute("CREATE TABLE a (id INT PRIMARY KEY, b VARCHAR(5) DEFAULT 'x')", database=database)
    connection = mysql_server.connect(cursorclass=OfMySql55)
    try:
        found = read_tables(connection, lambda table: table.database == database)
        accept_checksums(connection, "master_binlog_checksum")
    finally:
        connection.close()
    assert found[TableId(database, "a")].columns[1].default == "x"
