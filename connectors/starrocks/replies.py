"""Parse the answers of the transaction interface and tell what they mean. Pure.

Every answer of a back end has HTTP status 200, so the field `Status` decides. Back ends put names there such as OK,
TXN_NOT_EXISTS or ANALYSIS_ERROR; front ends put OK or FAILED, with `<java class>: <text>` in `Message`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cdc.errors import SinkError, SinkUnavailable
from connectors.shared.streamload.http import json_object
from connectors.shared.streamload.http_connection import Answer

OK = "OK"
LABEL_EXISTS = "LABEL_ALREADY_EXISTS"
IN_PROCESS = "TXN_IN_PROCESSING"
NOT_THERE = "TXN_NOT_EXISTS"

_AGAIN = frozenset({"SERVICE_UNAVAILABLE", "TIMEOUT", "THRIFT_RPC_ERROR", "CANCELLED", IN_PROCESS, NOT_THERE})
_JAVA_CLASS = re.compile(r"^class [\w.$]+: ")
_LABEL_USED = re.compile(r"Label \[[^\]]*\] has already been used", re.IGNORECASE)
_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Reply:
    """One parsed answer. `status` is in upper case, `fields` holds the whole answer, `server` is who answered."""

    status: str
    message: str
    fields: dict[str, Any]
    server: str

    @property
    def ok(self) -> bool:
        """Whether the operation was carried out."""
        return self.status == OK

    @property
    def label_exists(self) -> bool:
        """Whether a transaction that is not aborted has the label; some versions say so only in the message."""
        return self.status == LABEL_EXISTS or bool(_LABEL_USED.search(self.message))

    def number(self, name: str) -> int | None:
        """The number in a field of the answer; None when the field is missing or no number."""
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def read(answer: Answer) -> Reply:
    """Parse an answer. Raises SinkError or SinkUnavailable for one that the interface does not give."""
    fields = json_object(answer)
    status = str(fields.get("Status") or fields.get("status") or "").upper()
    message = str(fields.get("Message") or fields.get("message") or fields.get("msg") or "")
    return Reply(status, _JAVA_CLASS.sub("", message), fields, answer.server)


def failure(summary: str, where: str, reply: Reply, details: str = "") -> SinkError:
    """The error for a reply that is not OK: its hint, and whether trying again may help."""
    text = f"{summary}: {reply.message or reply.status}"[: 2 * _SHOWN] + details
    for part, hint in _HINTS:
        if part in reply.message.lower():
            kind = SinkUnavailable if hint in _TRY_LATER else SinkError
            return kind(text, where=where, hint=hint)
    if reply.status in _AGAIN or reply.status in ("INTERNAL_ERROR", "FAIL"):
        return SinkUnavailable(text, where=where, hint=f"see the log of {reply.server}")
    return SinkError(f"{text} ({reply.status})", where=where, hint=f"see the log of {reply.server}")


def is_denied(reply: Reply) -> bool:
    """Whether the account lacks the privilege, so that trying again cannot help."""
    return any(part in reply.message.lower() for part, hint in _HINTS if hint is _DENIED)


_DENIED = "check sink.username and sink.password, and GRANT INSERT, SELECT and ALTER on the tables to that user"
_FILTERED = "compare the table's columns in StarRocks with the source's; nothing of this batch was loaded"
_TOO_MANY = "other loads take all transactions of the database; raise max_running_txn_num_per_db, or wait"
_VERSIONS = "the table gets more versions than StarRocks compacts; wait, or load in larger batches"
_TRY_LATER = (_TOO_MANY, _VERSIONS)

_HINTS = (
    ("access denied", _DENIED),
    ("no valid basic authorization", _DENIED),
    ("permission", _DENIED),
    ("too many filtered rows", _FILTERED),
    (
        "primary key size exceed",
        "the key's values together are longer than primary_key_limit_size (128 bytes by default) of the back ends: "
        "raise it there, or give the table a shorter key",
    ),
    ("running txns on db", _TOO_MANY),
    ("too many versions", _VERSIONS),
    ("reached the max versions", _VERSIONS),
    ("unknown table", "the table was dropped in StarRocks; start with a new --state-dir, or restore it"),
    ("does not exist", "the database or table was dropped in StarRocks; restore it"),
    ("has no default value", "a NOT NULL column of the table is not in the source: give it a default in StarRocks"),
    ("capacity", "free disk space on the back ends"),
    ("no space", "free disk space on the back ends"),
    ("disk", "see the disks of the back ends: SHOW BACKENDS"),
)
