"""The transaction interface, row by row of what is known about the server's answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from starrocks_servers import StarRocksServer

pytestmark = pytest.mark.slow  # a stand-in at work

COMMA = {"column_separator": ","}


@pytest.fixture
def database(starrocks: StarRocksServer) -> Iterator[str]:
    name = starrocks.new_database()
    starrocks.query(
        f"CREATE TABLE {name}.t (id INT NOT NULL, v VARCHAR(10)) PRIMARY KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1"
    )
    yield name
    starrocks.query(f"DROP DATABASE {name} FORCE")


def prepared(server: StarRocksServer, database: str, label: str, body: bytes = b"1,a\n") -> None:
    assert server.transaction("begin", database, label)["Status"] == "OK"
    assert server.transaction("load", database, label, body=body, **COMMA)["Status"] == "OK"
    assert server.transaction("prepare", database, label)["Status"] == "OK"


def rows(server: StarRocksServer, database: str) -> list[tuple[object, ...]]:
    return server.query(f"SELECT id, v FROM {database}.t ORDER BY id")


def test_rows_are_visible_after_the_commit_and_not_before(starrocks: StarRocksServer, database: str) -> None:
    begun = starrocks.transaction("begin", database, "a")
    assert list(begun.json) == ["Status", "Message", "Label", "TxnId", "BeginTxnTimeMs"]
    loaded = starrocks.transaction("load", database, "a", body=b"1,a\n2,b\n", **COMMA)
    assert list(loaded.json) == [
        "Status", "Message", "Label", "TxnId", "LoadBytes", "StreamLoadPlanTimeMs", "ReceivedDataTimeMs"
    ]  # fmt: skip
    assert loaded["LoadBytes"] == 8
    assert starrocks.state(database, "a") == "PREPARE"
    ended = starrocks.transaction("prepare", database, "a")
    assert (ended["Status"], ended["NumberTotalRows"], ended["NumberLoadedRows"]) == ("OK", 2, 2)
    assert starrocks.state(database, "a") == "PREPARED"
    assert rows(starrocks, database) == []
    done = starrocks.transaction("commit", database, "a")
    assert done.json == {"Label": "a", "Status": "OK", "TxnId": begun["TxnId"], "Message": ""}
    assert starrocks.state(database, "a") == "VISIBLE"
    assert rows(starrocks, database) == [(1, "a"), (2, "b")]


def test_committing_again_is_fine_and_rolling_back_then_is_not(starrocks: StarRocksServer, database: str) -> None:
    prepared(starrocks, database, "a")
    starrocks.transaction("commit", database, "a")
    again = starrocks.transaction("commit", database, "a")
    assert again["Status"] == "OK"
    assert "has already committed, label is a" in again["Message"]
    back = starrocks.transaction("rollback", database, "a")
    assert (back["Status"], "Can not abort VISIBLE transaction" in back["Message"]) == ("FAILED", True)
    begin = starrocks.transaction("begin", database, "a")
    assert (begin["Status"], begin["ExistingJobStatus"]) == ("LABEL_ALREADY_EXISTS", "FINISHED")
    assert begin["Message"] == "Label [a] has already been used."


def test_a_rolled_back_label_is_free_again(starrocks: StarRocksServer, database: str) -> None:
    prepared(starrocks, database, "a")
    assert starrocks.transaction("rollback", database, "a")["Status"] == "OK"
    again = starrocks.transaction("rollback", database, "a")
    assert (again["Status"], "has already aborted" in again["Message"]) == ("OK", True)
    commit = starrocks.transaction("commit", database, "a")
    assert (commit["Status"], "Can not commit ABORTED transaction" in commit["Message"]) == ("FAILED", True)
    prepared(starrocks, database, "a", b"2,b\n")
    starrocks.transaction("commit", database, "a")
    assert rows(starrocks, database) == [(2, "b")]


def test_begin_with_a_live_label_says_so_and_leaves_it_alone(starrocks: StarRocksServer, database: str) -> None:
    starrocks.transaction("begin", database, "a")
    again = starrocks.transaction("begin", database, "a")
    assert (again["Status"], again["ExistingJobStatus"], again["Message"]) == ("LABEL_ALREADY_EXISTS", "", "")
    starrocks.transaction("load", database, "a", body=b"1,a\n", **COMMA)
    starrocks.transaction("prepare", database, "a")
    running = starrocks.transaction("begin", database, "a")
    assert (running["Status"], running["ExistingJobStatus"]) == ("LABEL_ALREADY_EXISTS", "RUNNING")
    assert starrocks.transaction("commit", database, "a")["Status"] == "OK"


def test_two_databases_cannot_use_one_label_at_the_same_time(starrocks: StarRocksServer, database: str) -> None:
    other = starrocks.new_database()
    starrocks.query(f"CREATE TABLE {other}.t (id INT NOT NULL) PRIMARY KEY(id)")
    starrocks.transaction("begin", database, "shared")
    assert starrocks.transaction("begin", other, "shared")["Status"] == "LABEL_ALREADY_EXISTS"
    starrocks.transaction("rollback", database, "shared")
    assert starrocks.transaction("begin", other, "shared")["Status"] == "OK"
    starrocks.transaction("rollback", other, "shared")


def test_the_context_is_gone_after_prepare(starrocks: StarRocksServer, database: str) -> None:
    prepared(starrocks, database, "a")
    assert starrocks.transaction("prepare", database, "a")["Status"] == "TXN_NOT_EXISTS"
    late = starrocks.transaction("load", database, "a", body=b"2,b\n", **COMMA)
    assert (late["Status"], late["Message"]) == ("TXN_NOT_EXISTS", "Transaction with label a not exists")
    assert starrocks.state(database, "a") == "PREPARED"
    starrocks.transaction("rollback", database, "a")


def test_what_was_never_begun_is_not_found(starrocks: StarRocksServer, database: str) -> None:
    load = starrocks.transaction("load", database, "never", body=b"1,a\n", **COMMA)
    assert (load["Status"], "Can't find the transaction with db" in load["Message"]) == ("FAILED", True)
    for operation in ("prepare", "commit", "rollback"):
        answer = starrocks.transaction(operation, database, "never")
        assert answer["Status"] == "FAILED"
        assert f"No transaction found with db[{database}] and label[never]" in answer["Message"]
    assert starrocks.state(database, "never") == "UNKNOWN"


def test_a_transaction_without_a_load_fails_at_its_end(starrocks: StarRocksServer, database: str) -> None:
    for operation in ("prepare", "commit"):
        starrocks.transaction("begin", database, "empty")
        answer = starrocks.transaction(operation, database, "empty")
        assert (answer["Status"], "hasn't send any data yet" in answer["Message"]) == ("INTERNAL_ERROR", True)
        assert starrocks.state(database, "empty") == "ABORTED"


def test_a_load_without_rows_fails_at_prepare(starrocks: StarRocksServer, database: str) -> None:
    starrocks.transaction("begin", database, "empty")
    starrocks.transaction("load", database, "empty", body=b"\n", **COMMA)
    answer = starrocks.transaction("prepare", database, "empty")
    assert (answer["Status"], "have data available" in answer["Message"]) == ("ANALYSIS_ERROR", True)


def test_commit_without_prepare_is_one_phase(starrocks: StarRocksServer, database: str) -> None:
    starrocks.transaction("begin", database, "a")
    starrocks.transaction("load", database, "a", body=b"1,a", **COMMA)
    done = starrocks.transaction("commit", database, "a")
    assert (done["Status"], done["NumberLoadedRows"]) == ("OK", 1)
    assert rows(starrocks, database) == [(1, "a")]


def test_bodies_are_one_stream(starrocks: StarRocksServer, database: str) -> None:
    starrocks.transaction("begin", database, "a")
    for body in (b"1,a\n2,", b"b\n3,c", b"d\n"):
        starrocks.transaction("load", database, "a", body=body, **COMMA)
    assert starrocks.transaction("prepare", database, "a")["NumberLoadedRows"] == 3
    starrocks.transaction("commit", database, "a")
    assert rows(starrocks, database) == [(1, "a"), (2, "b"), (3, "cd")]


def test_a_load_for_another_table_changes_nothing(starrocks: StarRocksServer, database: str) -> None:
    starrocks.query(f"CREATE TABLE {database}.u (id INT NOT NULL) PRIMARY KEY(id)")
    starrocks.transaction("begin", database, "a")
    wrong = starrocks.transaction("load", database, "a", "u", b"1\n")
    assert (wrong["Status"], wrong["Message"]) == ("INVALID_ARGUMENT", "Request table u not equal transaction table t")
    starrocks.transaction("load", database, "a", body=b"1,a\n", **COMMA)
    assert starrocks.transaction("commit", database, "a")["Status"] == "OK"


def test_other_headers_than_before_abort(starrocks: StarRocksServer, database: str) -> None:
    starrocks.transaction("begin", database, "a")
    starrocks.transaction("load", database, "a", body=b"1,a\n", **COMMA)
    wrong = starrocks.transaction("load", database, "a", body=b"2|b\n", column_separator="|")
    assert (wrong["Status"], wrong["Message"]) == ("INTERNAL_ERROR", "load request not equal last.")
    assert starrocks.state(database, "a") == "ABORTED"


def test_a_plan_that_cannot_be_made_aborts(starrocks: StarRocksServer, database: str) -> None:
    starrocks.query(f"CREATE TABLE {database}.s (id INT, need BIGINT NOT NULL) DUPLICATE KEY(id)")
    starrocks.transaction("begin", database, "a", "s")
    failed = starrocks.transaction("load", database, "a", "s", b"1\n", columns="id")
    assert (failed["Status"], failed["Message"]) == ("ANALYSIS_ERROR", "Column has no default value. column: need")
    assert starrocks.transaction("load", database, "a", "s", b"1,2\n", **COMMA)["Status"] == "TXN_NOT_EXISTS"
    assert starrocks.transaction("commit", database, "a", "s")["Status"] == "FAILED"


def test_bad_rows_show_at_prepare_with_an_error_log(starrocks: StarRocksServer, database: str) -> None:
    starrocks.transaction("begin", database, "a")
    assert starrocks.transaction("load", database, "a", body=b"1,a\nx,b\n", **COMMA)["Status"] == "OK"
    failed = starrocks.transaction("prepare", database, "a")
    assert (failed["Status"], failed["Message"]) == ("INTERNAL_ERROR", "too many filtered rows")
    log = starrocks.send(
        "GET", failed["ErrorURL"].partition("8040")[2] or _path(failed["ErrorURL"]), port=_port(failed)
    )
    assert "Row: x,b" in log.text
    assert starrocks.state(database, "a") == "ABORTED"


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3]


def _port(answer: object) -> int:
    return int(str(answer["ErrorURL"]).split(":")[2].partition("/")[0])  # type: ignore[index]


def test_what_begin_refuses(starrocks: StarRocksServer, database: str) -> None:
    unknown = starrocks.transaction("begin", database, "a", "nothing")
    assert (unknown["Status"], unknown["Message"]) == ("ANALYSIS_ERROR", f'unknown table "{database}.nothing"')
    assert "Database[nowhere] does not exist." in starrocks.transaction("begin", "nowhere", "a")["Message"]
    assert "Empty label." in starrocks.transaction("begin", database, "")["Message"]
    assert "No database selected." in starrocks.transaction("begin", "", "a")["Message"]
    assert starrocks.transaction("begin", database, "a" * 129)["Status"] != "OK"
    assert starrocks.transaction("begin", database, "a.b")["Status"] != "OK"


def test_the_state_of_a_label_in_an_unknown_database_has_no_state(starrocks: StarRocksServer) -> None:
    answer = starrocks.send("GET", "/api/nowhere/get_load_state?label=a")
    assert (answer.status, answer["status"], "state" in answer.json) == (200, "FAILED", False)


def test_an_invalid_prepared_timeout_is_refused(starrocks: StarRocksServer, database: str) -> None:
    starrocks.transaction("begin", database, "a")
    starrocks.transaction("load", database, "a", body=b"1,a\n", **COMMA)
    for text in ("0", "-1", "soon"):
        answer = starrocks.transaction("prepare", database, "a", prepared_timeout=text)
        assert (answer["Status"] == "OK", f"Invalid prepared_timeout: {text}" in answer["Message"]) == (False, True)
    starrocks.transaction("rollback", database, "a")


def test_cancel_ends_what_is_not_committed(starrocks: StarRocksServer, database: str) -> None:
    prepared(starrocks, database, "a")
    assert starrocks.send("POST", f"/api/{database}/t/_cancel?label=a")["status"] == "OK"
    assert starrocks.state(database, "a") == "ABORTED"


def test_while_one_load_runs_another_is_told_to_wait(starrocks_standin: StarRocksServer) -> None:
    server = starrocks_standin
    server.query("CREATE DATABASE d")
    server.query("CREATE TABLE d.t (id INT NOT NULL, v VARCHAR(10)) PRIMARY KEY(id)")
    server.transaction("begin", "d", "a")
    assert server.standin is not None
    server.standin.fault("be.load.body", action="hold")
    first = threading.Thread(target=server.transaction, args=("load", "d", "a"), kwargs={"body": b"1,a\n", **COMMA})
    first.start()
    while not server.standin.command("faults")["met"].get("be.load.body"):
        pass
    for operation in ("load", "prepare", "rollback"):
        busy = server.transaction(operation, "d", "a", body=b"2,b\n", **COMMA)
        assert (busy["Status"], busy["Label"]) == ("TXN_IN_PROCESSING", "a")
    server.standin.release("be.load.body")
    first.join()
    assert server.transaction("prepare", "d", "a")["NumberLoadedRows"] == 1
