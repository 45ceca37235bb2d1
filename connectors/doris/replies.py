"""Parse Doris's answers to loads, to commits and to questions about labels. Pure.

Every answer has HTTP status 200; only the body tells success from failure. Messages are searched for words, never
compared as a whole: releases put different prefixes before them (`[CODE]`, `TStatus: errCode = 2, detailMessage = `).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cdc.errors import SinkError, SinkUnavailable
from connectors.shared.streamload.http import json_object
from connectors.shared.streamload.http_connection import Answer

_SHOWN = 500
_TXN = re.compile(r"txn \[(\d+)\]")
_DONE = re.compile(r"is already (?:visible|committed)", re.I)
_ABORTED = re.compile(r"is already aborted\W+(?:abort reason: )?(.*)", re.I | re.S)
_NOT_FOUND = re.compile(r"transaction (?:\[\d+\] )?not found|running transaction not found", re.I)
_NOT_READY = re.compile(r"is prepare, not pre-committed", re.I)
_BUSY = re.compile(
    r"lock timeout|-235|version count|running txns|not master|no backend|no available|rpc |succ replica|timed? ?out",
    re.I,
)


class TransactionState(StrEnum):
    """State of a label's newest transaction (`get_load_state`). UNKNOWN: never seen, or forgotten."""

    PREPARE = "PREPARE"
    PRECOMMITTED = "PRECOMMITTED"
    COMMITTED = "COMMITTED"
    VISIBLE = "VISIBLE"
    ABORTED = "ABORTED"
    UNKNOWN = "UNKNOWN"

    @property
    def decided(self) -> bool:
        """Whether the rows are committed for good."""
        return self in (TransactionState.COMMITTED, TransactionState.VISIBLE)

    @property
    def open(self) -> bool:
        """Whether the transaction has not ended."""
        return self in (TransactionState.PREPARE, TransactionState.PRECOMMITTED)


@dataclass(frozen=True, slots=True)
class LoadReply:
    """The answer to a stream load."""

    status: str
    message: str
    txn: int
    loaded: int
    filtered: int
    unselected: int
    error_url: str

    @property
    def succeeded(self) -> bool:
        """Whether the load succeeded. Publish Timeout is a success: committed, and visible a little later."""
        return self.status in ("Success", "Publish Timeout")

    @property
    def label_exists(self) -> bool:
        """Whether another transaction has the label, in which case no row was read."""
        return self.status == "Label Already Exists"


class ReplyVerdict(StrEnum):
    """The meaning of Doris's answer to the commit or abort of a transaction."""

    DONE = "done"
    """The request succeeded, or the transaction was committed before."""
    ABORTED = "aborted"
    NOT_FOUND = "not found"
    NOT_READY = "not ready"
    BUSY = "busy"
    """Nothing happened; the request may be repeated."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class TxnReply:
    """The answer to a commit or abort."""

    verdict: ReplyVerdict
    message: str


def load_reply(answer: Answer) -> LoadReply:
    """Parse the answer to a load. Raises SinkError (access denied, no such table), SinkUnavailable."""
    body = json_object(answer)
    if "Status" not in body:
        raise _front_end_error(body, answer.server)
    message = str(body.get("Message", ""))
    found = _TXN.search(message)
    txn = int(body.get("TxnId", -1))
    return LoadReply(
        status=str(body["Status"]),
        message=message,
        txn=txn if txn > 0 or found is None else int(found[1]),
        loaded=int(body.get("NumberLoadedRows", 0)),
        filtered=int(body.get("NumberFilteredRows", 0)),
        unselected=int(body.get("NumberUnselectedRows", 0)),
        error_url=str(body.get("ErrorURL", "")),
    )


def txn_reply(answer: Answer) -> TxnReply:
    """Parse the answer to a commit or abort. Raises SinkError (access denied), SinkUnavailable."""
    body = json_object(answer)
    if "status" not in body:
        raise _front_end_error(body, answer.server)
    message = str(body.get("msg", ""))
    return TxnReply(_verdict(str(body["status"]), message), message)


def state_reply(answer: Answer) -> TransactionState:
    """Parse the answer of `get_load_state`. Raises SinkError, SinkUnavailable."""
    body = json_object(answer)
    data = str(body.get("data", ""))
    if body.get("code") != 0 or data not in TransactionState.__members__:
        raise _front_end_error(body, answer.server)
    return TransactionState(data)


def backends_reply(answer: Answer) -> list[tuple[str, int]]:
    """Hosts and HTTP ports of the live back ends (`/api/backends`). Raises SinkError, SinkUnavailable."""
    body = json_object(answer)
    if body.get("code") != 0 or not isinstance(body.get("data"), dict):
        raise _front_end_error(body, answer.server)
    listed = body["data"].get("backends", [])
    return [(str(item["ip"]), int(item["http_port"])) for item in listed if item.get("is_alive", True)]


def refusal(message: str, where: str) -> SinkError:
    """The error for a load or statement refused with this message: its hint, and whether trying again may help."""
    hints = {
        r"access denied|NOT_AUTHORIZED|denied": "grant LOAD on the table to the user: GRANT SELECT_PRIV, LOAD_PRIV, "
        "ALTER_PRIV, CREATE_PRIV, DROP_PRIV ON db.* TO user",
        r"unknown database|database.*(?:not exist|does not)": "create the database, or route to one that exists",
        r"unknown table|table.*(?:not exist|not found|does not)": "the table was dropped in Doris; restore it",
        r"-235|version count|too many version": "Doris has too many versions of a tablet: let it compact, and make "
        "batches larger with source max-batch-bytes",
        r"running txns": "abort or finish other loads, or raise max_running_txn_num_per_db",
        r"disk|no space|capacity|storage": "free disk space on the back ends",
        r"quota": "raise the quota of the database",
    }
    hint = next((text for pattern, text in hints.items() if re.search(pattern, message, re.I)), "")
    kind = SinkUnavailable if _BUSY.search(message) and not re.search(r"denied", message, re.I) else SinkError
    return kind(f"Doris refused: {one_line(message)}", where=where, hint=hint or "see the log of the front end")


def one_line(message: str) -> str:
    """The server's message on one line, shortened."""
    return " ".join(message.split())[:_SHOWN]


def _verdict(status: str, message: str) -> ReplyVerdict:
    if status.lower() == "success" or _DONE.search(message):
        return ReplyVerdict.DONE
    if _ABORTED.search(message):
        return ReplyVerdict.ABORTED
    if _NOT_FOUND.search(message):
        return ReplyVerdict.NOT_FOUND
    if _NOT_READY.search(message):
        return ReplyVerdict.NOT_READY
    return ReplyVerdict.BUSY if _BUSY.search(message) else ReplyVerdict.REFUSED


def _front_end_error(body: dict[str, Any], where: str) -> SinkError:
    """The error for an answer of the front end itself: `{"msg", "code", "data"}` or `{"status": "FAILED", "msg"}`."""
    text = one_line(f"{body.get('msg', '')} {body.get('data', '') or ''}")
    if body.get("code") in (401, 403) or "denied" in text.lower():
        hint = "check sink.username and sink.password, and that the user has LOAD on the database"
        return SinkError(f"access denied: {text}", where=where, hint=hint)
    return refusal(text, where)
