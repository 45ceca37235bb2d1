"""Definitions out of TABLE_MAP metadata, held against the server's own information_schema."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cdc.errors import SchemaUnknown
from cdc.schema import TableId
from cdc_services.server import MySqlServer
from connectors.mysql import events
from connectors.mysql.log.stream import BinlogStream, EndOfLog
from connectors.mysql.rows.column_plan import plan_table
from connectors.mysql.rows.definition_check import IMPLICIT_KEY
from connectors.mysql.rows.described import described
from connectors.mysql.rows.table_map import parse_table_map
from connectors.mysql.server.connection import ConnectionOptions, connect
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.server.server_info import server_info
from connectors.mysql.table import MySqlColumn, MySqlTable

pytestmark = pytest.mark.mysql

COLUMNS = """
    id bigint unsigned not null, part char(3) not null, a tinyint, b smallint unsigned, c mediumint, d int not null,
    e decimal(12,4), f decimal(65,30) unsigned, g float, h double, i bit(11), j year, k date, l time(3), m datetime(6),
    n timestamp(2) null, o char(10), p varchar(100), q varchar(50) character set latin1, r text, s tinytext, t longtext,
    u binary(5), v varbinary(50), w blob, x mediumblob, y enum('red','gr\u00fcn','a,b'), z set('x','y'),
    za enum('中文','x') character set gbk, zb set('é','y') character set latin1,
    aa point, ab geometry, ac polygon, primary key (part, id)
"""


@pytest.fixture
def chunk_of(any_server: MySqlServer):
    """Runs statements and gives the TABLE_MAP bodies they logged, and what the server says of the tables."""

    def run(database: str, *statements: str) -> tuple[list[bytes], dict[TableId, MySqlTable]]:
        server = any_server
        options = ConnectionOptions(
            hostname=server.host, port=server.port, username=server.user, password=server.password
        )
        session = server.connect(database=database)
        before = connect(options)
        info = server_info(before)
        before.close()
        with session.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.binlog_row_metadata")
            metadata = cursor.fetchone()[0]
            cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")
            try:
                for statement in statements:
                    cursor.execute(statement)
            finally:
                cursor.execute(f"SET GLOBAL binlog_row_metadata = '{metadata}'")
        session.close()
        stream = BinlogStream(
            connect(options), server_id=990_777, file=info.file, position=info.position, until_end=True
        )
        bodies = []
        try:
            while True:
                chunk = stream.read(30.0)
                assert chunk is not None
                bodies += [chunk.body(int(i))[6:] for i in np.flatnonzero(chunk.type == events.TABLE_MAP)]
        except EndOfLog:
            stream.close()
        reader = connect(options)
        tables = read_tables(reader, lambda table: table.database == database)
        reader.close()
        return bodies, tables

    return run


def bare(column: MySqlColumn) -> MySqlColumn:
    """Without what the event does not carry, or says differently for the same thing."""
    length = (
        None
        if column.type in ("year", "float", "double", "tinyint", "smallint", "mediumint", "int", "bigint")
        else column.length
    )
    if column.type in ("time", "datetime", "timestamp"):
        length = column.length or 0
    return replace(column, default=None, comment="", generated=False, length=length)


def test_every_type_is_described_as_the_server_defines_it(any_server: MySqlServer, chunk_of) -> None:
    database = any_server.new_database()
    vector = ", ad vector(3)" if any_server.flavor == "mysql" else ""
    json = ", ae json" if any_server.flavor == "mysql" else ""
    create = f"CREATE TABLE every ({COLUMNS.rsplit(', primary', 1)[0]}{vector}{json}, primary key (part, id))"
    bodies, tables = chunk_of(database, create, "INSERT INTO every (id, part, d) VALUES (1, 'a', 2)")
    [body] = bodies
    found = described(body, "here")
    expected = tables[TableId(database, "every")]
    assert found is not None
    assert found.primary_key == expected.primary_key
    assert [bare(column) for column in found.columns] == [bare(column) for column in expected.columns]


def test_hidden_columns_of_long_unique_keys_are_no_columns(any_server: MySqlServer, chunk_of) -> None:
    database = any_server.new_database()
    unique = ", UNIQUE (url)" if any_server.flavor == "mariadb" else ""
    create = f"CREATE TABLE every (DB_ROW_HASH_1 INT, url TEXT{unique})"
    [body], _ = chunk_of(database, create, "INSERT INTO every VALUES (1, 'x')")
    found = described(body, "here")
    assert found is not None
    assert [column.name for column in found.columns] == ["DB_ROW_HASH_1", "url"]


def test_the_hidden_key_of_a_cloud_server_is_no_column(any_server: MySqlServer, chunk_of) -> None:
    """Its rows are read with the definition that the server shows, which lacks it."""
    database = any_server.new_database()
    create = f"CREATE TABLE t (a INT, b VARCHAR(9), `{IMPLICIT_KEY}` BIGINT PRIMARY KEY)"
    [body], tables = chunk_of(database, create, "INSERT INTO t VALUES (1, 'x', 2)")
    found, shown = described(body, "here"), tables[TableId(database, "t")]
    assert found is not None
    assert ([column.name for column in found.columns], found.primary_key) == (["a", "b"], ())
    shown = replace(shown, columns=shown.columns[:-1], primary_key=())
    announced = parse_table_map(body, "here")
    plan = plan_table(shown, announced, (None, "utf8mb4"), where="here")
    assert (plan.schema.names, len(plan.numbers)) == (("a", "b"), 3)
    with pytest.raises(SchemaUnknown, match="rows have 3 columns, the known definition has 2") as raised:
        plan_table(shown, replace(announced, names=()), (None, "utf8mb4"), where="here")
    assert "Alibaba Cloud" in str(raised.value.hint)


def test_without_column_names_there_is_no_definition(any_server: MySqlServer) -> None:
    body = (
        b"\1\0" + b"\1d\0" + b"\1t\0" + b"\1" + bytes([3]) + b"\0" + b"\0"
    )  # flags, names, one INT column, no metadata, not null
    assert described(body, "here") is None
