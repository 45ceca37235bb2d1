"""Client of the transaction interface: begin, load, prepare, commit, rollback, and the state of a label.

    POST /api/transaction/begin      -> front end -> (leader) -> back end: the transaction is PREPARE
    PUT  /api/transaction/load       -> front end -> the same back end: it takes the rows and does not check them yet
    POST /api/transaction/prepare    -> the same back end: rows are written and checked, the transaction is PREPARED
    POST /api/transaction/commit     -> front end: COMMITTED, then VISIBLE
    POST /api/transaction/rollback   -> ABORTED; the label may be used again

The front end remembers which back end has a label, so every call goes to a front end first. Used in driver and
executors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from cdc.errors import CommitUnknown, SinkError, SinkUnavailable
from cdc.schema import TableId
from connectors.shared.streamload.http import HttpClient, Upload
from connectors.shared.streamload.pack import Packing
from connectors.starrocks import replies
from connectors.starrocks.replies import Reply

log = logging.getLogger(__name__)

_PATH = "/api/transaction/"
_BEGIN_TRIES = 4
_ERROR_LINES, _ERROR_CHARACTERS = 3, 600


class TransactionState(StrEnum):
    """The state of a label's latest transaction. UNKNOWN: the server never knew one, or has forgotten it."""

    PREPARE = "PREPARE"
    PREPARED = "PREPARED"
    COMMITTED = "COMMITTED"
    VISIBLE = "VISIBLE"
    ABORTED = "ABORTED"
    UNKNOWN = "UNKNOWN"


DONE = (TransactionState.COMMITTED, TransactionState.VISIBLE)


@dataclass(frozen=True, slots=True)
class LabelState:
    """A state, and for an aborted transaction the reason."""

    state: TransactionState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """The seconds for which the server keeps a transaction; None leaves it to the server.

    Attributes:
        load_s: from begin to prepare.
        prepared_s: from prepare to commit (StarRocks 3.5.4 and later; older versions use the server's setting).
    """

    load_s: int
    prepared_s: int | None = None


class LabelFinishedError(Exception):
    """Raised when the rows of a load are committed under its label already."""


class Transactions:
    """The calls of the interface, each tried once. Thread safe and picklable."""

    def __init__(self, http: HttpClient, limits: TransactionLimits, packing: Packing = "") -> None:
        """`packing`: how bodies are compressed, which the headers of the loads must state too."""
        self._http, self._limits, self._packing = http, limits, packing

    def begin(self, table: TableId, label: str) -> int:
        """Begin a transaction under the label, and return its id.

        First rolls back the transaction that an earlier attempt left under the label, perhaps because only the answer
        to its begin was lost. Raises LabelFinishedError, SinkUnavailable or SinkError.
        """
        where = _where(table, label)
        for _ in range(_BEGIN_TRIES):
            headers = {"db": table.database, "table": table.table, "label": label, "timeout": str(self._limits.load_s)}
            try:
                reply = self._post("begin", headers)
            except CommitUnknown:
                self.clear(table, label)
                continue
            if reply.ok:
                return reply.number("TxnId") or 0
            if not reply.label_exists:
                raise replies.failure("the load cannot begin", where, reply)
            self.clear(table, label)
        hint = "the transaction ends on its own after its timeout; start again then"
        raise SinkUnavailable("an earlier load under this label cannot be rolled back", where=where, hint=hint)

    def load(self, table: TableId, label: str, headers: Mapping[str, str]) -> Upload:
        """Start to send rows. Raises SinkUnavailable or SinkError."""
        headers_of_load = {"db": table.database, "table": table.table, "label": label}
        return self._http.upload(f"{_PATH}load", {**headers, **headers_of_load}, self._packing)

    def plain_load(self, table: TableId, headers: Mapping[str, str], pieces: Iterable[bytes]) -> Reply:
        """Load in one phase: send, commit, make visible. Raises CommitUnknown, SinkUnavailable or SinkError."""
        path = f"{quote(table.database, safe='')}/{quote(table.table, safe='')}"
        heads = {**headers, "timeout": str(self._limits.load_s)}
        upload = self._http.upload(f"/api/{path}/_stream_load", heads, self._packing)
        try:
            for piece in pieces:
                if not upload.write(piece):
                    break
            return replies.read(upload.finish())
        finally:
            upload.cancel()

    def prepare(self, table: TableId, label: str) -> Reply:
        """Have all sent rows written, still invisible. The reply may be a refusal.

        Raises CommitUnknown or SinkUnavailable.
        """
        headers = {"db": table.database, "label": label}
        if self._limits.prepared_s is not None:
            headers["prepared_timeout"] = str(self._limits.prepared_s)
        return self._post("prepare", headers)

    def commit(self, table: TableId, label: str) -> Reply:
        """Commit a prepared transaction; may be repeated. Raises CommitUnknown or SinkUnavailable."""
        return self._post("commit", {"db": table.database, "label": label})

    def state(self, database: str, label: str) -> LabelState:
        """The state of the label's latest transaction. Raises SinkUnavailable; SinkError for an unknown database."""
        path = f"/api/{quote(database, safe='')}/get_load_state?label={quote(label, safe='')}"
        reply = replies.read(self._http.request("GET", path, repeatable=True))
        status = reply.fields.get("state")
        if status is None:
            hint = "the database was dropped in StarRocks; restore it"
            raise SinkError(f"no state of the label: {reply.message}", where=f"{database} {label}", hint=hint)
        reason = str(reply.fields.get("reason") or "")
        return LabelState(
            TransactionState(status) if status in TransactionState.__members__ else TransactionState.UNKNOWN, reason
        )

    def clear(self, table: TableId, label: str) -> TransactionState:
        """Roll back the label's transaction, and return its state after that. May be repeated.

        Raises LabelFinishedError when the rows are committed, because they cannot be taken back.
        """
        found = self.state(table.database, label).state
        if found in DONE:
            raise LabelFinishedError(label)
        if found in (TransactionState.ABORTED, TransactionState.UNKNOWN):
            return found
        try:
            self._post("rollback", {"db": table.database, "label": label})
        except CommitUnknown:
            log.debug("no answer to the rollback of %s", label)
        found = self.state(table.database, label).state
        if found in (TransactionState.PREPARE, TransactionState.PREPARED):
            found = self._cancel(table, label)
        return found

    def roll_back(self, table: TableId, label: str) -> None:
        """Try to roll a transaction back. Never raises: one that remains is found by its label later."""
        try:
            self.clear(table, label)
        except LabelFinishedError:
            log.warning("the load %s is committed and cannot be rolled back", label)
        except SinkError as error:
            log.warning("a load cannot be rolled back now: %s", error)

    def error_rows(self, reply: Reply) -> str:
        """The server's message about rows that it filtered, as `; rows: ...`; empty when there is none.

        Contains the first lines of the error log, or the log's address when it cannot be read from here.
        """
        url = str(reply.fields.get("ErrorURL") or "")
        lines = " | ".join(self._http.fetch(url).splitlines()[:_ERROR_LINES]) if url else ""
        return f"; rows: {lines[:_ERROR_CHARACTERS] or url}" if url else ""

    def _cancel(self, table: TableId, label: str) -> TransactionState:
        """Cancel a transaction that its restarted back end no longer knows; a rollback would not end it."""
        path = f"{quote(table.database, safe='')}/{quote(table.table, safe='')}"
        try:
            self._http.request("POST", f"/api/{path}/_cancel?label={quote(label, safe='')}")
        except CommitUnknown:
            log.debug("no answer to the cancel of %s", label)
        return self.state(table.database, label).state

    def _post(self, operation: str, headers: Mapping[str, str]) -> Reply:
        return replies.read(self._http.request("POST", _PATH + operation, headers))


def _where(table: TableId, label: str) -> str:
    return f"{table} (label {label})"
