"""CREATE and ALTER TABLE: what the front end allows, and in which words it refuses.

For the exhaustive tier, as nothing of it is the product's: the sinks' own statements are carried out in `make test`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from doris_servers import ONE_REPLICA, DorisServer

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow]  # a stand-in at work

HASHED = f"DISTRIBUTED BY HASH(id) BUCKETS AUTO {ONE_REPLICA}"


@pytest.fixture
def db(doris: DorisServer) -> Iterator[str]:
    name = doris.new_database()
    yield name
    doris.query(f"DROP DATABASE {name} FORCE")


@pytest.fixture
def table(doris: DorisServer, db: str) -> str:
    doris.query(
        f"CREATE TABLE {db}.t (id INT, k VARCHAR(10), v VARCHAR(10) DEFAULT 'x' COMMENT 'c', n INT, s STRING, "
        f"d DECIMAL(10, 2), j JSON) UNIQUE KEY(id, k) COMMENT 'all' {HASHED}"
    )
    return f"{db}.t"


def names(doris: DorisServer, table: str) -> list[str]:
    return [row[0] for row in doris.query(f"SHOW FULL COLUMNS FROM {table}")]


@pytest.mark.parametrize(
    ("columns", "rest", "message"),
    [
        ("v INT, id INT", f"UNIQUE KEY(id) {HASHED}",
         "Key columns should be a ordered prefix of the schema. KeyColumns[0] (starts from zero) is id, but "
         "corresponding column is v in the previous columns declaration."),
        ("id STRING, v INT", f"UNIQUE KEY(id) {HASHED}", "String Type should not be used in key column[id]"),
        ("id DOUBLE, v INT", f"UNIQUE KEY(id) {HASHED}", "Float or double can not used as a key, use decimal instead."),
        ("id INT, v INT", f"UNIQUE KEY(id) DISTRIBUTED BY HASH(v) BUCKETS 1 {ONE_REPLICA}", "is not key column"),
        ("id INT, v INT", f"UNIQUE KEY(id) DISTRIBUTED BY RANDOM BUCKETS 1 {ONE_REPLICA}", "random distribution"),
        ("id INT, v INT", "UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1", "replication num"),
        ("id INT, ID INT", f"UNIQUE KEY(id) {HASHED}", "Duplicate column"),
        ("id INT UNSIGNED", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
        ("id MEDIUMINT", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
        ("id INT, v BLOB", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
        ("id INT, v TIME", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
        ("id INT, v YEAR", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
        ("id INT, v DECIMAL(39, 2)", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
        ("id INT, v CHAR(256)", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
        ("id INT, v VARCHAR(65534)", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
        ("id INT, `größe` INT", f"UNIQUE KEY(id) {HASHED}", "Incorrect column name"),
        ("id INT, mv_x INT", f"UNIQUE KEY(id) {HASHED}", "column name can't start with 'mv_'/'mva_'"),
        ("id INT, v INT DEFAULT 'x'", f"UNIQUE KEY(id) {HASHED}", "errCode = 2, detailMessage = "),
    ],
)  # fmt: skip
def test_tables_that_are_refused(doris: DorisServer, db: str, columns: str, rest: str, message: str) -> None:
    assert message in doris.refused(f"CREATE TABLE {db}.t ({columns}) {rest}")
    assert doris.query(f"SHOW TABLES FROM {db}") == []


@pytest.mark.parametrize("name", ["_t", "1t", "tür", "t t", "t" * 65])
def test_names_that_are_refused(doris: DorisServer, db: str, name: str) -> None:
    assert "able name" in doris.refused(f"CREATE TABLE {db}.`{name}` (id INT) UNIQUE KEY(id) {HASHED}")


def test_databases_and_tables_that_are_there_or_not(doris: DorisServer, db: str, table: str) -> None:
    create = f"(id INT) UNIQUE KEY(id) {HASHED}"
    assert doris.errno(f"CREATE TABLE {table} {create}") == 1050
    doris.query(f"CREATE TABLE IF NOT EXISTS {table} {create}")
    assert len(names(doris, table)) == 7
    assert doris.errno(f"CREATE TABLE no_such_db.t {create}") == 1049
    assert doris.errno("USE no_such_db") == 1049
    assert doris.errno(f"CREATE DATABASE {db}") == 1007
    assert "errCode = 2" in doris.refused(f"SELECT * FROM {db}.no_such_table")


def test_connectors_read_some_types_by_other_names(doris: DorisServer, db: str) -> None:
    doris.query(f"CREATE TABLE {db}.t (id LARGEINT, b BOOLEAN, ts DATETIME(3)) UNIQUE KEY(id) {HASHED}")
    found = doris.query(f"SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{db}'")
    assert dict(found)["id"] == "bigint unsigned"
    assert dict(found)["b"] == "tinyint"


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("ADD COLUMN n INT", "Can not add column which already exists in base table: n"),
        ("ADD COLUMN z INT AFTER nope", "Column[nope] does not found"),
        ("ADD COLUMN z INT AFTER id", "Invalid column order. value should be after key. index[t]"),
        ("DROP COLUMN k", "Can not drop key column in Unique data model table"),
        ("DROP COLUMN nope", "Column does not exists: nope"),
        ("MODIFY COLUMN n DECIMAL(10, 0)", "Can not change INT to DECIMAL"),
        ("MODIFY COLUMN s VARCHAR(100)", "Can not change "),
        ("MODIFY COLUMN d INT", "Can not change DECIMAL"),
        ("MODIFY COLUMN d DECIMAL(9, 2)", "Can not change DECIMAL"),
        ("MODIFY COLUMN k VARCHAR(20)", "Can not change aggregation type"),
        ("MODIFY COLUMN v VARCHAR(20)", "Can not change default value"),
        ("MODIFY COLUMN v VARCHAR(5) DEFAULT 'x'", "Shorten type length is prohibited, srcType="),
        ("MODIFY COLUMN n INT NOT NULL", "Can not change from nullable to non-nullable"),
        ("MODIFY COLUMN n INT", "Nothing is changed. please check your alter stmt."),
    ],
)
def test_changes_that_are_refused(doris: DorisServer, table: str, clause: str, message: str) -> None:
    before = doris.query(f"SHOW FULL COLUMNS FROM {table}")
    assert message in doris.refused(f"ALTER TABLE {table} {clause}")
    assert doris.query(f"SHOW FULL COLUMNS FROM {table}") == before


def test_a_distribution_column_stays(doris: DorisServer, db: str) -> None:
    doris.query(f"CREATE TABLE {db}.t (id INT, v INT) DUPLICATE KEY(id) DISTRIBUTED BY HASH(v) BUCKETS 1 {ONE_REPLICA}")
    assert "Distribution column[v] cannot be dropped. index[t]" in doris.refused(f"ALTER TABLE {db}.t DROP COLUMN v")


def test_rows_prepared_before_a_light_change_fit_after_it(doris: DorisServer, db: str, table: str) -> None:
    txn = doris.prepare(db, b"1,a,one,5\n", "before", columns="id,k,v,n")["TxnId"]
    doris.query(f"ALTER TABLE {table} ADD COLUMN z INT DEFAULT '5'")
    doris.query(f"ALTER TABLE {table} ADD COLUMN `at` DATETIME DEFAULT CURRENT_TIMESTAMP")
    doris.query(f"ALTER TABLE {table} RENAME COLUMN v w")
    doris.query(f"ALTER TABLE {table} DROP COLUMN n")
    assert doris.finish(db, "commit", txn_id=txn)["status"] == "Success"
    assert doris.eventually(f"SELECT id, w, z FROM {table}", [(1, "one", 5)]) == [(1, "one", 5)]
    assert doris.query(f"SELECT COUNT(`at`) FROM {table}") == [(1,)]


def test_a_table_of_the_users_own(doris: DorisServer, db: str) -> None:
    doris.query(
        f"CREATE TABLE {db}.own (id INT NOT NULL, n INT DEFAULT 7, m INT DEFAULT NULL, t DATETIME(3) DEFAULT "
        "CURRENT_TIMESTAMP(3), v VARCHAR(9)) ENGINE=OLAP UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 PROPERTIES "
        '("replication_allocation" = "tag.location.default: 1")'
    )
    doris.query(f"CREATE TABLE {db}.plain (id INT, v VARCHAR(9), d DATE) {HASHED}")
    assert [row[5] for row in doris.query(f"SHOW FULL COLUMNS FROM {db}.own")][1:3] == ["7", None]
    assert [row[0] for row in doris.query(f"DESC {db}.plain") if row[3] == "true"] == ["id", "v"]
