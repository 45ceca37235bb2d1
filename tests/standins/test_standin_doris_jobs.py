"""Heavy schema changes: jobs that wait for older transactions, loads that go on meanwhile, and the deadlock.

For the exhaustive tier, as nothing of it is the product's: the sinks' own statements are carried out in `make test`.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest
from doris_servers import ONE_REPLICA, DorisServer

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow]  # a stand-in at work

_WAIT_S = 300


@pytest.fixture
def db(doris: DorisServer) -> Iterator[str]:
    name = doris.new_database()
    doris.query(f"CREATE TABLE {name}.t (id INT, n INT) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {ONE_REPLICA}")
    yield name
    doris.query(f"DROP DATABASE {name} FORCE")


def job(doris: DorisServer, db: str, *wanted: str) -> str:
    """The state of the newest job, once it is one of these."""
    sql = f"SHOW ALTER TABLE COLUMN FROM {db} WHERE TableName = 't' ORDER BY CreateTime DESC LIMIT 1"
    deadline = time.monotonic() + _WAIT_S
    while (state := str(doris.query(sql)[0][9])) not in wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    return state


def column_type(doris: DorisServer, db: str, name: str) -> str:
    return {row[0]: str(row[1]) for row in doris.query(f"SHOW FULL COLUMNS FROM {db}.t")}[name]


def test_a_job_waits_for_prepared_transactions(doris: DorisServer, db: str) -> None:
    txn = doris.prepare(db, b"1,5\n", "older")["TxnId"]
    doris.query(f"ALTER TABLE {db}.t MODIFY COLUMN n BIGINT")
    assert job(doris, db, "WAITING_TXN") == "WAITING_TXN"
    busy = doris.refused(f"ALTER TABLE {db}.t ADD COLUMN z INT")
    assert "Table[t]'s state(SCHEMA_CHANGE) is not NORMAL. Do not allow doing ALTER ops" in busy
    assert doris.load(db, b"2,6\n")["Status"] == "Success"
    assert doris.eventually(f"SELECT id, n FROM {db}.t", [(2, 6)]) == [(2, 6)]
    assert job(doris, db, "WAITING_TXN") == "WAITING_TXN"
    assert column_type(doris, db, "n") == "int"
    assert doris.finish(db, "commit", txn_id=txn)["status"] == "Success"
    assert job(doris, db, "FINISHED", "CANCELLED") == "FINISHED"
    assert doris.eventually(f"SELECT id, n FROM {db}.t ORDER BY id", [(1, 5), (2, 6)]) == [(1, 5), (2, 6)]
    doris.query(f"ALTER TABLE {db}.t ADD COLUMN z INT")


def test_a_transaction_after_the_change_does_not_hold_it_up(doris: DorisServer, db: str) -> None:
    older = doris.prepare(db, b"1,5\n", "older")["TxnId"]
    doris.query(f"ALTER TABLE {db}.t MODIFY COLUMN n BIGINT")
    newer = doris.prepare(db, b"2,6\n", "newer")["TxnId"]
    doris.finish(db, "abort", txn_id=older)
    assert job(doris, db, "FINISHED", "CANCELLED") == "FINISHED"
    assert doris.finish(db, "commit", txn_id=newer)["status"] == "Success"
    assert doris.eventually(f"SELECT id, n FROM {db}.t", [(2, 6)]) == [(2, 6)]


def test_values_that_do_not_convert_cancel_the_job(doris: DorisServer, db: str) -> None:
    doris.query(f"ALTER TABLE {db}.t ADD COLUMN v VARCHAR(10)")
    doris.load(db, b"1,5,text\n")
    doris.eventually(f"SELECT v FROM {db}.t", [("text",)])
    doris.query(f"ALTER TABLE {db}.t MODIFY COLUMN v INT")
    assert job(doris, db, "FINISHED", "CANCELLED") == "CANCELLED"
    assert doris.query(f"SELECT v FROM {db}.t") == [("text",)]


def test_fractions_of_seconds_are_rounded_when_digits_go(doris: DorisServer, db: str) -> None:
    doris.query(f"ALTER TABLE {db}.t ADD COLUMN m DATETIME(6)")
    doris.load(db, b"1,5,2024-12-31 23:59:59.9995\n2,5,1969-12-31 23:59:59.0004\n")
    doris.eventually(f"SELECT COUNT(*) FROM {db}.t", [(2,)])
    doris.query(f"ALTER TABLE {db}.t MODIFY COLUMN m DATETIME(3)")
    assert job(doris, db, "FINISHED", "CANCELLED") == "FINISHED"
    wanted = [(dt.datetime(2025, 1, 1),), (dt.datetime(1969, 12, 31, 23, 59, 59),)]
    assert doris.query(f"SELECT m FROM {db}.t ORDER BY id") == wanted


@pytest.mark.slow
def test_who_waits_for_the_job_before_the_commit_waits_for_the_timeout(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = doris.new_database()
    doris.query(f"CREATE TABLE {db}.t (id INT, n INT) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {ONE_REPLICA}")
    doris.prepare(db, b"1,5\n", "held")
    doris.query(f"ALTER TABLE {db}.t MODIFY COLUMN n BIGINT")
    doris.own.advance(3500)
    assert job(doris, db, "WAITING_TXN") == "WAITING_TXN"
    doris.own.advance(200)
    assert job(doris, db, "FINISHED", "CANCELLED") == "FINISHED"
    assert doris.state(db, "held") == "ABORTED"


@pytest.mark.slow
def test_a_job_survives_the_process(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = doris.new_database()
    doris.query(f"CREATE TABLE {db}.t (id INT, n INT) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {ONE_REPLICA}")
    txn = doris.prepare(db, b"1,5\n", "older")["TxnId"]
    doris.query(f"ALTER TABLE {db}.t MODIFY COLUMN n BIGINT")
    doris.own.kill()
    doris.own.restart()
    assert job(doris, db, "WAITING_TXN") == "WAITING_TXN"
    doris.finish(db, "commit", txn_id=txn)
    assert job(doris, db, "FINISHED", "CANCELLED") == "FINISHED"
    assert doris.eventually(f"SELECT id, n FROM {db}.t", [(1, 5)]) == [(1, 5)]
