"""Answers of Doris as its releases word them."""

import json

import pytest
from together import together

from cdc.errors import SinkError, SinkUnavailable
from connectors.doris.replies import (
    ReplyVerdict,
    TransactionState,
    backends_reply,
    load_reply,
    refusal,
    state_reply,
    txn_reply,
)
from connectors.shared.streamload.http_connection import Answer

PREFIX = "TStatus: errCode = 2, detailMessage = "


def answer(body: object, status: int = 200) -> Answer:
    text = body if isinstance(body, str) else json.dumps(body)
    return Answer(status, {}, text.encode(), "http://fe:8030")


@together(
    "status, message, verdict",
    [
        ("Success", "transaction [7] commit successfully.", ReplyVerdict.DONE),
        ("success", "label [L] transaction [7] abort successfully.", ReplyVerdict.DONE),
        ("ANALYSIS_ERROR", f"{PREFIX}transaction [7] is already visible, not pre-committed.", ReplyVerdict.DONE),
        ("ANALYSIS_ERROR", "errCode = 2, detailMessage = transaction [7] is already committed, not pre-committed.",
         ReplyVerdict.DONE),
        ("ANALYSIS_ERROR", f"{PREFIX}transaction [7] is already VISIBLE, could not abort.", ReplyVerdict.DONE),
        ("ANALYSIS_ERROR", f"{PREFIX}transaction [7] is already aborted. abort reason: timeout by txn manager",
         ReplyVerdict.ABORTED),
        ("ANALYSIS_ERROR", "transaction [7] is already aborted, abort reason: user", ReplyVerdict.ABORTED),
        ("ANALYSIS_ERROR", f"{PREFIX}transaction [7] not found", ReplyVerdict.NOT_FOUND),
        ("ANALYSIS_ERROR", "transaction not found, label=L", ReplyVerdict.NOT_FOUND),
        ("ANALYSIS_ERROR", "running transaction not found, label=L", ReplyVerdict.NOT_FOUND),
        ("ANALYSIS_ERROR", f"{PREFIX}transaction [7] is prepare, not pre-committed.", ReplyVerdict.NOT_READY),
        ("INTERNAL_ERROR", "get tableList write lock timeout, tableList=(Table [id=1])", ReplyVerdict.BUSY),
        ("ANALYSIS_ERROR", "unknown database, database=D", ReplyVerdict.REFUSED),
    ],
)  # fmt: skip
def test_commits_and_aborts(status: str, message: str, verdict: ReplyVerdict) -> None:
    assert txn_reply(answer({"status": status, "msg": message})).verdict is verdict


def test_a_load() -> None:
    reply = load_reply(
        answer(
            {"TxnId": 5, "Label": "L", "TwoPhaseCommit": "true", "Status": "Success", "Message": "OK",
             "NumberTotalRows": 3, "NumberLoadedRows": 3, "NumberFilteredRows": 0, "NumberUnselectedRows": 0}
        )
    )  # fmt: skip
    assert reply.succeeded
    assert (reply.txn, reply.loaded, reply.filtered) == (5, 3, 0)


def test_a_publish_timeout_is_a_success() -> None:
    assert load_reply(answer({"Status": "Publish Timeout", "TxnId": 5, "Message": "[PUBLISH_TIMEOUT]x"})).succeeded


def test_a_label_that_is_taken_names_its_transaction() -> None:
    message = f"[LABEL_ALREADY_EXISTS]{PREFIX}Label [L] has already been used, relate to txn [123]"
    reply = load_reply(
        answer({"TxnId": -1, "Status": "Label Already Exists", "ExistingJobStatus": "PRECOMMITTED", "Message": message})
    )
    assert reply.label_exists
    assert reply.txn == 123


def test_a_failed_load_has_no_transaction() -> None:
    reply = load_reply(
        answer({"TxnId": -1, "Status": "Fail", "Message": "[NOT_AUTHORIZED]no valid Basic authorization"})
    )
    assert not reply.succeeded
    assert reply.txn == -1


@together(
    "body",
    [
        {"msg": "Unauthorized", "code": 401, "data": "Need auth information.", "count": 0},
        {"msg": "Bad", "code": 403, "data": "Access denied for me@10.0.0.1", "count": 0},
    ],
)
@together("read", [load_reply, txn_reply, state_reply, backends_reply])
def test_access_denied_comes_with_http_200(body: object, read: object) -> None:
    with pytest.raises(SinkError, match="access denied") as caught:
        read(answer(body))  # type: ignore[operator]
    assert not caught.value.retryable
    assert "sink.password" in caught.value.hint


@together("read", [load_reply, txn_reply, state_reply, backends_reply])
@together("body", ["<html>", "", "[]", "null"])
def test_what_is_no_answer_of_doris(read: object, body: str) -> None:
    with pytest.raises(SinkUnavailable, match="an answer without JSON"):
        read(answer(body))  # type: ignore[operator]


@together("state", list(TransactionState))
def test_states(state: TransactionState) -> None:
    assert state_reply(answer({"msg": "success", "code": 0, "data": state.value, "count": 0})) is state
    assert state.decided is (state in (TransactionState.COMMITTED, TransactionState.VISIBLE))


def test_back_ends() -> None:
    listed = [{"ip": "a", "http_port": 1, "is_alive": True}, {"ip": "b", "http_port": 2, "is_alive": False}]
    assert backends_reply(answer({"code": 0, "msg": "success", "data": {"backends": listed}})) == [("a", 1)]


@together(
    "message, retryable, hint",
    [
        ("There is no 100-continue header", False, "log"),
        ("No backend load available, policy: x", True, "log"),
        ("current running txns on db 1 is 100, larger than limit 100", True, "max_running_txn_num_per_db"),
        ("failed, version count: 2001, exceed limit: 2000", True, "compact"),
        ("[DATA_QUALITY_ERROR]too many filtered rows", False, "log"),
        ("Access denied; you need the LOAD privilege", False, "LOAD"),
        ("unknown database, database=D", False, "create the database"),
        ("write failed: No space left on device", False, "disk"),
    ],
)
def test_refusals(message: str, retryable: bool, hint: str) -> None:
    error = refusal(message, "shop.t")
    assert isinstance(error, SinkUnavailable) is retryable
    assert hint in error.hint
    assert message in error.message
