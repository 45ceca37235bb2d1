"""The two phases: every answer of commit and abort in every state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from doris_servers import ONE_REPLICA, DorisServer, own_doris

pytestmark = pytest.mark.slow  # a stand-in at work

DETAIL = "TStatus: errCode = 2, detailMessage = "


def make_table(doris: DorisServer) -> str:
    name = doris.new_database()
    doris.query(
        f"CREATE TABLE {name}.t (id INT, v VARCHAR(10)) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {ONE_REPLICA}"
    )
    return name


@pytest.fixture
def db(doris: DorisServer) -> Iterator[str]:
    name = make_table(doris)
    yield name
    doris.query(f"DROP DATABASE {name} FORCE")


def prepared(doris: DorisServer, db: str, label: str, body: bytes = b"1,a\n") -> int:
    answer = doris.prepare(db, body, label)
    assert (answer["Status"], answer["TwoPhaseCommit"]) == ("Success", "true")
    return int(answer["TxnId"])


def test_rows_become_visible_after_the_commit_and_not_before(doris: DorisServer, db: str) -> None:
    txn = prepared(doris, db, "a")
    assert doris.state(db, "a") == "PRECOMMITTED"
    assert doris.query(f"SELECT * FROM {db}.t") == []
    answer = doris.finish(db, "commit", txn_id=txn)
    assert answer.json == {"status": "Success", "msg": f"transaction [{txn}] commit successfully."}
    assert doris.eventually(f"SELECT id, v FROM {db}.t", [(1, "a")]) == [(1, "a")]
    assert doris.state(db, "a") == "VISIBLE"


def test_committing_again_says_that_it_is_done(doris: DorisServer, db: str) -> None:
    txn = prepared(doris, db, "a")
    doris.finish(db, "commit", txn_id=txn)
    doris.eventually(f"SELECT id, v FROM {db}.t", [(1, "a")])
    again = doris.finish(db, "commit", txn_id=txn)
    assert (again["status"], again["msg"]) == (
        "ANALYSIS_ERROR", f"{DETAIL}transaction [{txn}] is already visible, not pre-committed."
    )  # fmt: skip
    abort = doris.finish(db, "abort", txn_id=txn)
    assert abort["msg"].endswith(f"transaction [{txn}] is already VISIBLE, could not abort.")


def test_aborting_and_what_follows(doris: DorisServer, db: str) -> None:
    txn = prepared(doris, db, "a")
    assert doris.finish(db, "abort", txn_id=txn)["msg"] == f"transaction [{txn}] abort successfully."
    assert doris.state(db, "a") == "ABORTED"
    commit = doris.finish(db, "commit", txn_id=txn)
    assert f"transaction [{txn}] is already aborted. abort reason: " in commit["msg"]
    again = doris.finish(db, "abort", txn_id=txn)
    assert f"transaction [{txn}] is already aborted, abort reason: " in again["msg"]
    assert doris.query(f"SELECT * FROM {db}.t") == []


@pytest.mark.parametrize(
    ("operation", "headers", "status", "message"),
    [
        ("commit", {"txn_id": "999999999"}, "ANALYSIS_ERROR", "transaction [999999999] not found"),
        ("abort", {"txn_id": "999999999"}, "ANALYSIS_ERROR", "transaction [999999999] not found"),
        ("keep", {"txn_id": "1"}, "INTERNAL_ERROR", "transaction operation should be 'commit' or 'abort'"),
        ("commit", {"txn_id": "x1"}, "INTERNAL_ERROR", "convert txn_id [x1] failed"),
    ],
)
def test_wrong_requests(
    doris: DorisServer, db: str, operation: str, headers: dict[str, str], status: str, message: str
) -> None:
    answer = doris.finish(db, operation, **headers)
    assert (answer.status, answer["status"]) == (200, status)
    assert message in answer["msg"]


def test_the_front_end_checks_headers_and_redirects(doris: DorisServer, db: str) -> None:
    path = f"/api/{db}/_stream_load_2pc"
    neither = doris.send("PUT", path, {"txn_operation": "commit"}, b"", port=doris.http_port)
    assert neither["msg"] == "No transaction id or label selected."
    what = doris.send("PUT", path, {"txn_id": "1"}, b"", port=doris.http_port)
    assert what["msg"] == "No transaction operation('commit' or 'abort') selected."
    both = {"txn_id": "1", "txn_operation": "commit"}
    assert doris.send("PUT", path, both, b"", port=doris.http_port).status == 307
    table = doris.send("PUT", f"/api/{db}/t/_stream_load_2pc", both, b"", port=doris.http_port)
    assert table.status == 307


def test_an_unknown_number_is_not_found_whatever_the_password(doris: DorisServer, db: str) -> None:
    headers = {"txn_id": "999999999", "txn_operation": "commit"}
    answer = doris.send("PUT", f"/api/{db}/_stream_load_2pc", headers, b"", login=("root", "no such"))
    assert "transaction [999999999] not found" in answer["msg"]


def test_only_lower_case_true_means_two_phases(doris: DorisServer, db: str) -> None:
    answer = doris.load(db, b"1,a\n", "a", two_phase_commit="TRUE")
    assert (answer["Status"], answer["TwoPhaseCommit"]) == ("Success", "false")
    assert doris.eventually(f"SELECT id, v FROM {db}.t", [(1, "a")]) == [(1, "a")]


def test_the_commit_decides_the_order_not_the_first_phase(doris: DorisServer, db: str) -> None:
    first, second = prepared(doris, db, "a", b"1,first\n"), prepared(doris, db, "b", b"1,second\n")
    doris.finish(db, "commit", txn_id=second)
    doris.finish(db, "commit", txn_id=first)
    assert doris.eventually(f"SELECT id, v FROM {db}.t", [(1, "first")]) == [(1, "first")]


def test_a_table_dropped_meanwhile_cannot_be_committed_but_aborted(doris: DorisServer, db: str) -> None:
    txn = prepared(doris, db, "a")
    doris.query(f"DROP TABLE {db}.t FORCE")
    assert doris.finish(db, "commit", txn_id=txn)["status"] != "Success"
    assert doris.finish(db, "abort", txn_id=txn)["status"] == "Success"


def test_other_answers_of_the_front_end(doris: DorisServer, db: str) -> None:
    health = doris.send("GET", "/api/health", {"Authorization": ""}, port=doris.http_port)
    assert (health["code"], health["data"]["online_backend_num"]) == (0, 1)
    assert doris.send("GET", "/api/bootstrap", port=doris.http_port)["code"] == 0
    found = doris.send("GET", "/api/backends?is_alive=true", port=doris.http_port)["data"]["backends"]
    assert [(one["http_port"], one["is_alive"]) for one in found] == [(doris.be_http_port, True)]
    assert doris.send("GET", f"/api/{db}/get_load_state", port=doris.http_port)["msg"] == "Bad Request"


@pytest.mark.slow
def test_a_prepared_transaction_expires(doris_standin: DorisServer) -> None:
    db = make_table(doris_standin)
    txn = prepared(doris_standin, db, "a")
    doris_standin.own.advance(3590)
    assert doris_standin.state(db, "a") == "PRECOMMITTED"
    doris_standin.own.advance(20)
    assert doris_standin.state(db, "a") == "ABORTED"
    commit = doris_standin.finish(db, "commit", txn_id=txn)
    assert commit["msg"].endswith("is already aborted. abort reason: timeout by txn manager")
    assert prepared(doris_standin, db, "a") > txn


@pytest.mark.slow
def test_labels_are_forgotten_after_half_a_day(doris_standin: DorisServer) -> None:
    db = make_table(doris_standin)
    txn = prepared(doris_standin, db, "a")
    doris_standin.finish(db, "commit", txn_id=txn)
    doris_standin.eventually(f"SELECT id FROM {db}.t", [(1,)])
    doris_standin.own.advance(43100)
    assert doris_standin.state(db, "a") == "VISIBLE"
    doris_standin.own.advance(200)
    assert doris_standin.state(db, "a") == "UNKNOWN"
    assert "not found" in doris_standin.finish(db, "commit", txn_id=txn)["msg"]
    assert doris_standin.load(db, b"1,again\n", "a")["Status"] == "Success"


@pytest.mark.slow
def test_labels_are_forgotten_when_there_are_many_newer_ones() -> None:
    with own_doris(label_keep_count=3) as doris:
        db = make_table(doris)
        for number in range(5):
            assert doris.load(db, b"1,a\n", f"l{number}")["Status"] == "Success"
        kept = prepared(doris, db, "open")
        assert [doris.state(db, f"l{number}") for number in range(5)] == ["UNKNOWN"] * 2 + ["VISIBLE"] * 3
        doris.finish(db, "abort", txn_id=kept)


@pytest.mark.slow
def test_only_so_many_transactions_may_run() -> None:
    with own_doris(max_running_txns=2) as doris:
        db = make_table(doris)
        first = prepared(doris, db, "a")
        prepared(doris, db, "b")
        refused = doris.load(db, b"1,a\n", "c")
        assert refused["Status"] == "Fail"
        assert "current running txns on db" in refused["Message"]
        assert "is 2, larger than limit 2" in refused["Message"]
        doris.finish(db, "abort", txn_id=first)
        assert doris.load(db, b"1,a\n", "c")["Status"] == "Success"
