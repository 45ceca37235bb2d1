"""What survives and what does not: kills, lost answers, closed ports, time that passes. Only a stand-in can do this.

For the exhaustive tier, as nothing of it is the product's: tests of the load sinks meet these faults in `make test`.
"""

from __future__ import annotations

import http.client
import itertools
from collections.abc import Iterator

import pymysql
import pytest
from starrocks_servers import StarRocksServer, own_starrocks

from cdc_standins import StandIn

pytestmark = [pytest.mark.exhaustive, pytest.mark.slow]
COMMA = {"column_separator": ","}
LOST = (http.client.HTTPException, ConnectionError)
_names = itertools.count(1)


@pytest.fixture(scope="module")
def _server() -> Iterator[StarRocksServer]:
    with own_starrocks(label_keep_max_num=8, max_running_txn_num_per_db=6) as server:
        yield server


@pytest.fixture
def server(_server: StarRocksServer) -> Iterator[StarRocksServer]:
    yield _server
    standin(_server).clear()
    standin(_server).command("lose_contexts")  # the next test uses the same labels
    standin(_server).be_up()


@pytest.fixture
def database(server: StarRocksServer) -> str:
    name = f"d{next(_names)}"
    server.query(f"CREATE DATABASE {name}")
    server.query(f"CREATE TABLE {name}.t (id INT NOT NULL, v VARCHAR(10)) PRIMARY KEY(id)")
    return name


def standin(server: StarRocksServer) -> StandIn:
    assert server.standin is not None
    return server.standin


def step(server: StarRocksServer, database: str, operation: str, label: str, **headers: str) -> dict[str, object]:
    body = b"1,a\n2,b\n" if operation == "load" else b""
    answer: dict[str, object] = server.transaction(operation, database, label, body=body, **COMMA, **headers).json
    return answer


def to_prepared(server: StarRocksServer, database: str, label: str) -> None:
    for operation in ("begin", "load", "prepare"):
        assert step(server, database, operation, label)["Status"] == "OK"


def whole(server: StarRocksServer, database: str, label: str) -> None:
    for operation in ("begin", "load", "prepare", "commit"):
        step(server, database, operation, label)


def ids(server: StarRocksServer, database: str) -> list[int]:
    return [row[0] for row in server.query(f"SELECT id FROM {database}.t ORDER BY id")]


def test_prepared_rows_survive_a_kill_and_others_do_not(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "prepared")
    step(server, database, "begin", "open")
    step(server, database, "load", "open")
    standin(server).kill()
    standin(server).restart()
    assert server.state(database, "prepared") == "PREPARED"
    assert server.state(database, "open") == "ABORTED"
    assert [it["reason"] for it in standin(server).transactions()][-1] == "coordinate BE restart"
    assert ids(server, database) == []
    assert step(server, database, "commit", "prepared")["Status"] == "OK"
    assert ids(server, database) == [1, 2]
    standin(server).kill()
    standin(server).restart()
    assert ids(server, database) == [1, 2]


@pytest.mark.parametrize(
    ("point", "operation", "state"),
    [
        ("fe.txn.begin", "begin", "UNKNOWN"),
        ("be.txn.begin", "begin", "UNKNOWN"),
        ("be.txn.begin.done", "begin", "PREPARE"),
        ("be.txn.load.done", "load", "PREPARE"),
        ("be.load.body", "load", "ABORTED"),
        ("be.txn.prepare", "prepare", "PREPARE"),
        ("be.txn.prepare.done", "prepare", "PREPARED"),
        ("fe.txn.commit", "commit", "PREPARED"),
        ("fe.txn.commit.done", "commit", "VISIBLE"),
        ("fe.txn.rollback.done", "rollback", "ABORTED"),
    ],
)
def test_answers_that_are_lost(server: StarRocksServer, database: str, point: str, operation: str, state: str) -> None:
    before = {"begin": 0, "load": 1, "prepare": 2, "commit": 3, "rollback": 3}[operation]
    for earlier in ("begin", "load", "prepare")[:before]:
        step(server, database, earlier, "a")
    standin(server).fault(point, match={"label": "a"})
    with pytest.raises(LOST):
        step(server, database, operation, "a")
    assert server.state(database, "a") == state


@pytest.mark.parametrize("point", ["be.txn.prepare.done", "fe.txn.commit.done", "be.txn.load"])
def test_kills_at_a_point(server: StarRocksServer, database: str, point: str) -> None:
    standin(server).fault(point, action="kill")
    with pytest.raises(LOST):
        whole(server, database, "a")
    standin(server).wait_killed()
    standin(server).restart()
    expected = {"be.txn.prepare.done": "PREPARED", "fe.txn.commit.done": "VISIBLE", "be.txn.load": "ABORTED"}
    assert server.state(database, "a") == expected[point]


def test_a_kill_before_publishing_loses_nothing(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "a")
    standin(server).fault("publish", action="kill")
    with pytest.raises(LOST):
        step(server, database, "commit", "a")
    standin(server).wait_killed()
    standin(server).restart()
    while server.state(database, "a") != "VISIBLE":
        assert server.state(database, "a") in ("COMMITTED", "VISIBLE")
    assert ids(server, database) == [1, 2]


def test_a_commit_may_fail_with_a_publish_timeout_and_be_committed(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "a")
    standin(server).fault("publish", action="hold")
    answer = step(server, database, "commit", "a", timeout="1")
    assert (answer["Status"], "publish timeout: 1000" in str(answer["Message"])) == ("FAILED", True)
    assert server.state(database, "a") == "COMMITTED"
    assert ids(server, database) == []
    assert step(server, database, "commit", "a")["Status"] == "OK"
    standin(server).release("publish")
    while server.state(database, "a") != "VISIBLE":
        continue
    assert ids(server, database) == [1, 2]


def test_a_plain_load_with_a_publish_timeout(server: StarRocksServer, database: str) -> None:
    standin(server).fault("publish.wait", action="late")
    assert server.load(database, b"1,a\n", **COMMA)["Status"] == "Publish Timeout"
    while not ids(server, database):
        continue


def test_a_back_end_that_is_gone_after_the_redirect(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "prepared")
    step(server, database, "begin", "open")
    standin(server).be_down()
    with pytest.raises(ConnectionRefusedError):
        step(server, database, "load", "open")
    assert server.state(database, "open") == "ABORTED"
    assert step(server, database, "commit", "prepared")["Status"] == "OK"  # the front end needs no back end for it
    standin(server).be_up()
    assert step(server, database, "load", "open")["Status"] == "TXN_NOT_EXISTS"


def test_a_back_end_that_forgot_while_the_front_end_did_not(server: StarRocksServer, database: str) -> None:
    step(server, database, "begin", "a")
    standin(server).command("lose_contexts")
    assert step(server, database, "rollback", "a")["Status"] == "TXN_NOT_EXISTS"
    assert server.state(database, "a") == "PREPARE"
    assert server.send("POST", f"/api/{database}/t/_cancel?label=a")["status"] == "OK"
    assert server.state(database, "a") == "ABORTED"


def test_status_and_refusals_on_demand(server: StarRocksServer, database: str) -> None:
    standin(server).fault("fe.load", action="status", code=503)
    assert server.load(database, b"1,a\n", **COMMA).status == 503
    standin(server).fault("be.txn.begin", action="refuse", status="SERVICE_UNAVAILABLE", message="disk full")
    answer = step(server, database, "begin", "a")
    assert (answer["Status"], answer["Message"]) == ("SERVICE_UNAVAILABLE", "disk full")
    standin(server).fault("sql", action="refuse", message="too many versions", like="TRUNCATE")
    assert server.refused(f"TRUNCATE TABLE {database}.t") == "too many versions"


def test_timeouts_abort(server: StarRocksServer, database: str) -> None:
    step(server, database, "begin", "begun", timeout="60")
    step(server, database, "begin", "idle", idle_transaction_timeout="30")
    to_prepared(server, database, "kept")
    step(server, database, "begin", "short")
    step(server, database, "load", "short")
    step(server, database, "prepare", "short", prepared_timeout="10")
    states = {}
    for seconds in (11, 20, 30, 86_400):
        standin(server).advance(seconds)
        states[seconds] = [server.state(database, label) for label in ("begun", "idle", "kept", "short")]
    assert states[11] == ["PREPARE", "PREPARE", "PREPARED", "ABORTED"]
    assert states[20] == ["PREPARE", "ABORTED", "PREPARED", "ABORTED"]
    assert states[30] == ["ABORTED", "ABORTED", "PREPARED", "ABORTED"]
    assert states[86_400] == ["ABORTED", "ABORTED", "ABORTED", "ABORTED"]
    assert server.send("GET", f"/api/{database}/get_load_state?label=short")["reason"] == "timeout by txn manager"
    answer = step(server, database, "commit", "kept")
    assert (answer["Status"], "Can not commit ABORTED" in str(answer["Message"])) == ("FAILED", True)


def test_labels_are_forgotten_when_there_are_too_many(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "waits")
    for number in range(10):
        assert server.load(database, b"1,a\n", **COMMA, label=f"l{number}")["Status"] == "Success"
    assert server.state(database, "l0") == "UNKNOWN"
    assert server.state(database, "l9") == "VISIBLE"
    assert server.state(database, "waits") == "PREPARED"
    assert step(server, database, "begin", "l0")["Status"] == "OK"  # and its rows would come twice
    standin(server).advance(259_300)
    assert server.state(database, "l9") == "UNKNOWN"


def test_running_transactions_are_limited_and_prepared_ones_count(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "prepared")
    for number in range(5):
        assert step(server, database, "begin", f"{database}-{number}")["Status"] == "OK"
    answer = step(server, database, "begin", "one-more")
    assert answer["Status"] == "ANALYSIS_ERROR"
    assert "is 6, larger than limit 6" in str(answer["Message"])
    assert server.load(database, b"1,a\n", **COMMA)["Status"] == "Fail"


def test_truncate_loses_what_was_prepared(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "a")
    server.query(f"TRUNCATE TABLE {database}.t")
    assert step(server, database, "commit", "a")["Status"] == "OK"
    assert ids(server, database) == []


def test_schema_changes_go_on_after_a_kill(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "old")
    server.query(f"ALTER TABLE {database}.t ADD COLUMN fast INT DEFAULT '3'")
    server.query(f"ALTER TABLE {database}.t MODIFY COLUMN fast BIGINT DEFAULT '3'")
    standin(server).kill()
    standin(server).restart()
    step(server, database, "commit", "old")
    while server.query(f"SHOW ALTER TABLE COLUMN FROM {database} ORDER BY JobId DESC")[0][9] != "FINISHED":
        continue
    assert server.query(f"SELECT * FROM {database}.t ORDER BY id") == [(1, "a", 3), (2, "b", 3)]


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE {}.t ADD COLUMN w INT DEFAULT '3'", "CREATE TABLE {}.w (w INT) DUPLICATE KEY(w)"],
)
def test_a_kill_within_ddl_leaves_the_tables_as_before(server: StarRocksServer, database: str, statement: str) -> None:
    server.load(database, b"1,a\n", **COMMA)
    standin(server).fault("ddl", action="kill")
    with pytest.raises((OSError, pymysql.MySQLError)):
        server.query(statement.format(database))
    standin(server).wait_killed()
    standin(server).restart()
    assert server.query(f"SELECT * FROM {database}.t") == [(1, "a")]
    server.query(statement.format(database))
    last = statement.partition(".")[2][0]
    assert "w" in [row[0] for row in server.query(f"DESC {database}.{last}")]


def test_labels_expire_and_are_forgotten_on_demand(server: StarRocksServer, database: str) -> None:
    to_prepared(server, database, "a")
    standin(server).command("expire", db=database, label="a")
    assert server.state(database, "a") == "ABORTED"
    standin(server).command("forget", db=database, label="a")
    assert server.state(database, "a") == "UNKNOWN"


def test_a_schema_change_that_fails_is_cancelled(server: StarRocksServer, database: str) -> None:
    standin(server).fault("alter", action="refuse", message="disk full")
    server.query(f"ALTER TABLE {database}.t ADD COLUMN n INT")
    server.query(f"ALTER TABLE {database}.t MODIFY COLUMN n BIGINT")
    while (job := server.query(f"SHOW ALTER TABLE COLUMN FROM {database} ORDER BY JobId DESC")[0])[9] != "CANCELLED":
        continue
    assert job[10] == "disk full"


def test_statements_that_are_not_known_are_refused(server: StarRocksServer) -> None:
    for sql in ("OPTIMIZE TABLE t", "CREATE MATERIALIZED VIEW v AS SELECT 1", "DELETE FROM t WHERE a = 1", "nonsense"):
        assert "stand-in does not know" in server.refused(sql)


def test_users_and_tables_survive_a_kill(server: StarRocksServer, database: str) -> None:
    server.query("CREATE USER u IDENTIFIED BY 'pw'")
    server.query(f"GRANT SELECT ON TABLE {database}.t TO USER u")
    standin(server).kill()
    standin(server).restart()
    assert server.query(f"SELECT id FROM {database}.t", user="u", password="pw") == []


def test_a_begin_that_finds_others_overdue(server: StarRocksServer, database: str) -> None:
    step(server, database, "begin", "old", timeout="1")
    standin(server).advance(2)
    assert step(server, database, "begin", "a")["Status"] == "OK"
    assert server.state(database, "old") == "ABORTED"


def test_counting_keeps_no_rows() -> None:
    with own_starrocks(count_only=True, label_conflict_fails=True) as server:
        server.query("CREATE DATABASE d")
        server.query("CREATE TABLE d.t (id INT NOT NULL, v VARCHAR(10)) PRIMARY KEY(id)")
        to_prepared(server, "d", "a")
        assert step(server, "d", "commit", "a")["Status"] == "OK"
        body = b"7,x\x02" * 100_001
        answer = server.load("d", body[:-1], **COMMA, row_delimiter="\\x02")
        assert (answer["NumberLoadedRows"], answer["LoadBytes"]) == (100_001, len(body) - 1)
        assert standin(server).command("counters") == {"rows": 100_003, "bytes": len(body) - 1 + 8, "loads": 2}
        assert ids(server, "d") == []
        taken = server.load("d", b"1,a\n", **COMMA, label="a")
        assert (taken["Status"], taken["Message"]) == ("Fail", "Label [a] has already been used.")
