"""Stream loads, as far as the server's answers are known: checks, headers, counts, labels."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from doris_servers import ONE_REPLICA, DorisServer

pytestmark = pytest.mark.slow  # a stand-in at work

TABLE = "(id BIGINT, v VARCHAR(10), n INT NOT NULL DEFAULT '7') UNIQUE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 "


@pytest.fixture
def db(doris: DorisServer) -> Iterator[str]:
    name = doris.new_database()
    doris.query(f"CREATE TABLE {name}.t {TABLE}{ONE_REPLICA}")
    yield name
    doris.query(f"DROP DATABASE {name} FORCE")


def rows(doris: DorisServer, db: str, wanted: list[Any]) -> list[Any]:
    return doris.eventually(f"SELECT id, v, n FROM {db}.t ORDER BY id", wanted)


def test_a_load_answers_with_these_keys_in_this_order(doris: DorisServer, db: str) -> None:
    answer = doris.load(db, b"1,a,5\n", "a")
    keys = list(answer.json)
    assert answer.status == 200
    assert keys[:6] == ["TxnId", "Label", "Comment", "TwoPhaseCommit", "Status", "Message"]
    assert keys[6:11] == [
        "NumberTotalRows", "NumberLoadedRows", "NumberFilteredRows", "NumberUnselectedRows", "LoadBytes"
    ]  # fmt: skip
    assert (answer["Label"], answer["TwoPhaseCommit"], answer["Status"]) == ("a", "false", "Success")
    assert (answer["NumberTotalRows"], answer["NumberLoadedRows"], answer["LoadBytes"]) == (1, 1, 6)
    assert answer["TxnId"] > 0
    assert answer.text.startswith("{\n")
    assert rows(doris, db, [(1, "a", 5)]) == [(1, "a", 5)]


def test_the_front_end_redirects_without_reading_the_body(doris: DorisServer, db: str) -> None:
    token = base64.b64encode(f"{doris.user}:{doris.password}".encode()).decode()
    connection = http.client.HTTPConnection(doris.host, doris.http_port, timeout=120)
    connection.putrequest("PUT", f"/api/{db}/t/_stream_load")
    headers = {"Authorization": f"Basic {token}", "Expect": "100-continue", "Transfer-Encoding": "chunked"}
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    location = response.headers["Location"]
    connection.close()
    assert response.status == 307
    assert f"{doris.user}:{doris.password}@" in location
    assert location.endswith(f"/api/{db}/t/_stream_load?")


def test_the_front_end_asks_for_expect_and_for_a_password(doris: DorisServer, db: str) -> None:
    path = f"/api/{db}/t/_stream_load"
    without = doris.send("PUT", path, port=doris.http_port, body=b"")
    assert (without.status, without["status"], without["msg"]) == (200, "FAILED", "There is no 100-continue header")
    wrong = doris.send("PUT", path, {"Expect": "100-continue"}, port=doris.http_port, login=("root", "no such"))
    assert (wrong.status, wrong["code"], wrong["msg"]) == (200, 401, "Unauthorized")


def test_the_back_end_refuses_in_json_with_http_200(doris: DorisServer, db: str) -> None:
    none = doris.send("PUT", f"/api/{db}/t/_stream_load", {"Authorization": "none"}, b"")
    assert (none.status, none["Status"], none["TxnId"]) == (200, "Fail", -1)
    assert "no valid Basic authorization" in none["Message"]
    assert doris.load(db, b"", login=("root", "no such"))["Status"] == "Fail"
    assert "errCode = 2, detailMessage = " in doris.load("no_such_db", b"")["Message"]
    assert doris.load(db, b"", table="no_such_table")["Status"] == "Fail"


def test_a_body_needs_a_length_or_chunks(doris: DorisServer, db: str) -> None:
    token = base64.b64encode(f"{doris.user}:{doris.password}".encode()).decode()
    connection = http.client.HTTPConnection(doris.host, doris.be_http_port, timeout=120)
    connection.putrequest("PUT", f"/api/{db}/t/_stream_load", skip_accept_encoding=True)
    connection.putheader("Authorization", f"Basic {token}")
    connection.endheaders()
    message = json.loads(connection.getresponse().read())["Message"]
    connection.close()
    assert "content_length is empty and transfer-encoding!=chunked" in message


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"format": "json"}, "the stand-in reads only csv, not json"),
        ({"strict_mode": "false"}, "the stand-in reads rows only with strict_mode: true"),
        ({"merge_type": "MERGE"}, "the stand-in does not know the header merge_type"),
        ({"max_filter_ratio": "0.1"}, "the stand-in does not know the header max_filter_ratio"),
        ({"column_separator": "||"}, "the stand-in knows only a column_separator of one byte, not '||'"),
        ({"compress_type": "bz2"}, "unknown compress type bz2"),
        ({"group_commit": "sync_mode"}, "the stand-in does not know the header group_commit"),
        ({"label": "a.b"}, "Label format error. regex: "),
        ({"label": "a" * 129}, "Label format error. regex: "),
    ],
)
def test_wrong_headers_are_named(doris: DorisServer, db: str, headers: dict[str, str], message: str) -> None:
    answer = doris.load(db, b"1,a,5\n", **headers)
    assert (answer.status, answer["Status"]) == (200, "Fail")
    assert message in answer["Message"]


def test_a_live_label_is_refused_with_the_state_of_its_transaction(doris: DorisServer, db: str) -> None:
    first = doris.prepare(db, b"1,a,5\n", "a")
    again = doris.load(db, b"", "a")
    assert (again["Status"], again["ExistingJobStatus"], again["TxnId"]) == (
        "Label Already Exists", "PRECOMMITTED", -1
    )  # fmt: skip
    assert f"Label [a] has already been used, relate to txn [{first['TxnId']}]" in again["Message"]
    assert list(again.json)[4:7] == ["Status", "ExistingJobStatus", "Message"]
    doris.finish(db, "commit", txn_id=first["TxnId"])
    assert doris.load(db, b"", "a")["ExistingJobStatus"] == "FINISHED"


def test_the_label_of_an_aborted_transaction_is_free(doris: DorisServer, db: str) -> None:
    first = doris.prepare(db, b"1,a,5\n", "a")
    doris.finish(db, "abort", txn_id=first["TxnId"])
    second = doris.prepare(db, b"2,b,5\n", "a")
    assert second["Status"] == "Success"
    assert second["TxnId"] > first["TxnId"]
    failed = doris.load(db, b"1\n", "b")
    assert failed["Status"] == "Fail"
    assert doris.load(db, b"3,c,5\n", "b")["Status"] == "Success"


def test_labels_belong_to_their_database(doris: DorisServer, db: str) -> None:
    other = doris.new_database()
    doris.query(f"CREATE TABLE {other}.t {TABLE}{ONE_REPLICA}")
    assert doris.load(db, b"1,a,5\n", "same")["Status"] == "Success"
    assert doris.load(other, b"1,a,5\n", "same")["Status"] == "Success"
    doris.query(f"DROP DATABASE {other} FORCE")


def test_an_empty_body_is_a_transaction_like_any_other(doris: DorisServer, db: str) -> None:
    answer = doris.prepare(db, b"", "empty")
    assert (answer["Status"], answer["NumberTotalRows"]) == ("Success", 0)
    assert doris.state(db, "empty") == "PRECOMMITTED"
    assert doris.finish(db, "commit", txn_id=answer["TxnId"])["status"] == "Success"


def test_the_later_row_of_a_key_wins_and_both_count(doris: DorisServer, db: str) -> None:
    answer = doris.load(db, b"1,a,1\n1,b,2\n2,c,3\n1,d,4\n")
    assert (answer["NumberTotalRows"], answer["NumberLoadedRows"]) == (4, 4)
    assert rows(doris, db, [(1, "d", 4), (2, "c", 3)]) == [(1, "d", 4), (2, "c", 3)]
    doris.load(db, b"2,e,9\n")
    assert rows(doris, db, [(1, "d", 4), (2, "e", 9)]) == [(1, "d", 4), (2, "e", 9)]


def test_a_column_without_default_must_be_loaded(doris: DorisServer, db: str) -> None:
    doris.query(f"CREATE TABLE {db}.m (id INT, v INT NOT NULL) UNIQUE KEY(id) DISTRIBUTED BY HASH(id) "
                f"BUCKETS 1 {ONE_REPLICA}")  # fmt: skip
    answer = doris.load(db, b"1\n", table="m", columns="id")
    assert "Column has no default value. column: v" in answer["Message"]


def test_hidden_columns_mean_nothing_beside_columns(doris: DorisServer, db: str) -> None:
    doris.load(db, b"1,a,1\n")
    doris.load(db, b"1,b,2\n", columns="id,v,n", hidden_columns="__DORIS_DELETE_SIGN__")
    assert rows(doris, db, [(1, "b", 2)]) == [(1, "b", 2)]


def test_values_that_do_not_fit(doris: DorisServer, db: str) -> None:
    strict = doris.load(db, b"x,a,1\n2,b,2\n")
    assert (strict["Status"], strict["NumberLoadedRows"]) == ("Fail", 0)
    assert "[DATA_QUALITY_ERROR]" in strict["Message"]
    assert "/api/_load_error_log?file=" in strict["ErrorURL"]
    path = strict["ErrorURL"].partition("/api/")[2]
    reasons = doris.send("GET", f"/api/{path}").text
    assert "Reason: " in reasons
    assert "src line [" in reasons
    missing = doris.load(db, b"3,c,\\N\n")
    assert missing["Status"] == "Fail"


def test_duplicate_tables_keep_every_row_and_know_no_delete_sign(doris: DorisServer, db: str) -> None:
    doris.query(
        f"CREATE TABLE {db}.d (id INT, v INT) DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1 {ONE_REPLICA}"
    )
    doris.load(db, b"1,1\n1,1\n", table="d")
    doris.load(db, b"1,1,1\n", table="d", columns="id,v,__DORIS_DELETE_SIGN__")
    assert doris.eventually(f"SELECT count(*) FROM {db}.d", [(3,)]) == [(3,)]
