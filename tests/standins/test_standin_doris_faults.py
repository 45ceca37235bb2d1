"""What the stand-in keeps over kill -9, and the faults that tests arm in it.

For the exhaustive tier, as nothing of it is the product's: tests of the load sinks meet these faults in `make test`.
"""

from __future__ import annotations

import http.client

import pymysql
import pytest
from cdc_process import wait_for
from doris_servers import ONE_REPLICA, DorisServer, own_doris
from tiers import one_in

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow]  # each test has a stand-in of its own

_CUT = (http.client.RemoteDisconnected, ConnectionError)


def make_table(doris: DorisServer) -> str:
    name = doris.new_database()
    doris.query(
        f"CREATE TABLE {name}.t (id INT, v VARCHAR(10)) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {ONE_REPLICA}"
    )
    return name


def rows(doris: DorisServer, db: str, wanted: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return doris.eventually(f"SELECT id, v FROM {db}.t ORDER BY id", list(wanted))


def test_every_answered_step_survives_kill_9(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.load(db, b"1,a\n", "visible")
    kept = doris.prepare(db, b"2,b\n", "kept")["TxnId"]
    gone = doris.prepare(db, b"3,c\n", "gone")["TxnId"]
    doris.finish(db, "abort", txn_id=gone)
    doris.own.kill()
    doris.own.restart()
    assert {label: doris.state(db, label) for label in ("visible", "kept", "gone")} == {
        "visible": "VISIBLE", "kept": "PRECOMMITTED", "gone": "ABORTED"
    }  # fmt: skip
    assert rows(doris, db, [(1, "a")]) == [(1, "a")]
    assert doris.finish(db, "commit", txn_id=kept)["status"] == "Success"
    doris.own.kill()
    doris.own.restart()
    assert rows(doris, db, [(1, "a"), (2, "b")]) == [(1, "a"), (2, "b")]
    assert doris.state(db, "kept") == "VISIBLE"
    assert doris.prepare(db, b"", "next")["TxnId"] > gone


def test_what_was_committed_and_not_visible_becomes_visible_once(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.query(f"CREATE TABLE {db}.d (id INT) DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {ONE_REPLICA}")
    doris.own.fault("publish", times=-1, action="hold")
    for number in range(3):
        txn = doris.prepare(db, b"%d\n" % number, f"l{number}", "d")["TxnId"]
        assert doris.finish(db, "commit", txn_id=txn)["status"] == "Success"
    assert [doris.state(db, f"l{number}") for number in range(3)] == ["COMMITTED"] * 3
    assert doris.finish(db, "commit", txn_id=txn)["msg"].endswith(f"[{txn}] is already committed, not pre-committed.")
    assert doris.query(f"SELECT * FROM {db}.d") == []
    doris.own.kill()
    doris.own.restart()
    wanted = [(0,), (1,), (2,)]
    assert doris.eventually(f"SELECT * FROM {db}.d ORDER BY id", wanted) == wanted
    doris.own.restart()
    assert doris.query(f"SELECT * FROM {db}.d ORDER BY id") == wanted


def test_rows_become_visible_in_the_order_of_commits_however_fast_they_came(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.own.fault("publish", times=-1, action="hold")
    txns = [doris.prepare(db, b"1,v%d\n" % number, f"l{number}")["TxnId"] for number in range(20)]
    for txn in reversed(txns):
        doris.finish(db, "commit", txn_id=txn)
    doris.own.restart()
    assert rows(doris, db, [(1, "v0")]) == [(1, "v0")]
    assert {one["state"] for one in doris.own.transactions()} == {"VISIBLE"}


def test_a_load_in_progress_is_forgotten_with_its_process(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.own.fault("be.load.body", action="kill")
    with pytest.raises(_CUT):
        doris.prepare(db, b"1,a\n", "a")
    doris.own.wait_killed()
    doris.own.restart()
    assert doris.state(db, "a") == "UNKNOWN"
    assert doris.prepare(db, b"1,a\n", "a")["Status"] == "Success"


def test_a_client_that_leaves_within_the_body_aborts_its_load(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = make_table(doris)
    connection = http.client.HTTPConnection(doris.host, doris.be_http_port, timeout=120)
    connection.putrequest("PUT", f"/api/{db}/t/_stream_load")
    headers = {"Authorization": "Basic cm9vdDo=", "label": "a", "Content-Length": "100", "two_phase_commit": "true"}
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"1\ta\n")
    wait_for("the load", doris.own.transactions)
    connection.close()
    free = doris.prepare(db, b"1,a\n", "a")
    while free["Status"] == "Label Already Exists":
        assert free["ExistingJobStatus"] == "RUNNING"
        free = doris.prepare(db, b"1,a\n", "a")
    assert free["Status"] == "Success"
    assert [one["state"] for one in doris.own.transactions()] == ["ABORTED", "PRECOMMITTED"]


@pytest.mark.parametrize("point", ["be.load", "be.load.body", "be.load.done"])
def test_the_answer_of_a_load_is_lost(doris_standin: DorisServer, point: str) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.own.fault(point)
    with pytest.raises(_CUT):
        doris.prepare(db, b"1,a\n", "a")
    expected = {"be.load": "UNKNOWN", "be.load.body": "ABORTED", "be.load.done": "PRECOMMITTED"}
    assert doris.state(db, "a") == expected[point]
    assert rows(doris, db, []) == []


@pytest.mark.parametrize("point", ["be.2pc", "be.2pc.done"])
def test_the_answer_of_a_commit_is_lost(doris_standin: DorisServer, point: str) -> None:
    doris = doris_standin
    db = make_table(doris)
    txn = doris.prepare(db, b"1,a\n", "a")["TxnId"]
    doris.own.fault(point, match={"operation": "commit"})
    with pytest.raises(_CUT):
        doris.finish(db, "commit", txn_id=txn)
    wanted = [(1, "a")] if point == "be.2pc.done" else []
    assert rows(doris, db, wanted) == wanted
    assert doris.state(db, "a") == ("VISIBLE" if wanted else "PRECOMMITTED")


def test_the_back_end_is_gone_after_the_redirect(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.own.be_down()
    headers = {"Expect": "100-continue"}
    assert doris.send("PUT", f"/api/{db}/t/_stream_load", headers, b"", port=doris.http_port).status == 307
    with pytest.raises(ConnectionRefusedError):
        doris.load(db, b"1,a\n")
    health = doris.send("GET", "/api/health", port=doris.http_port)
    assert health["data"] == {"online_backend_num": 0, "total_backend_num": 1}
    doris.own.be_up()
    assert doris.load(db, b"1,a\n")["Status"] == "Success"


def test_other_faults(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.own.fault("be.load", action="status", code=503, body="busy")
    assert (doris.load(db, b"1,a\n").status, doris.load(db, b"1,a\n").status) == (503, 200)
    versions = "[E-235]failed to init rowset builder. version count: 2001, exceed limit: 2000"
    doris.own.fault("be.load", action="refuse", message=versions)
    refused = doris.load(db, b"2,b\n", "a")
    assert (refused["Status"], versions in refused["Message"]) == ("Fail", True)
    assert doris.load(db, b"2,b\n", "a")["Status"] == "Success"
    doris.own.fault("be.2pc", action="refuse", message="get tableList write lock timeout")
    txn = doris.prepare(db, b"3,c\n", "b")["TxnId"]
    assert "write lock timeout" in doris.finish(db, "commit", txn_id=txn)["msg"]
    doris.own.fault("be.load", action="be_down")
    with pytest.raises(_CUT):
        doris.load(db, b"4,d\n")
    with pytest.raises(ConnectionRefusedError):
        doris.load(db, b"4,d\n")
    doris.own.be_up()
    doris.own.fault("sql", like="truncate")
    assert doris.query(f"SELECT COUNT(*) FROM {db}.t")[0][0] >= 0
    with pytest.raises(pymysql.MySQLError):
        doris.query(f"TRUNCATE TABLE {db}.t")
    assert rows(doris, db, [(1, "a"), (2, "b")]) == [(1, "a"), (2, "b")]


def test_a_publish_that_takes_its_time() -> None:
    with own_doris(publish_timeout_s=0) as doris:
        db = make_table(doris)
        doris.own.fault("publish", action="hold")
        answer = doris.load(db, b"1,a\n", "a")
        assert (answer["Status"], answer["NumberLoadedRows"]) == ("Publish Timeout", 1)
        assert "transaction commit successfully, BUT data will be visible later" in answer["Message"]
        assert doris.load(db, b"", "a")["ExistingJobStatus"] == "FINISHED"
        doris.own.release("publish")
        assert rows(doris, db, [(1, "a")]) == [(1, "a")]


def test_a_test_may_expire_and_forget_labels(doris_standin: DorisServer) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.prepare(db, b"1,a\n", "a")
    doris.own.command("expire", db=db, label="a")
    assert doris.state(db, "a") == "ABORTED"
    assert doris.own.command("forget", db=db, label="a") == 1
    assert doris.state(db, "a") == "UNKNOWN"


@pytest.mark.parametrize(
    "sql",
    one_in(2, [
        "CREATE TABLE {db}.u (id INT, v VARCHAR(5)) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {one_replica}",
        "ALTER TABLE {db}.t ADD COLUMN z INT DEFAULT '7', DROP COLUMN n",
        "ALTER TABLE {db}.t RENAME COLUMN v w",
        "ALTER TABLE {db}.t RENAME u",
        "TRUNCATE TABLE {db}.t",
    ]),
)  # fmt: skip
def test_a_change_of_a_table_that_a_kill_cuts_in_two_is_completed(doris_standin: DorisServer, sql: str) -> None:
    doris = doris_standin
    db = make_table(doris)
    doris.query(f"ALTER TABLE {db}.t ADD COLUMN n INT")
    doris.load(db, b"1,a,5\n")
    rows(doris, db, [(1, "a")])
    doris.own.fault("ddl", action="kill")
    with pytest.raises(pymysql.MySQLError):
        doris.query(sql.format(db=db, one_replica=ONE_REPLICA))
    doris.own.wait_killed()
    doris.own.restart()
    name = doris.query(f"SHOW TABLES FROM {db}")[-1][0]
    shown = [row[0] for row in doris.query(f"SHOW FULL COLUMNS FROM {db}.{name}")]
    found = doris.query(f"SELECT * FROM {db}.{name}")
    expected = {
        "CREATE": ("u", ["id", "v"], []), "ADD": ("t", ["id", "v", "z"], [(1, "a", 7)]),
        "COLUMN v w": ("t", ["id", "w", "n"], [(1, "a", 5)]), "RENAME u": ("u", ["id", "v", "n"], [(1, "a", 5)]),
        "TRUNCATE": ("t", ["id", "v", "n"], []),
    }  # fmt: skip
    assert (name, shown, found) == next(value for key, value in expected.items() if key in sql)
    assert doris.load(db, b"2\n", table=name, columns="id")["Status"] == "Success"


def test_a_server_with_its_storage_apart_has_no_two_phases_for_unique_tables() -> None:
    with own_doris(cloud=True, load_max_bytes=100) as doris:
        db = make_table(doris)
        assert "stream load 2pc is unsupported for mow table" in doris.prepare(db, b"1,a\n", "a")["Message"]
        assert doris.load(db, b"1,a\n", "a")["Status"] == "Success"
        assert "[EXCEEDED_LIMIT]body size 101 exceed" in doris.load(db, b"1" * 101)["Message"]
        chunks = {"Authorization": "Basic cm9vdDo=", "label": "b"}
        connection = http.client.HTTPConnection(doris.host, doris.be_http_port, timeout=120)
        connection.request("PUT", f"/api/{db}/t/_stream_load", iter([b"1" * 101]), chunks, encode_chunked=True)
        with pytest.raises(_CUT):
            connection.getresponse()
        connection.close()
        assert doris.state(db, "b") == "ABORTED"


def test_a_stand_in_that_only_counts() -> None:
    with own_doris(count_only=True) as doris:
        db = make_table(doris)
        answer = doris.prepare(db, b"1,a\n2,b\n3,c", "a")
        assert (answer["Status"], answer["NumberLoadedRows"]) == ("Success", 3)
        assert doris.finish(db, "commit", txn_id=answer["TxnId"])["status"] == "Success"
        long = doris.load(db, b"1,a|" * 1_000_000, line_delimiter="|")
        assert long["NumberLoadedRows"] == 1_000_000
        assert doris.own.command("counters") == {"rows": 1_000_003, "bytes": 4_000_011, "loads": 2}
        assert rows(doris, db, []) == []
