"""The MySQL port: what CREATE and ALTER refuse, and how; schema-change jobs, what the catalog shows, users.

For the exhaustive tier, as nothing of it is the product's: the sinks' own statements are carried out in `make test`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest
from starrocks_servers import StarRocksServer

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow]  # hundreds of statements
KEYED = (
    "CREATE TABLE {}.t (id INT NOT NULL, k VARCHAR(5) NOT NULL, v INT, s VARCHAR(5) DEFAULT 'x', "
    "de DECIMAL(8,2), j JSON, n INT NOT NULL DEFAULT '1') PRIMARY KEY(id, k)"
)


@pytest.fixture(scope="module")
def untouched(starrocks: StarRocksServer) -> Iterator[str]:
    """A database with a table `t`, for statements that change nothing."""
    name = starrocks.new_database()
    starrocks.query(KEYED.format(name))
    yield name
    starrocks.query(f"DROP DATABASE {name} FORCE")


@pytest.fixture
def database(starrocks: StarRocksServer) -> Iterator[str]:
    name = starrocks.new_database()
    yield name
    starrocks.query(f"DROP DATABASE {name} FORCE")


REFUSED = [
    ("v INT, id INT NOT NULL) PRIMARY KEY(id)", "Key columns should be a ordered prefix of the schema"),
    ("a INT NOT NULL, b INT NOT NULL) PRIMARY KEY(b, a)", "Key columns should be a ordered prefix of the schema"),
    ("a INT) PRIMARY KEY(x)", "Key column(x) doesn't exist."),
    ("a CHAR(3) NOT NULL) PRIMARY KEY(a)", "primary key column[a] type not supported: CHAR"),
    ("a DECIMAL(9,2) NOT NULL) PRIMARY KEY(a)", "primary key column[a] type not supported: DECIMAL"),
    ("a DOUBLE NOT NULL) PRIMARY KEY(a)", "primary key column[a] type not supported: DOUBLE"),
    ("a JSON NOT NULL) PRIMARY KEY(a)", "primary key column[a] type not supported: JSON"),
    ("a VARBINARY NOT NULL) PRIMARY KEY(a)", "primary key column[a] type not supported: VARBINARY"),
    ("a INT NOT NULL) PRIMARY KEY(a) DISTRIBUTED BY RANDOM", "must use hash distribution"),
    ("a INT NOT NULL, b INT) PRIMARY KEY(a) DISTRIBUTED BY HASH(b)", "not key column"),
    ("a INT NOT NULL, __op INT) PRIMARY KEY(a)", "Column name '__op' is reserved for primary key table"),
    ("a INT, A INT) DUPLICATE KEY(a)", "Duplicate column name"),
    ("a FLOAT) DUPLICATE KEY(a)", "Invalid data type of key column"),
    ("a VARCHAR(1048577)) DUPLICATE KEY(a)", "1048576"),
    ("a CHAR(256)) DUPLICATE KEY(a)", "255"),
    ("a INT, b DECIMAL(39,0)) DUPLICATE KEY(a)", "DECIMAL's precision should range from 1 to 38"),
    ("a INT, b DATETIME(3)) DUPLICATE KEY(a)", ""),
    ("a INT UNSIGNED) DUPLICATE KEY(a)", "syntax error"),
    ("a TIME) DUPLICATE KEY(a)", ""),
    ("a BLOB) DUPLICATE KEY(a)", ""),
    ("a INT DEFAULT 0) DUPLICATE KEY(a)", "syntax error"),
    ("a INT DEFAULT 'x') DUPLICATE KEY(a)", "Invalid default value for 'a'"),
    ("a INT, b VARCHAR(2) DEFAULT 'abc') DUPLICATE KEY(a)", "Invalid default value for 'b'"),
    ("a INT COMMENT 'c' NOT NULL) DUPLICATE KEY(a)", "syntax error"),
    ("a INT) DUPLICATE KEY(a) DISTRIBUTED BY HASH(a) BUCKETS 0", ""),
    ("a INT) DUPLICATE KEY(a) PROPERTIES('colour' = 'red')", "Unknown properties"),
    ("a INT) DUPLICATE KEY(a) PROPERTIES('replication_num' = '9')", "available BE nodes"),
    ("a INT) DISTRIBUTED BY HASH(a) DUPLICATE KEY(a)", "syntax error"),
]


@pytest.mark.parametrize(("definition", "message"), REFUSED, ids=lambda text: text[:40])
def test_tables_that_cannot_be_made(starrocks: StarRocksServer, untouched: str, definition: str, message: str) -> None:
    assert message in starrocks.refused(f"CREATE TABLE {untouched}.u ({definition}")
    assert starrocks.query(f"SHOW TABLES FROM {untouched}") == [("t",)]


def test_names_that_do_not_exist_or_do_already(starrocks: StarRocksServer, database: str) -> None:
    starrocks.query(f"CREATE TABLE {database}.t (a INT) DUPLICATE KEY(a)")
    starrocks.query(f"CREATE TABLE IF NOT EXISTS {database}.t (b INT) DUPLICATE KEY(b)")
    for sql, codes in (
        (f"CREATE TABLE {database}.t (a INT) DUPLICATE KEY(a)", (1050,)),
        (f"CREATE DATABASE {database}", (1007,)),
        ("CREATE TABLE nowhere.t (a INT) DUPLICATE KEY(a)", (1049,)),
        (f"SELECT * FROM {database}.T", (5502, 1051, 1064)),
        ("SELECT * FROM nowhere.t", (1049,)),
        (f"ALTER TABLE {database}.u RENAME v", (5502, 1051)),
    ):
        with pytest.raises(pymysql.MySQLError) as caught:
            starrocks.query(sql)
        assert caught.value.args[0] in codes, sql


@pytest.fixture
def keyed(starrocks: StarRocksServer, database: str) -> str:
    starrocks.query(KEYED.format(database))
    return f"{database}.t"


ALTERS = [
    ("ADD COLUMN v INT", "Can not add column which already exists in base table: v"),
    ("ADD COLUMN w INT, ADD COLUMN W INT", "Repeatedly add column: W"),
    ("ADD COLUMN w INT NOT NULL", ""),
    ("ADD COLUMN IF NOT EXISTS w INT", "syntax error"),
    ("DROP COLUMN id", "Can not drop key column in primary data model table"),
    ("DROP COLUMN nothing", "Column does not exists: nothing"),
    ("MODIFY COLUMN nothing INT", "Column[nothing] does not exists"),
    ("MODIFY COLUMN id BIGINT", "Can not modify key column: id for primary key table"),
    ("MODIFY COLUMN k VARCHAR(4) NOT NULL", ""),
    ("MODIFY COLUMN v SMALLINT", "Can not change INT to SMALLINT"),
    ("MODIFY COLUMN v INT NOT NULL", "Can not change from nullable to non-nullable"),
    ("MODIFY COLUMN v BIGINT DEFAULT '1'", "Can not change default value"),
    ("MODIFY COLUMN s VARCHAR(4) DEFAULT 'x'", "Cannot shorten string length"),
    ("MODIFY COLUMN de DECIMAL(8,3)", "Can not change DECIMAL"),
    ("MODIFY COLUMN de DECIMAL(9,1)", "Can not change DECIMAL"),
    ("MODIFY COLUMN j VARCHAR(16)", "JSON needs minimum length"),
    ("RENAME COLUMN nothing TO w", ""),
    ("RENAME COLUMN v TO s", ""),
    ("ADD COLUMN __op INT", "Column name '__op' is reserved for primary key table"),
]


@pytest.mark.parametrize(("clause", "message"), ALTERS, ids=lambda text: text)
def test_alters_that_are_refused(starrocks: StarRocksServer, untouched: str, clause: str, message: str) -> None:
    assert message in starrocks.refused(f"ALTER TABLE {untouched}.t {clause}")
    assert [row[0] for row in starrocks.query(f"DESC {untouched}.t")] == ["id", "k", "v", "s", "de", "j", "n"]


def finished(server: StarRocksServer, database: str) -> tuple[object, ...]:
    """The last job, when it has ended."""
    while True:
        job = server.query(f"SHOW ALTER TABLE COLUMN FROM {database} ORDER BY JobId DESC LIMIT 1")[0]
        if job[9] in ("FINISHED", "CANCELLED"):
            return job


def test_a_slow_change_waits_for_transactions_that_began_before(
    starrocks: StarRocksServer, database: str, keyed: str
) -> None:
    body = b"1,a,2,y,1.5,\\N,3\n"
    for operation in ("begin", "load", "prepare"):
        starrocks.transaction(operation, database, "old", body=body, column_separator=",")
    starrocks.query(f"ALTER TABLE {keyed} MODIFY COLUMN v BIGINT")
    again = starrocks.refused(f"ALTER TABLE {keyed} ADD COLUMN w INT")
    assert 'A schema change operation is in progress on the table "t".' in again
    for operation in ("begin", "load", "prepare", "commit"):  # one that begins now is not waited for
        answer = starrocks.transaction(operation, database, "new", body=body, column_separator=",")
        assert answer["Status"] == "OK"
    while starrocks.query(f"SHOW ALTER TABLE COLUMN FROM {database} WHERE TableName = 't'")[0][9] == "PENDING":
        pass
    assert starrocks.query(f"SHOW ALTER TABLE COLUMN FROM {database}")[0][9] == "WAITING_TXN"
    assert starrocks.transaction("commit", database, "old")["Status"] == "OK"
    assert finished(starrocks, database)[9] == "FINISHED"
    assert ("v", "bigint") in [row[:2] for row in starrocks.query(f"DESC {keyed}")]


def test_a_change_of_type_that_a_value_does_not_fit_is_cancelled(
    starrocks_standin: StarRocksServer,
) -> None:
    server = starrocks_standin
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT NOT NULL, s VARCHAR(5)) PRIMARY KEY(id)")
    server.load("d", b"1,abc\n", column_separator=",")
    server.query("ALTER TABLE d.t MODIFY COLUMN s INT")
    assert finished(server, "d")[9] == "CANCELLED"
    assert server.query("SELECT * FROM d.t") == [(1, "abc")]
    server.query("ALTER TABLE d.t ADD COLUMN n INT")
    assert server.query("SELECT * FROM d.t") == [(1, "abc", None)]


def test_fast_evolution_is_chosen_when_the_table_is_made(starrocks: StarRocksServer, database: str) -> None:
    starrocks.query(
        f"CREATE TABLE {database}.t (id INT NOT NULL) PRIMARY KEY(id) PROPERTIES('fast_schema_evolution' = 'false')"
    )
    starrocks.transaction("begin", database, "old")
    starrocks.query(f"ALTER TABLE {database}.t ADD COLUMN v INT")
    assert starrocks.query(f"SHOW ALTER TABLE COLUMN FROM {database}")[0][9] != "FINISHED"
    starrocks.transaction("rollback", database, "old")
    assert finished(starrocks, database)[9] == "FINISHED"
    starrocks.refused(f"ALTER TABLE {database}.t SET ('fast_schema_evolution' = 'true')")


def test_a_load_keeps_the_plan_of_its_first_body(starrocks: StarRocksServer, database: str) -> None:
    starrocks.query(f"CREATE TABLE {database}.t (id INT NOT NULL, v INT) PRIMARY KEY(id)")
    starrocks.transaction("begin", database, "a")
    starrocks.transaction("load", database, "a", body=b"1,1\n", column_separator=",")
    starrocks.query(f"ALTER TABLE {database}.t ADD COLUMN w INT DEFAULT '9'")
    starrocks.transaction("load", database, "a", body=b"2,2\n", column_separator=",")
    assert starrocks.transaction("commit", database, "a")["Status"] == "OK"
    assert starrocks.query(f"SELECT * FROM {database}.t ORDER BY id") == [(1, 1, 9), (2, 2, 9)]


def test_users_and_privileges(starrocks: StarRocksServer, database: str, keyed: str) -> None:
    user = f"u_{database}"
    starrocks.query(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'first'")
    with pytest.raises(pymysql.MySQLError) as caught:
        starrocks.query("SELECT 1", user=user, password="wrong")
    assert caught.value.args[0] == 1045
    assert "denied" in starrocks.refused(f"SELECT * FROM {keyed}", user=user, password="first")
    starrocks.query(f"GRANT SELECT, INSERT ON TABLE {keyed} TO USER '{user}'@'%'")
    assert starrocks.query(f"SELECT id FROM {keyed}", user=user, password="first") == []
    for sql in (
        f"ALTER TABLE {keyed} ADD COLUMN w INT",
        f"CREATE TABLE {database}.x (id INT) DUPLICATE KEY(id)",
        f"DROP TABLE {keyed}",
    ):
        assert "denied" in starrocks.refused(sql, user=user, password="first")
    starrocks.query(f"GRANT ALTER ON ALL TABLES IN DATABASE {database} TO USER '{user}'@'%'")
    starrocks.query(f"ALTER TABLE {keyed} ADD COLUMN w INT", user=user, password="first")


def test_a_table_of_the_users_own(starrocks: StarRocksServer, database: str) -> None:
    starrocks.query(
        f"CREATE TABLE {database}.own (id INT NOT NULL, n INT DEFAULT '7', m INT DEFAULT NULL) ENGINE=OLAP "
        "PRIMARY KEY(id) DISTRIBUTED BY HASH(id) ORDER BY (n)"
    )
    starrocks.query(f"CREATE TABLE {database}.plain (id INT, v VARCHAR(9), d DATE)")
    assert [row[0] for row in starrocks.query(f"DESC {database}.plain") if row[3] == "true"] == ["id", "v"]
