"""What users of a MySQL, MariaDB or OceanBase sink rely on besides what every sink does. Real servers."""

import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cdc_process import wait_for
from mysql_sink_harness import Harness, sink_options
from servers import ServerFactory
from sink_calls import commit, created, prepared

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError, SinkUnavailable
from cdc.evolution.diff import Table, diff
from cdc.evolution.merge import merge_schemas
from cdc.process import faults
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    RenameTable,
    TableId,
    TableSchema,
)
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.tables.sinks import widening
from cdc.testing.blocks import block
from cdc_services.server import MySqlServer, StartedServer
from connectors.mysql.server.connection import ConnectionOptions
from connectors.mysql.sink.session import SinkServer
from connectors.mysql.sink.sink import MySqlSink
from connectors.mysql.table import MySqlColumn, spelled

pytestmark = [pytest.mark.slow, pytest.mark.mysql]

ID, NAME = Column("id", DataType.parse("INT"), nullable=False), Column("name", DataType.parse("VARCHAR(20)"))
USERS = TableId("shop", "users")
SCHEMA = TableSchema((ID, NAME), ("id",))
SERVERS = ["mysql", "mariadb", "oceanbase"]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> MySqlServer:
    found: MySqlServer = request.getfixturevalue(f"{request.param}_sink_server")
    found.execute("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
    return found


@pytest.fixture
def harness(server: MySqlServer, tmp_path: Path) -> Harness:
    return Harness(server, tmp_path, f"pipeline-{tmp_path.name}")


def users(*changes: tuple[str, int, str | None]) -> ChangeBlock:
    return block(USERS, SCHEMA, [(kind, {"id": id_, "name": name}) for kind, id_, name in changes])


def test_rows_that_exchange_a_unique_value_keep_theirs(harness: Harness) -> None:
    """Any order of upserts would meet the other row's value."""
    harness.server.execute("CREATE TABLE shop.users (id INT PRIMARY KEY, name VARCHAR(20), UNIQUE (name))")
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a"), ("+I", 2, "b"), ("+I", 3, "c")))
    swap = users(
        ("-U", 1, "a"), ("+U", 1, "x"), ("-U", 2, "b"), ("+U", 2, "a"), ("-U", 1, "x"), ("+U", 1, "b"), ("-D", 3, "c"),
        ("+I", 4, "c"),
    )  # fmt: skip
    commit(sink, 1, swap)
    assert by_id(harness) == [(1, "b"), (2, "a"), (4, "c")]


def test_a_row_never_takes_the_place_of_another_with_its_unique_value(harness: Harness) -> None:
    """The run stops, nothing of the batch is in, and goes on once the row is gone."""
    harness.server.execute("CREATE TABLE shop.users (id INT PRIMARY KEY, name VARCHAR(20), UNIQUE (name))")
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    harness.server.execute("INSERT INTO shop.users VALUES (9, 'z')")
    handles = prepared(sink, 1, users(("+I", 2, "b"), ("+I", 3, "z")))
    with pytest.raises(SinkError, match=r"shop\.users, row id=3: .*'z'.*1062"):
        sink.commit(1, handles)
    assert by_id(harness) == [(1, "a"), (9, "z")]
    harness.server.execute("DELETE FROM shop.users WHERE id = 9")
    sink.commit(1, handles)
    assert by_id(harness) == [(1, "a"), (2, "b"), (3, "z")]


@pytest.mark.parametrize("server", ["mysql", "mariadb"], indirect=True)
def test_a_change_that_a_killed_run_has_left_in_the_server_is_waited_for(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that the column is seen to be missing, added, and there already."""
    harness.sink().apply(0, [CreateTable(USERS, SCHEMA)])
    reader, left = harness.server.connect(autocommit=False), harness.server.connect()
    try:
        reader.cursor().execute("SELECT * FROM shop.users")  # which an ALTER waits for
        added = Thread(target=left.cursor().execute, args=("ALTER TABLE `shop`.`users` ADD COLUMN age INT",))
        added.start()
        running = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%'"
        wait_for("the ALTER", lambda: harness.server.execute(running))
        monkeypatch.setattr(Context, "waiting", lambda context, text: reader.rollback())
        again = MySqlSink(
            sink_options(harness.server, **{"retry-timeout": "60 s"}), Context("again", LocalStore(tmp_path))
        )
        again.apply(1, [AddColumn(USERS, Column("age", DataType.parse("INT")))])
        added.join()
    finally:
        reader.close()
        left.close()
    described = harness.sink().describe(USERS)
    assert described is not None
    assert described.names == ("id", "name", "age")


@pytest.mark.parametrize("server", ["mariadb"], indirect=True)
def test_a_commit_runs_again_behind_somebody_else_s_change_of_its_rows(harness: Harness) -> None:
    harness.sink().apply(0, [CreateTable(USERS, SCHEMA)])
    harness.server.execute("INSERT INTO shop.users (id, name) VALUES (1, 'a')")
    server = harness.server
    options = ConnectionOptions(
        hostname=server.host, port=server.port, username=server.user, password=server.password, tls_mode="disabled"
    )
    with SinkServer(options, lock_wait_s=5).session() as session:
        session.run("SET innodb_snapshot_isolation = ON")
        session.run("BEGIN")
        session.rows("SELECT name FROM shop.users")
        server.execute("UPDATE shop.users SET name = 'b'")
        with pytest.raises(SinkUnavailable, match="1020"):
            session.run("UPDATE shop.users SET name = 'c'")
    assert by_id(harness) == [(1, "b")]


@pytest.mark.parametrize("lost", ["UPDATE _cdc.commits SET batch = 0", "DELETE FROM _cdc.commits"])
def test_a_server_that_takes_over_without_the_last_batch_gets_no_further_ones(harness: Harness, lost: str) -> None:
    """As a replica that was behind, or a copy that was restored, while the pipeline runs."""
    sink = created(harness.sink(), USERS, SCHEMA)
    for batch in range(2):
        commit(sink, batch, users(("+I", batch, "x")))
    harness.server.execute(f"{lost} WHERE pipeline = '{harness.pipeline}'", "DELETE FROM shop.users WHERE id = 1")
    with pytest.raises(SinkError, match="while 1 was committed"):
        commit(sink, 2, users(("+I", 2, "x")))
    assert by_id(harness) == [(0, "x")]


def test_columns_of_the_table_that_are_not_written_keep_their_values(harness: Harness) -> None:
    """Somebody's own column stays through updates; a generated one is computed."""
    harness.server.execute(
        "CREATE TABLE shop.users (id INT PRIMARY KEY, name VARCHAR(20), note VARCHAR(9) DEFAULT 'new', "
        "size INT GENERATED ALWAYS AS (CHAR_LENGTH(name)) VIRTUAL)"
    )
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a"), ("+I", 2, "bb")))
    harness.server.execute("UPDATE shop.users SET note = 'mine' WHERE id = 1")
    commit(sink, 1, users(("-U", 1, "a"), ("+U", 1, "aaa"), ("-U", 2, "bb"), ("+U", 2, "b")))
    found = harness.server.execute("SELECT id, name, note, size FROM shop.users ORDER BY id")
    assert found == ((1, "aaa", "mine", 3), (2, "b", "new", 1))


def test_a_row_with_the_number_zero_keeps_it(harness: Harness) -> None:
    """An AUTO_INCREMENT column takes 0 for a new number, unless it is told not to."""
    harness.server.execute("CREATE TABLE shop.users (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))")
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 0, "zero"), ("+I", 5, "five")))
    assert by_id(harness) == [(0, "zero"), (5, "five")]


@pytest.mark.parametrize("server", ["mysql", "mariadb"], indirect=True)
def test_an_account_needs_privileges_on_tables_only(harness: Harness) -> None:
    server = harness.server
    server.execute(
        "DROP USER IF EXISTS writer",
        "CREATE USER writer IDENTIFIED BY 'pw'",
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP ON *.* TO writer",
    )
    harness.server = MySqlServer(server.host, server.port, "writer", "pw", server.flavor, server.version)
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    server.execute("SET GLOBAL max_error_count = 0")
    try:
        if server.flavor == "mysql":  # a restricted variable there
            with pytest.raises(SinkError, match=r"Access denied.*SET GLOBAL max_error_count = 1024"):
                commit(harness.sink(), 1, users(("+I", 2, "b")))
        else:
            commit(harness.sink(), 1, users(("+I", 2, "b")))
    finally:
        server.execute("SET GLOBAL max_error_count = DEFAULT")


@pytest.mark.parametrize("names", [("a", "A"), ("é", "e"), ("x", "x ")], ids=["case", "accent", "space"])
def test_keys_that_differ_in_the_source_differ_here(harness: Harness, names: tuple[str, str]) -> None:
    """Whatever the default collation of the server takes for equal."""
    if harness.server.flavor == "oceanbase" and names[1].endswith(" "):
        pytest.skip("OceanBase has no collation that tells trailing spaces apart (docs/mysql-sink.md)")
    schema = TableSchema((NAME, ID), ("name",))
    sink = created(harness.sink(), USERS, schema)
    commit(sink, 0, block(USERS, schema, [("+I", {"id": n, "name": name}) for n, name in enumerate(names)]))
    commit(sink, 1, block(USERS, schema, [("-D", {"id": 1, "name": names[1]})]))
    assert by_id(harness) == [(0, names[0])]


@pytest.mark.parametrize("exact", [False, True])
def test_an_existing_table_whose_key_treats_texts_as_equal_is_reported(
    harness: Harness, caplog: pytest.LogCaptureFixture, exact: bool
) -> None:
    collation = "utf8mb4_bin" if exact else "utf8mb4_general_ci"
    column = f"name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {collation}"
    harness.server.execute(f"CREATE TABLE shop.users ({column}, id INT, PRIMARY KEY (name))")
    created(harness.sink(), USERS, TableSchema((NAME, ID), ("name",)))
    assert ("are one key of this table: name (utf8mb4_general_ci)" in caplog.text) is not exact


@pytest.mark.parametrize("of_the_source", [False, True])
def test_an_existing_table_that_computes_a_column_of_the_source_is_reported(
    harness: Harness, caplog: pytest.LogCaptureFixture, of_the_source: bool
) -> None:
    """Its expression may be another than the source's, or become another; a column that only the sink has is not."""
    harness.server.execute("CREATE TABLE shop.users (id INT PRIMARY KEY, name VARCHAR(20), big BIGINT AS (id * 2))")
    big = (Column("big", DataType.parse("BIGINT")),) if of_the_source else ()
    created(harness.sink(), USERS, TableSchema((ID, NAME, *big), ("id",)))
    assert ("generated columns of this table are computed here, not written: big." in caplog.text) is of_the_source


def test_labels_that_differ_in_case_or_accents_are_labels_here_too(harness: Harness) -> None:
    """The server's collation took them for one, and the table was refused; also where the source adds one later."""
    column = Column("name", DataType.parse("STRING"), source_type="enum('a','A','ä')")
    schema, sink = TableSchema((ID, column), ("id",)), harness.sink()
    sink.apply(0, [CreateTable(USERS, schema)])
    commit(sink, 0, block(USERS, schema, [("+I", {"id": n, "name": name}) for n, name in enumerate("aAä")]))
    other = replace(column, source_type="enum('b')")
    orders = TableId("shop", "orders")
    sink.apply(1, [CreateTable(orders, TableSchema((ID, other), ("id",)))])
    sink.apply(2, [AlterColumnType(orders, replace(other, source_type="enum('b','B')"), other)])
    assert by_id(harness) == [(0, "a"), (1, "A"), (2, "ä")]
    assert "'b','B'" in str(harness.server.execute("SHOW CREATE TABLE shop.orders"))


def test_a_value_that_does_not_fit_stops_the_run_and_leaves_nothing(harness: Harness) -> None:
    """LOAD DATA LOCAL would store 127 and warn."""
    harness.server.execute("CREATE TABLE shop.users (id INT PRIMARY KEY, name VARCHAR(20))")
    sink = created(harness.sink(), USERS, SCHEMA)
    harness.server.execute("ALTER TABLE shop.users MODIFY name VARCHAR(2)")
    handles = prepared(sink, 0, users(("+I", 1, "ok"), ("+I", 2, "too long")))
    with pytest.raises(SinkError, match=r"shop\.users.*name"):
        sink.commit(0, handles)
    assert by_id(harness) == []
    harness.server.execute("ALTER TABLE shop.users MODIFY name VARCHAR(20)")
    harness.sink().commit(0, handles)
    assert by_id(harness) == [(1, "ok"), (2, "too long")]


def test_foreign_keys_neither_stop_rows_nor_delete_others(harness: Harness) -> None:
    """What a cascade did in the source is in its log."""
    harness.server.execute(
        "CREATE TABLE shop.users (id INT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, user INT, FOREIGN KEY (user) REFERENCES shop.users (id) "
        "ON DELETE CASCADE)",
    )
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    harness.server.execute("INSERT INTO shop.orders VALUES (7, 1)")
    commit(sink, 1, users(("-D", 1, "a"), ("+I", 1, "b")))
    commit(sink, 2, users(("-D", 1, "b")))
    assert harness.server.execute("SELECT id, user FROM shop.orders") == ((7, 1),)


def test_every_type_can_be_a_key(harness: Harness) -> None:
    """Rows are found again by their keys: updates and deletes of each."""
    values: dict[str, Any] = {
        "BIGINT UNSIGNED": 2**64 - 1, "DECIMAL(20, 5)": Decimal("-1.50000"), "VARCHAR(30)": "it's \\ \t", "DOUBLE": 0.1,
        "VARBINARY(8)": b"\x00\xff'", "STRING": "x" * 90, "BOOLEAN": True, "BYTES": b"\n",
    }  # fmt: skip
    for number, (text, value) in enumerate(values.items()):
        table = TableId("shop", f"k{number}")
        key = Column("k", DataType.parse(text), nullable=False)
        schema = TableSchema((key, NAME), ("k",))
        sink = harness.sink()
        sink.apply(2 * number, [CreateTable(table, schema)])
        commit(sink, 2 * number, block(table, schema, [("+I", {"k": value, "name": "a"})]))
        assert len(harness.rows(table) or []) == 1, text
        gone = [("-U", {"k": value, "name": "a"}), ("+U", {"k": value, "name": "b"}), ("-D", {"k": value, "name": "b"})]
        commit(sink, 2 * number + 1, block(table, schema, gone))
        assert harness.rows(table) == [], text


NEAR: dict[Column, tuple[Any, Any]] = {
    Column("d", DataType.parse("DECIMAL(20, 0)")): (Decimal(10**19 + 1), Decimal(10**19)),
    Column("f", DataType.parse("FLOAT"), source_type="float(7,3)"): (9999.9990234375, 9999.998046875),
    Column("b", DataType.parse("BINARY(8)"), source_type="bit(64)"): (b"\xff" * 8, b"\xff" * 7 + b"\xfe"),
    Column("v", DataType.parse("VARBINARY(9)")): (b"\0", b""),
    Column("e", DataType.parse("STRING"), source_type="enum('x','y')"): ("x", "y"),
    Column("z", DataType.parse("DOUBLE")): (0.0, -0.0),
    Column("w", DataType.parse("VECTOR(2)")): ([0.0, 1.0], [-0.0, 1.0]),
}
"""Columns with a value that stays and one next to it that goes; the last two are of rows without a key."""


@pytest.mark.parametrize("keyed", [True, False])
def test_a_delete_finds_its_row_and_not_the_one_next_to_it(harness: Harness, keyed: bool) -> None:
    """Values that a server takes for one as doubles, or does not find as they were written."""
    columns = tuple(NEAR)[:-2] if keyed else tuple(NEAR)
    schema = TableSchema(columns, tuple(column.name for column in columns) if keyed else ())
    stays = {column.name: NEAR[column][0] for column in columns}
    gone = [stays | {column.name: NEAR[column][1]} for column in columns]
    sink = created(harness.sink(), USERS, schema)
    commit(sink, 0, block(USERS, schema, [("+I", row) for row in (stays, *gone)]))
    commit(sink, 1, block(USERS, schema, [("-D", row) for row in gone]))
    zero = "1" if keyed else "z"
    found = harness.server.execute(f"SELECT CAST({zero} AS CHAR), d, f * 1e0, HEX(b), HEX(v), e FROM shop.users")
    assert found == (("1" if keyed else "0", 10**19 + 1, 9999.9990234375, "F" * 16, "00", "x"),)


def test_a_source_s_own_type_is_repeated(harness: Harness) -> None:
    """MySQL to MySQL is one to one."""
    own = {"a": "mediumint unsigned", "b": "enum('x','y''z')", "c": "set('a','b')", "d": "bit(12)", "e": "year"}
    own["f"] = spelled(MySqlColumn("f", "varbinary", 0))
    kinds = {"a": "INT UNSIGNED", "b": "STRING", "c": "STRING", "d": "BINARY(2)", "e": "INT", "f": "VARBINARY(0)"}
    columns = [Column(name, DataType.parse(kinds[name]), source_type=text) for name, text in own.items()]
    columns.append(Column("g", DataType.parse("CHAR(0)")))
    schema = TableSchema((ID, *columns), ("id",))
    sink = created(harness.sink(), USERS, schema)
    row = {"id": 1, "a": 2**24 - 1, "b": "y'z", "c": "a,b", "d": b"\x0f\x01", "e": 2024, "f": b"", "g": ""}
    commit(sink, 0, block(USERS, schema, [("+I", row)]))
    found = harness.server.execute("SELECT a, b, c, HEX(d), e FROM shop.users")
    assert found == ((2**24 - 1, "y'z", "a,b", "F01", 2024),)
    types = harness.server.execute(
        "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'shop' AND TABLE_NAME = 'users' "
        "AND COLUMN_NAME NOT IN ('a', 'e', 'id') ORDER BY COLUMN_NAME"
    )
    shown = own["b"] if harness.server.flavor != "oceanbase" else own["b"].replace("''", "'")  # its own way to show it
    assert [str(text) for (text,) in types] == [shown, own["c"], own["d"], "varbinary(0)", "char(0)"]


EDGES: tuple[tuple[str, Column, Any], ...] = (
    ("a", Column("a", DataType.parse("INT"), source_type="year"), 0),
    ("b", Column("b", DataType.parse("FLOAT")), 3.4028234663852886e38),
    ("c", Column("c", DataType.parse("STRING"), source_type="enum('x\\\\y','it''s','n\\n')"), "x\\y"),
    ("d", Column("d", DataType.parse("STRING"), source_type="set('x\\\\y','%s')"), "x\\y,%s"),
    (
        "e",
        Column("e", DataType.parse("VARCHAR(60000)"), source_type="varchar(60000)", charset="latin1"),
        "\xe9" * 60000,
    ),
    ("f", Column("f", DataType.parse("STRING"), source_type="tinytext", charset="latin1"), "\xe9" * 255),
)


@pytest.mark.parametrize("local_files", ["ON", "OFF"])
def test_values_at_the_edge_of_their_types_arrive(harness: Harness, local_files: str) -> None:
    """By LOAD DATA and by INSERT; a start finds the table as it made it."""
    if harness.server.flavor == "oceanbase" and local_files == "ON":
        pytest.skip("OceanBase has rows by INSERT alone")
    schema = TableSchema((ID, *(column for _, column, _ in EDGES)), ("id",))
    sink = created(harness.sink(), USERS, schema)
    row = {"id": 1, **{name: value for name, _, value in EDGES}}
    harness.server.execute(*([f"SET GLOBAL local_infile = {local_files}"] * (harness.server.flavor != "oceanbase")))
    try:
        commit(sink, 0, block(USERS, schema, [("+I", row)]))
    finally:
        harness.server.execute(*(["SET GLOBAL local_infile = ON"] * (harness.server.flavor != "oceanbase")))
    (found,) = harness.server.execute("SELECT id, a, CAST(b AS DOUBLE), c, d, e, f FROM shop.users")
    assert found == tuple(row.values())
    assert list(harness.sink().plan_text([CreateTable(USERS, schema)])) == []


def test_a_row_that_is_too_long_in_utf8mb4_has_texts(harness: Harness) -> None:
    """Of a source in latin1. Also of a column that is added or gets longer; a start finds the table as it made it."""
    sizes = [10, 5000, 8000, 4000]
    columns = [Column(f"c{size}", DataType.parse(f"VARCHAR({size})"), source_type=f"varchar({size})") for size in sizes]
    wide = TableSchema((ID, *columns), ("id",))
    more = Column("more", DataType.parse("VARCHAR(9000)"))
    longer = Column("c10", DataType.parse("VARCHAR(12000)"), source_type="varchar(12000)")
    longest = replace(columns[2], type=DataType.parse("VARCHAR(8001)"), source_type="varchar(8001)")
    changes = [AddColumn(USERS, more), AlterColumnType(USERS, longer, columns[0])]
    sink = created(harness.sink(), USERS, wide)
    commit(sink, 0, block(USERS, wide, [("+I", {"id": 1, **{f"c{size}": "\xe9" * size for size in sizes}})]))
    sink.apply(1, changes)
    lengths = "SELECT LENGTH(c10), LENGTH(c5000), LENGTH(c8000), LENGTH(c4000) FROM shop.users"
    if harness.server.flavor != "oceanbase":  # a text has no default: rows that are there would not get it
        with pytest.raises(ChangeRefused, match="1118") as refused:
            sink.apply(2, [AddColumn(USERS, replace(more, name="most", default="x"))])
        assert refused.value.resnapshot_helps
        key = TableSchema((Column("k", DataType.parse("VARCHAR(769)"), nullable=False),), ("k",))
        with pytest.raises(ChangeRefused, match=r"1071.*its key in another character set"):
            sink.apply(2, [CreateTable(TableId("shop", "keys"), key)])
    assert harness.server.execute(lengths) == (tuple(2 * size for size in sizes),)
    kept = TableSchema((ID, longer, *columns[1:], more), ("id",))
    assert list(harness.sink().plan_text([CreateTable(USERS, kept)])) == []
    if harness.server.flavor != "oceanbase":
        assert list(harness.sink().plan_text([AlterColumnType(USERS, longest, columns[2])])) == []


def test_a_table_with_a_default_of_bytes_is_read_again(harness: Harness) -> None:
    """OceanBase shows them as they are, which is no text."""
    raw = Column("raw", DataType.parse("VARBINARY(9)"), default="0x64981F", source_type="varbinary(9)")
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    sink.apply(1, [AddColumn(USERS, raw)])
    harness.sink().apply(2, [AddColumn(USERS, Column("more", DataType.parse("INT")))])
    assert harness.server.execute("SELECT HEX(raw), more FROM shop.users") == (("64981F", None),)


def test_a_server_that_takes_small_packets_gets_them(harness: Harness) -> None:
    """It ends the session at a larger one, also within LOAD DATA."""
    if harness.server.flavor == "oceanbase":
        pytest.skip("its packets are those of a tenant")
    schema = TableSchema((ID, Column("t", DataType.parse("STRING"))), ("id",))
    sink = created(harness.sink(), USERS, schema)
    ((before,),) = harness.server.execute("SELECT @@GLOBAL.max_allowed_packet")
    harness.server.execute("SET GLOBAL max_allowed_packet = 65536")
    try:
        commit(sink, 0, block(USERS, schema, [("+I", {"id": number, "t": "x" * 1000}) for number in range(200)]))
        harness.server.execute("SET GLOBAL max_allowed_packet = 16384")
        with pytest.raises(SinkError, match="is 16,384 bytes, which leaves no room for rows"):
            commit(sink, 1, block(USERS, schema, [("+I", {"id": 200, "t": "x"})]))
    finally:
        harness.server.execute(f"SET GLOBAL max_allowed_packet = {before}")
    assert harness.server.execute("SELECT COUNT(*) FROM shop.users") == ((200,),)


RETYPED: tuple[tuple[str, str, str, str, Any], ...] = (
    ("STRING", "enum('a','b')", "enum('b','a','it''s')", "enum('b','a','it''s')", "it's"),
    ("STRING", "enum('a','b')", "enum('c')", "enum('a','b','c')", "c"),
    ("STRING", "set('x')", "set('x','y')", "set('x','y')", "x,y"),
    ("STRING", "set('x','y')", "set('y','x')", "set('y','x')", "y,x"),
    ("STRING", "enum('p')", "text", "text", "any"),
    ("STRING", "tinytext", "text", "text", "x" * 300),
    ("STRING", "longtext", "enum('u')", "longtext", "u"),
    ("BYTES", "blob", "mediumblob", "mediumblob", b"x" * 70_000),
    ("INT", "mediumint", "int", "int", 1 << 30),
    ("INT", "year", "int", "int", 99_999),
    ("DOUBLE", "double(7,3)", "double", "double", 0.00001),
    ("DOUBLE", "double unsigned", "double", "double", -0.5),
    ("DECIMAL(9, 2)", "decimal(9,2) unsigned", "decimal(9,2)", "decimal(9,2)", Decimal("-1.50")),
)


def test_another_type_of_the_source_that_is_the_same_here(harness: Harness) -> None:
    """A label more, a longer text: without them the next row would be refused. Labels that are gone there stay."""
    if harness.server.flavor == "oceanbase":
        pytest.skip("it shows some of these types otherwise")
    names = [f"c{number}" for number in range(len(RETYPED))]
    before, after = (
        [
            Column(name, DataType.parse(kind), source_type=texts[place])
            for name, (kind, *texts, _) in zip(names, RETYPED, strict=True)
        ]
        for place in (0, 1)
    )
    new = TableSchema((ID, *after), ("id",))
    changes = diff(Table(USERS, TableSchema((ID, *before), ("id",))), Table(USERS, new))
    sink = harness.sink()
    sink.apply(0, [CreateTable(USERS, TableSchema((ID, *before), ("id",)))])
    commit(sink, 0, block(USERS, TableSchema((ID, *before), ("id",)), [("+I", {"id": 1, "c0": "a", "c1": "b"})]))
    sink.apply(1, changes)
    row = {"id": 2, **{name: value for name, (*_, value) in zip(names, RETYPED, strict=True)}}
    commit(sink, 1, block(USERS, new, [("+I", row)]))
    assert harness.server.execute("SELECT * FROM shop.users WHERE id = 2") == (tuple(row.values()),)
    shown = "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'shop' ORDER BY ORDINAL_POSITION"
    types = [re.sub(r"^int\(\d+\)", "int", str(text)) for (text,) in harness.server.execute(shown)]
    assert types == ["int", *(wanted for _, _, _, wanted, _ in RETYPED)]
    assert list(harness.sink().plan_text(changes)) == []


def test_a_longer_bit_is_no_bytes(harness: Harness) -> None:
    """`WHERE flags & 1` found nothing in a BINARY column."""
    short = Column("flags", DataType.parse("BINARY(1)"), source_type="bit(5)")
    long = Column("flags", DataType.parse("BINARY(2)"), source_type="bit(12)")
    sink = created(harness.sink(), USERS, TableSchema((ID, short), ("id",)))
    commit(sink, 0, block(USERS, TableSchema((ID, short), ("id",)), [("+I", {"id": 1, "flags": b"\x15"})]))
    changes = [AlterColumnType(USERS, long, short, keeps=True)]
    sink.apply(1, changes)
    commit(sink, 1, block(USERS, TableSchema((ID, long), ("id",)), [("+I", {"id": 2, "flags": b"\x0f\xfe"})]))
    assert harness.server.execute("SELECT flags + 0 FROM shop.users ORDER BY id") == ((0x15,), (0xFFE,))
    assert list(harness.sink().plan_text(changes)) == []


def test_a_number_that_becomes_a_bit_is_no_bytes(harness: Harness) -> None:
    number = Column("flags", DataType.parse("INT"), source_type="int")
    bits = Column("flags", DataType.parse("BINARY(2)"), source_type="bit(12)")
    sink = created(harness.sink(), USERS, TableSchema((ID, number), ("id",)))
    sink.apply(0, [AlterColumnType(USERS, bits, number)])
    commit(sink, 0, block(USERS, TableSchema((ID, bits), ("id",)), [("+I", {"id": 1, "flags": b"\x0f\xfe"})]))
    assert harness.server.execute("SELECT flags + 0 FROM shop.users") == ((0xFFE,),)


SHARDS = (  # types of one table and of the other, the first one's value and as it is read later, another value, type
    ("INT", "year", "SMALLINT", "smallint", 0, 0, 70, "int"),
    ("INT", "year", "STRING", "text", 0, "0", "x", "longtext"),
    ("STRING", "enum('a')", "STRING", "enum('b')", "a", "a", "b", "longtext"),
    ("STRING", "set('a')", "INT", "int", "a", "a", "1", "longtext"),
    ("DOUBLE", "double(7,3)", "FLOAT", "float", 0.5, 0.5, 0.0625, "double"),
    ("BINARY(2)", "bit(9)", "BINARY(2)", "bit(16)", b"\x01\xff", b"\x01\xff", b"\xff\xff", "bit(16)"),
    ("BINARY(2)", "bit(9)", "BINARY(2)", "binary(2)", b"\x01\xff", b"\x01\xff", b"\xff\xff", "bit(16)"),
    ("BINARY(2)", "bit(9)", "BINARY(3)", "binary(3)", b"\x00\x07", b"\x00\x07", b"abc", "varbinary(3)"),
)


def test_a_column_of_a_merged_table_holds_values_of_the_own_types_of_both(harness: Harness) -> None:
    """The first table's own type may be narrower than its type here; a YEAR 0 is `0000` where the server casts it."""
    if harness.server.flavor == "oceanbase":
        pytest.skip("it shows some of these types otherwise")
    names = [f"c{number}" for number in range(len(SHARDS))]
    one, other = (
        TableSchema(
            (
                ID,
                *(
                    Column(n, DataType.parse(row[at]), source_type=row[at + 1])
                    for n, row in zip(names, SHARDS, strict=True)
                ),
            ),
            ("id",),
        )
        for at in (0, 2)
    )
    merged = merge_schemas(one, other)
    sink = created(harness.sink(), USERS, one)
    commit(sink, 0, block(USERS, one, [("+I", {"id": 1, **{n: row[4] for n, row in zip(names, SHARDS, strict=True)}})]))
    changes = [replace(each, keeps=True) for each in widening(USERS, one, merged) if isinstance(each, AlterColumnType)]
    sink.apply(1, changes)
    commit(
        sink, 1, block(USERS, merged, [("+I", {"id": 2, **{n: row[6] for n, row in zip(names, SHARDS, strict=True)}})])
    )
    found = harness.server.execute("SELECT * FROM shop.users ORDER BY id")
    assert found == ((1, *(row[5] for row in SHARDS)), (2, *(row[6] for row in SHARDS)))
    shown = "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'shop' ORDER BY ORDINAL_POSITION"
    types = [re.sub(r"^int\(\d+\)", "int", str(text)) for (text,) in harness.server.execute(shown)]
    assert types == ["int", *(row[7] for row in SHARDS)]
    assert list(harness.sink().plan_text(changes)) == []


def test_a_number_with_few_digits_is_the_same_in_a_wider_column(harness: Harness) -> None:
    """FLOAT 0.1 in a column that somebody made DOUBLE is what the servers make of it when they widen a column."""
    schema = TableSchema((ID, Column("n", DataType.parse("FLOAT"))), ("id",))
    harness.server.execute("CREATE TABLE shop.users (id INT PRIMARY KEY, n DOUBLE)")
    sink = created(harness.sink(), USERS, schema)
    value = struct.unpack("f", struct.pack("f", 0.1))[0]
    commit(sink, 0, block(USERS, schema, [("+I", {"id": 1, "n": value})]))
    assert harness.server.execute("SELECT n FROM shop.users") == ((value,),)


def test_changes_that_are_carried_out_already_come_to_nothing(harness: Harness) -> None:
    """A restart tells of every table again."""
    wide = Column("name", DataType.parse("VARCHAR(40)"))
    added = Column("qty", DataType.parse("BIGINT"), default="7")
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    changes = [AddColumn(USERS, added), AlterColumnType(USERS, wide, NAME)]
    assert len(list(sink.plan_text(changes))) == 2
    sink.apply(1, changes)
    assert harness.server.execute("SELECT id, name, qty FROM shop.users") == ((1, "a", 7),)
    expected = TableSchema((ID, wide, added), ("id",))
    assert list(harness.sink().plan_text([CreateTable(USERS, expected)])) == []


def test_rows_get_the_default_of_an_added_text(harness: Harness) -> None:
    """It has to be an expression there; rows had NULL, which later changes did not meet."""
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    note = Column("note", DataType.parse("STRING"), default="it's", source_type="tinytext", comment="c")
    if harness.server.flavor == "oceanbase":
        with pytest.raises(ChangeRefused, match="Invalid default value for 'note'"):
            sink.apply(1, [AddColumn(USERS, note)])
        return
    sink.apply(1, [AddColumn(USERS, note)])
    assert harness.server.execute("SELECT note FROM shop.users") == (("it's",),)
    assert list(harness.sink().plan_text([AddColumn(USERS, note)]) or ()) == []


def test_a_change_of_type_that_is_copied_leaves_the_column_empty(harness: Harness) -> None:
    """The copy brings the values; `CAST(NULL AS longtext)` is no statement here, and the change was refused."""
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    text = Column("name", DataType.parse("STRING"))
    sink.apply(1, [AlterColumnType(USERS, text, NAME, copied=True)])
    assert by_id(harness) == [(1, None)]


@pytest.mark.parametrize("server", ["oceanbase"], indirect=True)
def test_json_becomes_text_in_oceanbase_too(harness: Harness) -> None:
    """It cannot change the type in place: a merged table, which is not re-snapshotted for that, stopped the run."""
    json, text = (Column("v", DataType.parse(kind)) for kind in ("JSON", "STRING"))
    schema = TableSchema((ID, json), ("id",))
    sink = created(harness.sink(), USERS, schema)
    commit(sink, 0, block(USERS, schema, [("+I", {"id": 1, "v": '{"a": [1, 2.5]}'}), ("+I", {"id": 2, "v": None})]))
    sink.apply(1, [AlterColumnType(USERS, text, json, keeps=True)])
    commit(sink, 1, block(USERS, TableSchema((ID, text), ("id",)), [("+I", {"id": 3, "v": "x"})]))
    found = harness.server.execute("SELECT id, v FROM shop.users ORDER BY id")
    assert found == ((1, '{"a": [1, 2.5]}'), (2, None), (3, "x"))


def test_another_key_leaves_what_somebody_has_added_to_the_table(harness: Harness) -> None:
    """Indexes, generated columns and values of columns that are not the source's; a copy has none of them."""
    harness.server.execute(
        "CREATE TABLE shop.users (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40), "
        "own INT NOT NULL DEFAULT 7, next_own INT AS (own + 1), KEY by_name (name))"
    )
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a"), ("+I", 2, "b")))
    harness.server.execute("UPDATE shop.users SET own = 8 WHERE id = 2")
    sink.apply(1, [AlterPrimaryKey(USERS, ("name", "id")), AlterPrimaryKey(USERS, ("name",))])
    there = harness.server.execute("SELECT id, name, own, next_own FROM shop.users ORDER BY name")
    definition = harness.server.execute("SHOW CREATE TABLE shop.users")[0][1]
    if harness.server.flavor != "oceanbase":  # it cannot change a key in place
        assert there == ((1, "a", 7, 8), (2, "b", 8, 9))
        assert "KEY `by_name`" in definition
    assert "PRIMARY KEY (`name`)" in definition
    sink.apply(2, [DropColumn(USERS, "name")])
    assert harness.server.execute("SELECT id FROM shop.users ORDER BY id") == ((1,), (2,))
    assert "PRIMARY KEY" not in harness.server.execute("SHOW CREATE TABLE shop.users")[0][1]


def test_texts_of_any_length_as_a_key_are_expected_again(harness: Harness) -> None:
    """Columns of such a key share the room of an index, which a restart takes for what it is."""
    parts = [Column(name, DataType.parse("STRING"), nullable=False) for name in ("k", "l")]
    schema = TableSchema((*parts, NAME), ("k", "l"))
    sink = created(harness.sink(), USERS, schema)
    commit(sink, 0, block(USERS, schema, [("+I", {"k": "a" * 300, "l": "b" * 300, "name": "n"})]))
    assert list(harness.sink().plan_text([CreateTable(USERS, schema)]) or ()) == []


@pytest.mark.parametrize("made", ["altered", "another key", "widened"])
def test_a_key_that_becomes_text_tells_rows_apart_as_a_new_one_does(harness: Harness, made: str) -> None:
    """Also where its parts share the room of an index."""
    kind = DataType.parse("STRING" if made == "widened" else "VARCHAR(40)")
    text, n = Column("name", kind, nullable=False), Column("name", DataType.parse("INT"), nullable=False)
    new = TableSchema((ID, text), ("name", "id"))
    old = replace(new, primary_key=("id",)) if made == "another key" else replace(new, columns=(ID, n))
    sink = created(harness.sink(), USERS, old)
    change = AlterColumnType(USERS, text, n, keeps=made == "widened")
    changes = [AlterPrimaryKey(USERS, ("name", "id")) if made == "another key" else change]
    sink.apply(1, changes)
    assert list(harness.sink().plan_text(changes) or ()) == []
    rows = [{"id": 1, "name": "a"}, {"id": 1, "name": "A"}]
    commit(sink, 1, block(USERS, new, [("+I", row) for row in rows]))
    assert sorted(name for _, name in by_id(harness)) == ["A", "a"]
    commit(sink, 2, block(USERS, new, [("-D", rows[0])]))
    assert by_id(harness) == [(1, "A")]


def test_a_commit_runs_no_ddl(harness: Harness) -> None:
    """The table of batches is made once; a server logs each CREATE, whatever it does."""
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    count = "SHOW GLOBAL STATUS LIKE 'Com_create_table'"
    if not (before := harness.server.execute(count)):
        pytest.skip("OceanBase counts no statements")
    commit(sink, 1, users(("+I", 2, "b")))
    assert harness.server.execute(count) == before


def test_a_table_moves_to_another_database(harness: Harness) -> None:
    """With its rows."""
    harness.server.execute("DROP DATABASE IF EXISTS archive")
    sink = created(harness.sink(), USERS, SCHEMA)
    commit(sink, 0, users(("+I", 1, "a")))
    harness.server.execute("CREATE INDEX by_name ON shop.users (name)")
    sink.apply(1, [RenameTable(USERS, TableId("archive", "users"))])
    assert "by_name" in harness.server.execute("SHOW CREATE TABLE archive.users")[0][1]
    assert harness.rows(USERS) is None
    assert harness.rows(TableId("archive", "users")) == [{"id": 1, "name": "a"}]


def test_the_server_is_asked_for_no_file_of_ours(harness: Harness) -> None:
    """The driver refuses to send a file, whatever statement a server answers with a request for one."""
    with harness.sink()._server.session() as session:
        assert session.connection._local_infile is False  # type: ignore[attr-defined]


@pytest.fixture
def dying() -> Iterator[list[str]]:
    """Points of a commit at which the server is to be killed; the hook takes the first."""
    before = faults.hook
    yield []
    faults.hook = before


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("reached", [False, True], ids=["before-commit", "after-commit"])
def test_a_server_that_is_killed_has_all_of_a_batch_or_nothing(
    flavor: str, reached: bool, server_factory: ServerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And committing again is right in both cases."""
    server: StartedServer = server_factory(
        flavor, ["--local-infile=ON", "--innodb-flush-log-at-trx-commit=1", "--skip-log-bin"]
    )
    harness = Harness(server, tmp_path)
    sink = harness.sink()
    other = TableId("shop", "other")
    sink.apply(0, [CreateTable(USERS, SCHEMA), CreateTable(other, SCHEMA)])
    commit(sink, 0, users(("+I", 1, "a")))
    both = [users(("-U", 1, "a"), ("+U", 1, "b")), block(other, SCHEMA, [("+I", {"id": 1, "name": "o"})])]
    handles = prepared(sink, 1, *both)
    if not reached:
        monkeypatch.setattr(faults, "hook", lambda point, _: server.kill9() if point == "mid-commit" else None)
        with pytest.raises((SinkUnavailable, SinkError)):
            sink.commit(1, handles)
    else:
        sink.commit(1, handles)
        server.kill9()
    monkeypatch.undo()
    server.start()
    assert by_id(harness) == ([(1, "b")] if reached else [(1, "a")])
    assert harness.sink().last_committed_batch() == (1 if reached else 0)
    if not reached:
        harness.sink().commit(1, handles)
    assert by_id(harness) == [(1, "b")]
    assert harness.rows(other) == [{"id": 1, "name": "o"}]


def by_id(harness: Harness) -> list[tuple[int, str]]:
    """Rows of `users` in order."""
    return sorted((row["id"], row["name"]) for row in harness.rows(USERS) or [])


def test_a_table_that_was_made_like_the_source_s_stays_so(harness: Harness) -> None:
    """With indexes, NOT NULL, defaults, generated columns and AUTO_INCREMENT, whatever is written to it."""
    harness.server.execute(
        "CREATE TABLE shop.users (id INT NOT NULL AUTO_INCREMENT, name VARCHAR(20) NOT NULL DEFAULT 'none', qty INT, "
        "big BIGINT GENERATED ALWAYS AS (qty * 2) STORED, PRIMARY KEY (id), UNIQUE KEY one (name, qty), KEY k (qty)) "
        "COMMENT = 'those of the shop'"
    )
    shown = "SHOW CREATE TABLE shop.users"
    before = harness.server.execute(shown)
    qty, big = Column("qty", DataType.parse("INT")), Column("big", DataType.parse("BIGINT"))
    schema = TableSchema((ID, NAME, qty, big), ("id",), "those of the shop")
    sink = created(harness.sink(), USERS, schema)
    rows = [{"id": 0, "name": name, "qty": qty, "big": qty * 2} for name, qty in (("a", 1), ("b", 2))]
    changes = [("+I", rows[0]), ("-U", rows[0]), ("+U", rows[1] | {"id": 0}), ("+I", rows[0] | {"id": 1})]
    commit(sink, 0, block(USERS, schema, changes))
    assert harness.server.execute("SELECT * FROM shop.users ORDER BY id") == ((0, "b", 2, 4), (1, "a", 1, 2))
    after = re.sub(r" AUTO_INCREMENT ?= ?\d+", "", str(harness.server.execute(shown)))
    assert after == re.sub(r" AUTO_INCREMENT ?= ?\d+", "", str(before))
