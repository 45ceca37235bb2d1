"""Commit prepared loads by their labels, and load staged files. Runs in the driver.

| state of a decided label | what it means | what is done |
|---|---|---|
| PREPARED | decided, not yet committed | commit |
| COMMITTED, VISIBLE | committed before; COMMITTED becomes VISIBLE by itself | nothing |
| ABORTED | the server aborted it after its time limit, or somebody did | LoadLost |
| UNKNOWN | the server has forgotten it, or is another server | LoadLost |
| PREPARE | another load has the label now | stop with an error |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc.errors import CommitFailed, CommitUnknown, SinkError, SinkUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from connectors.shared.staging.stage import StagingFolder
from connectors.shared.streamload.commits import LoadLost
from connectors.shared.streamload.table_load import STRICT
from connectors.starrocks import replies
from connectors.starrocks.client import DONE, LabelFinishedError, LabelState, Transactions, TransactionState
from connectors.starrocks.replies import Reply

_PIECE = 1 << 20
_LOADED = ("SUCCESS", "PUBLISH TIMEOUT")


@dataclass(frozen=True, slots=True)
class LabelCommit:
    """Commits prepared transactions by their labels. `retry` waits for a server that is away. Driver."""

    transactions: Transactions
    retry: RetryPolicy

    def __call__(self, table: TableId, handle: Any) -> None:
        """Commit the load of a handle, unless it is committed already.

        Raises CommitFailed (it is still prepared), CommitUnknown (sent, but no answer within the time limit),
        LoadLost, and SinkError for final errors.
        """
        label = str(handle["label"])
        if not label:
            return
        where, sent = f"{table} (label {label})", False
        backoff = Backoff(self.retry, f"commit of {where}")
        while True:
            try:
                error = self._try_commit(table, label, where)
                if error is None:
                    return
            except CommitUnknown as unknown:
                sent, error = True, unknown
            except SinkUnavailable as away:
                error = away
            # Committing again is safe: the label tells what became of the earlier commit.
            if not backoff.pause(error):
                raise backoff.given_up(_final_error(error, sent, where))

    def free(self, table: TableId, label: str) -> None:
        """Roll the load back, unless it is committed. Raises SinkError."""
        self.retry.call(lambda: self._free_label_once(table, label), f"{table}: rolling back the load {label}")

    def _free_label_once(self, table: TableId, label: str) -> None:
        try:
            state = self.transactions.clear(table, label)
        except LabelFinishedError:
            return  # somebody committed it
        if state in (TransactionState.PREPARE, TransactionState.PREPARED):
            hint = "it ends with its timeout; see SHOW PROC '/transactions'"
            raise SinkUnavailable("a load cannot be rolled back", where=f"{table} (label {label})", hint=hint)

    def _try_commit(self, table: TableId, label: str, where: str) -> SinkError | None:
        """Try once; None when the load is committed, else the error that another try may overcome. Raises SinkError."""
        reply = self.transactions.commit(table, label)
        if reply.ok:
            return None
        state = self.transactions.state(table.database, label)
        if state.state in DONE:
            return None
        if state.state is not TransactionState.PREPARED:
            raise _lost(where, state)
        if replies.is_denied(reply):
            raise replies.failure("the load cannot be committed", where, reply)
        message = reply.message or reply.status
        return CommitFailed(f"StarRocks did not commit: {message}", where=where, hint="start again to try once more")


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """Loads the staged files of one batch. `retry` waits for a server that is away. Driver."""

    transactions: Transactions
    staging: StagingFolder
    headers: Mapping[str, str]
    batch: int
    retry: RetryPolicy

    def __call__(self, table: TableId, handle: Mapping[str, Any]) -> None:
        """Load the file of a handle, unless it is loaded already. Raises CommitFailed or SinkError."""
        label = str(handle["label"])
        if not label:
            return
        where = f"{table} (label {label})"

        def load() -> None:
            try:
                if self._is_done(table, label) or self._load(table, label, handle):
                    return
            except (SinkUnavailable, CommitUnknown) as error:
                hint = error.hint or "start again to try once more"
                raise CommitFailed(error.message, where=error.where, hint=hint) from error
            raise CommitFailed("StarRocks is still busy with the load", where=where)

        self.retry.call(load, f"the load of {where}")

    def _is_done(self, table: TableId, label: str) -> bool:
        return self.transactions.state(table.database, label).state in DONE

    def _load(self, table: TableId, label: str, handle: Mapping[str, Any]) -> bool:
        """Send the file; False when the label is in use just now."""
        path = self.staging.path(self.batch) / str(handle["file"])
        where = f"{table} (label {label})"
        try:
            file = path.open("rb")
        except OSError as error:
            hint = "the state directory is incomplete: restore it"
            raise SinkError(f"{path.name} cannot be read: {error.strerror}", where=where, hint=hint) from error
        with file:
            headers = {**self.headers, **STRICT, **handle["headers"], "label": label}
            reply = self.transactions.plain_load(table, headers, iter(lambda: file.read(_PIECE), b""))
        if reply.status in _LOADED:
            _check_rows(reply, int(handle["rows"]), where)
            return True
        if reply.label_exists or reply.status == "LABEL ALREADY EXISTS":
            return str(reply.fields.get("ExistingJobStatus")) == "FINISHED"
        raise replies.failure("rows were refused", where, reply, self.transactions.error_rows(reply))


def _check_rows(reply: Reply, sent: int, where: str) -> None:
    loaded, filtered = reply.number("NumberLoadedRows"), reply.number("NumberFilteredRows") or 0
    if filtered or (loaded is not None and loaded != sent):
        hint = "compare the table with the source"
        raise SinkError(
            f"{sent} rows were sent, StarRocks loaded {loaded}, filtered {filtered}", where=where, hint=hint
        )


def _final_error(error: SinkError, sent: bool, where: str) -> SinkError:
    """The error to raise when the time for retries has run out."""
    if isinstance(error, CommitFailed):
        return error
    reason = f"{error.where}: {error.message}" if error.where else error.message
    kind = CommitUnknown if sent else CommitFailed
    return kind(reason, where=where, hint="check the front ends, then start again: the batch is decided")


def _lost(where: str, found: LabelState) -> SinkError:
    """The error for a label whose batch is decided, but whose load is no longer prepared."""
    if found.state is TransactionState.ABORTED:
        hint = (
            "then keep prepared transactions longer: sink.prepared-timeout, or the server's "
            "prepared_transaction_default_timeout_second"
        )
        reason = f"StarRocks has aborted a prepared load: {found.reason or 'it gives no reason'}"
        return LoadLost(reason, where=where, hint=hint, forgotten=False)
    if found.state is TransactionState.UNKNOWN:
        hint = "StarRocks keeps label_keep_max_num finished loads of a database (1000 by default): raise it"
        return LoadLost("StarRocks does not know the label any more", where=where, hint=hint, forgotten=True)
    hint = "another pipeline uses this one's labels: give one of them another sink.label-prefix"
    return CommitUnknown(f"another load has the label (state {found.state})", where=where, hint=hint)
