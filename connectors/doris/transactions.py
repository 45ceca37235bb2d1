"""Commit and abort transactions, and find out what became of them. Used in driver and executors.

An outcome is always asked for, never guessed:

| state of a label | before the decision | after the decision |
|---|---|---|
| PREPARE | an earlier attempt is still loading: abort it | impossible |
| PRECOMMITTED | an earlier attempt has prepared its rows: abort it | commit it |
| COMMITTED, VISIBLE | the batch is carried out again because its decision was lost | done |
| ABORTED | free for use | the rows are not in the sink: LoadLost |
| UNKNOWN | free for use | Doris has forgotten the outcome: LoadLost |

Doris keeps a precommitted transaction for an hour (stream_load_default_precommit_timeout_second), and a finished label
for 12 hours or 2,000 loads of its database, whichever ends first (streaming_label_keep_max_second,
label_num_threshold).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from cdc.errors import CommitFailed, CommitUnknown, SinkError, SinkUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from connectors.doris.client import DorisClient
from connectors.doris.replies import ReplyVerdict, TransactionState, TxnReply, one_line, refusal
from connectors.shared.streamload.commits import LoadLost

log = logging.getLogger(__name__)

_KEEP_LONGER = "Doris keeps a prepared load for stream_load_default_precommit_timeout_second (an hour): raise it"
_REMEMBER_LONGER = "Doris remembers a load for streaming_label_keep_max_second or label_num_threshold loads: raise them"


@dataclass(frozen=True, slots=True)
class Handle:
    """One prepared load, as the decision file keeps it.

    `txn` is 0 for a load that is committed already; `label` is empty when no row was sent; `upserts` says whether its
    rows replace those with the same keys.
    """

    label: str
    txn: int
    rows: int
    upserts: bool = True

    def to_json(self) -> dict[str, Any]:
        """The handle as a JSON value, which `from_json` reads back."""
        return {"label": self.label, "txn": self.txn, "rows": self.rows, "upserts": self.upserts}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Handle:
        """The handle in the JSON value that `to_json` wrote."""
        return cls(fields["label"], int(fields["txn"]), int(fields["rows"]), bool(fields.get("upserts", True)))


@dataclass(frozen=True, slots=True)
class Transactions:
    """Commits and aborts transactions and asks for their outcome; `retry` waits for absent servers. Picklable."""

    client: DorisClient
    retry: RetryPolicy

    def commit(self, table: TableId, handle: Handle) -> None:
        """Commit one prepared load; one that is committed already counts as success. Driver; may be repeated.

        Doris answers once the transaction is COMMITTED, and makes it visible later by itself. Raises CommitFailed (may
        be tried again), CommitUnknown (no answer within the time limit), LoadLost, and SinkError for final errors.
        """
        if not handle.label or not handle.txn:
            return
        where = f"{table}, label {handle.label}"
        backoff = Backoff(self.retry, f"commit of {where}")
        while True:
            try:
                reply = self.client.commit(table.database, handle.txn)
                if self._is_committed(reply, table, handle):
                    return
                error: SinkError = CommitFailed(f"Doris did not commit: {one_line(reply.message)}", where=where)
                if reply.verdict is ReplyVerdict.REFUSED:
                    raise error
            except (SinkUnavailable, CommitUnknown) as failed:
                # Committing again is safe: Doris then answers that the transaction is committed.
                error = CommitUnknown(
                    f"no answer to the commit: {failed.message}",
                    where=f"{where}, {failed.where}",
                    hint="the batch is decided: the next start commits it, within an hour of its load",
                )
            if not backoff.pause(error):
                raise backoff.given_up(error)

    def _is_committed(self, reply: TxnReply, table: TableId, handle: Handle) -> bool:
        if reply.verdict is ReplyVerdict.DONE:
            return True
        state = TransactionState.ABORTED if reply.verdict is ReplyVerdict.ABORTED else None
        if reply.verdict is ReplyVerdict.NOT_FOUND:
            state = self.client.state(table.database, handle.label)
        where = f"{table}, label {handle.label}"
        if state is TransactionState.ABORTED:
            reason = f"Doris has aborted {handle.rows:,} rows: {one_line(reply.message)}"
            raise LoadLost(reason, where=where, hint=_KEEP_LONGER, forgotten=False)
        if state is TransactionState.UNKNOWN:
            reason = f"Doris has forgotten a load of {handle.rows:,} rows, and so whether it was committed"
            raise LoadLost(reason, where=where, hint=_REMEMBER_LONGER, forgotten=True)
        return state is not None and state.decided

    def free(self, table: TableId, label: str, txn: int = 0) -> bool:
        """Free the label of an undecided load by aborting its transaction; False when its rows are committed for good.

        `txn` is the transaction that has the label; 0 or less when it is unknown. Raises SinkUnavailable when the
        transaction neither ends nor can be aborted.
        """
        return self.retry.call(lambda: self.free_label_once(table, label, txn), f"{table}: freeing the label {label}")

    def free_label_once(self, table: TableId, label: str, txn: int = 0) -> bool:
        """Try once to free a label, as `free`. Raises SinkUnavailable when it may work later."""
        state = self.client.state(table.database, label)
        if state.open:
            self._abort(table, label, txn)
            state = self.client.state(table.database, label)
        if state.open:
            reason = "an earlier attempt of this load does not end"
            raise SinkUnavailable(reason, where=f"{table}, label {label}", hint="try again later")
        return not state.decided

    def _abort(self, table: TableId, label: str, txn: int) -> None:
        number = txn if txn > 0 else self.client.transaction_of(table, label)
        if number is None:
            return
        try:
            reply = self.client.abort(table.database, number)
        except CommitUnknown as error:
            log.info("no answer to the abort of %s: %s", label, error)
            return
        if reply.verdict is ReplyVerdict.REFUSED:
            raise refusal(reply.message, f"{table}, label {label}")

    def outcome(self, database: str, label: str) -> TransactionState:
        """Wait until a load that was sent whole is no longer under way, and return its state."""
        backoff, state = Backoff(self.retry, f"the outcome of the load {label}"), TransactionState.PREPARE
        while True:
            try:
                state = self.client.state(database, label)
            except SinkUnavailable as error:
                log.info("no answer about %s: %s", label, error)
            if state is not TransactionState.PREPARE or not backoff.pause(state):
                return state

    def wait_until_visible(self, database: str, label: str, waits: RetryPolicy) -> None:
        """Wait until the rows committed under the label are visible. Raises SinkUnavailable when it takes too long."""
        backoff = Backoff(waits, f"{database}: waiting until the load {label} is visible")
        while self.retry.call(lambda: self.client.state(database, label), label) is TransactionState.COMMITTED:
            if not backoff.pause():
                raise SinkUnavailable(
                    f"{label} is committed and has not become visible within {waits.timeout_s:.0f} s",
                    where=database,
                    hint="see SHOW TRANSACTION and the back ends' logs; start again to continue waiting",
                )

    def abort_quietly(self, table: TableId, label: str, txn: int) -> None:
        """Try to abort a load that failed; if that fails too, it is aborted when its label is used again."""
        try:
            self._abort(table, label, txn)
        except SinkError as error:
            log.warning("the load %s cannot be aborted now: %s", label, error)
