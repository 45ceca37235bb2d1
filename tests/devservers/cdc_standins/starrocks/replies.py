"""Bodies of the answers, with the fields in the server's order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_standins.http_server import Response, json_response
from cdc_standins.starrocks.errors import LoadFailure
from cdc_standins.starrocks.transactions import Transaction

_PLAIN = (
    "NumberTotalRows", "NumberLoadedRows", "NumberFilteredRows", "NumberUnselectedRows", "LoadBytes", "LoadTimeMs",
    "BeginTxnTimeMs", "StreamLoadPlanTimeMs", "ReadDataTimeMs", "WriteDataTimeMs", "CommitAndPublishTimeMs",
)  # fmt: skip
_ENDED = (
    "NumberTotalRows", "NumberLoadedRows", "NumberFilteredRows", "NumberUnselectedRows", "LoadBytes", "LoadTimeMs",
    "StreamLoadPlanTimeMs", "ReceivedDataTimeMs", "WriteDataTimeMs", "CommitAndPublishTimeMs",
)  # fmt: skip
_BEGUN = ("BeginTxnTimeMs",)
_LOADED = ("LoadBytes", "StreamLoadPlanTimeMs", "ReceivedDataTimeMs")
_FIELDS = {"begin": _BEGUN, "load": _LOADED, "prepare": _ENDED, "commit": _ENDED, "rollback": ()}


def plain_reply(
    status: str, message: str, label: str, txn: int, numbers: Mapping[str, int], *, existing: str | None, error_url: str
) -> Response:
    """What a plain stream load answers; `txn` -1 when it never began."""
    body: dict[str, Any] = {"TxnId": txn, "Label": label, "Status": status}
    if existing is not None:
        body["ExistingJobStatus"] = existing
    body["Message"] = message
    body.update({name: numbers.get(name, 0) for name in _PLAIN})
    if error_url:
        body["ErrorURL"] = error_url
    return json_response(body, indent=4)


def backend_reply(
    operation: str, transaction: Transaction, numbers: Mapping[str, int], error_url: str = ""
) -> Response:
    """What the back end answers to a step of a transaction that went well."""
    body: dict[str, Any] = {"Status": "OK", "Message": "", "Label": transaction.label, "TxnId": transaction.id}
    body.update({name: numbers.get(name, 0) for name in _FIELDS[operation]})
    if error_url:
        body["ErrorURL"] = error_url
    return json_response(body, indent=4)


def backend_failure(failure: LoadFailure, label: str, error_url: str = "") -> Response:
    """What the back end answers to a step that failed: always HTTP 200."""
    body: dict[str, Any] = {"Status": failure.status}
    if failure.status == "LABEL_ALREADY_EXISTS":
        body["ExistingJobStatus"] = failure.existing or ""
    elif failure.status == "TXN_IN_PROCESSING":
        body["Label"] = label
    body["Message"] = failure.message
    if error_url:
        body["ErrorURL"] = error_url
    return json_response(body, indent=4)


def frontend_reply(transaction: Transaction, message: str = "") -> Response:
    """What the front end answers to a step that it carried out."""
    body = {"Label": transaction.label, "Status": "OK", "TxnId": transaction.id, "Message": message}
    return json_response(body, indent=2)


def frontend_failure(failure: LoadFailure) -> Response:
    """What the front end answers where it threw: HTTP 200, the connection ends."""
    return json_response({"Status": failure.status, "Message": failure.message}, close=True)


def rest_result(
    message: str, *, ok: bool, http: int = 200, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """The general shape of the front end's REST answers; `more` comes first."""
    status, code, text = ("OK", "0", "Success") if ok else ("FAILED", "1", message)
    body = {**more, "status": status, "code": code, "msg": text, "message": "OK" if ok else message}
    answer = json_response(body, http, close=not ok)
    return Response(answer.status, answer.body, {**answer.headers, **(headers or {})}, answer.close)
