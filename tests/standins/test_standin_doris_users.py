"""Users of the Doris stand-in: passwords, privileges on tables, and what each answers without them."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest
from doris_servers import ONE_REPLICA, DorisServer

pytestmark = pytest.mark.slow  # a stand-in at work

LOGIN = {"user": "cdc_user", "password": "it's secret"}


@pytest.fixture
def db(doris: DorisServer) -> Iterator[str]:
    name = doris.new_database()
    doris.query(f"CREATE TABLE {name}.t (id INT) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {ONE_REPLICA}")
    doris.query("CREATE USER 'cdc_user'@'%' IDENTIFIED BY 'it\\'s secret'")
    yield name
    doris.query("DROP USER 'cdc_user'@'%'")
    doris.query(f"DROP DATABASE {name} FORCE")


def login() -> tuple[str, str]:
    return LOGIN["user"], LOGIN["password"]


def test_a_wrong_password_is_error_1045(doris: DorisServer, db: str) -> None:
    with pytest.raises(pymysql.OperationalError) as caught:
        doris.query("SELECT 1", user="cdc_user", password="guess")
    assert caught.value.args[0] == 1045
    assert "Access denied for user 'cdc_user" in caught.value.args[1]
    assert doris.query("SELECT 1", **LOGIN) == [(1,)]


def test_without_privileges_nothing_works(doris: DorisServer, db: str) -> None:
    assert doris.errno(f"USE {db}", **LOGIN) == 1044
    for sql in (
        f"SELECT * FROM {db}.t", f"ALTER TABLE {db}.t ADD COLUMN v INT", f"TRUNCATE TABLE {db}.t",
        f"DROP TABLE {db}.t", f"CREATE TABLE {db}.u (id INT) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) {ONE_REPLICA}",
        "CREATE DATABASE another", "CREATE USER other",
    ):  # fmt: skip
        assert "denied" in doris.refused(sql, **LOGIN), sql
    load = doris.load(db, b"1\n", login=login())
    assert (load["Status"], "LOAD" in load["Message"]) == ("Fail", True)
    path = f"/api/{db}/t/_stream_load"
    redirect = doris.send("PUT", path, {"Expect": "100-continue"}, b"", port=doris.http_port, login=login())
    assert (redirect.status, redirect["code"]) == (200, 401)
    assert "Access denied" in redirect["data"]


def test_privileges_are_given_by_table_and_by_database(doris: DorisServer, db: str) -> None:
    doris.query(f"GRANT LOAD_PRIV ON {db}.t TO 'cdc_user'@'%'")
    assert doris.load(db, b"1\n", login=login())["Status"] == "Success"
    assert "denied" in doris.refused(f"SELECT * FROM {db}.t", **LOGIN)
    doris.query(f"GRANT SELECT_PRIV, ALTER_PRIV, CREATE_PRIV, DROP_PRIV ON {db}.* TO 'cdc_user'@'%'")
    doris.eventually(f"SELECT id FROM {db}.t", [(1,)])
    assert doris.query(f"SELECT id FROM {db}.t", **LOGIN) == [(1,)]
    doris.query(f"ALTER TABLE {db}.t ADD COLUMN v INT", **LOGIN)
    shown = doris.query("SELECT TABLE_NAME FROM information_schema.TABLES", **LOGIN)
    assert shown == [("t",)]


def test_the_second_phase_needs_the_privilege_too(doris: DorisServer, db: str) -> None:
    txn = doris.prepare(db, b"1\n", "a")["TxnId"]
    headers = {"txn_id": str(txn), "txn_operation": "commit"}
    refused = doris.send("PUT", f"/api/{db}/_stream_load_2pc", headers, b"", login=login())
    assert refused["status"] != "Success"
    assert doris.state(db, "a") == "PRECOMMITTED"
    assert doris.finish(db, "abort", txn_id=txn)["status"] == "Success"
