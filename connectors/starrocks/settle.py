"""What becomes of labels: commit of decided ones, removal of what no decision names. Driver.

| state of a decided label | what it means | what is done |
|---|---|---|
| PREPARED | decided, not committed | commit |
| COMMITTED, VISIBLE | committed before; not yet visible is as good | nothing |
| ABORTED | the server gave it up: it was prepared for longer than its limit, or somebody aborted it | stop |
| PREPARE, UNKNOWN | the server has forgotten it, or is another one | stop |

Where it says stop, the rows are decided and will not be read again, and guessing would lose or double them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cdc.errors import CommitFailed, CommitUnknown, SinkError, SinkUnavailable
from cdc.faults import reached
from cdc.schema import TableId
from cdc.sink import Prepared
from connectors.shared.sql.client import Refused, Session, SqlClient, text_literal
from connectors.starrocks.client import LabelFinishedError, LabelState, State, Transactions
from connectors.streamload.labels import LabelSpace

log = logging.getLogger(__name__)

_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_DONE = (State.COMMITTED, State.VISIBLE)
_LOADS = "SELECT DB_NAME, LABEL FROM information_schema.loads WHERE LABEL LIKE {pattern}"
_DATABASES = "SHOW PROC '/transactions'"
_RUNNING = "SHOW PROC '/transactions/{id}/running'"
_TOOLS = "resynchronise the table, or start with a new --state-dir and empty tables"


Commit = Callable[[TableId, Any], None]
"""Commits one handle of a table, or finds that it is committed. Raises SinkError."""


def commit_all(commit: Commit, batch: int, prepared: Sequence[Prepared], threads: int) -> None:
    """Commit every handle: those of a table one after another in the given order, tables in parallel.

    Raises CommitFailed, CommitUnknown or SinkError after every table was tried.
    """
    tables: dict[TableId, list[Any]] = {}
    for item in prepared:
        tables.setdefault(item.table, []).append(item.handle)

    def commit_table(table: TableId) -> SinkError | None:
        try:
            for handle in tables[table]:
                commit(table, handle)
                reached("mid-commit", batch)
        except SinkError as error:
            return error
        return None

    if len(tables) == 1:
        errors = [commit_table(table) for table in tables]
    else:
        with ThreadPoolExecutor(max(1, min(threads, len(tables))), thread_name_prefix="cdc-commit") as pool:
            errors = list(pool.map(commit_table, tables))
    failed = [error for error in errors if error is not None]
    if failed:
        # What trying again cannot change is told first.
        raise next((error for error in failed if not error.retryable), failed[0])


@dataclass(frozen=True, slots=True)
class LabelCommit:
    """Commits prepared transactions by their labels. A server that is away is asked again for a while. Driver."""

    transactions: Transactions
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, table: TableId, handle: Any) -> None:
        """Commit one handle, or find that it is committed. Raises CommitFailed, CommitUnknown or SinkError."""
        label = str(handle["label"])
        if not label:
            return
        sent, last = False, "no answer"
        for pause_s in (*_PAUSES_S, 0.0):
            try:
                said = self._commit(table, label)
                if said is None:
                    return
                state = self.transactions.state(table.database, label)
            except CommitUnknown as error:
                # Sent, and not answered: the next turn's commit is answered by what became of this one.
                log.info("%s: no answer to the commit of %s", table, label)
                sent, last = True, _said_of(error)
                continue
            except SinkUnavailable as error:
                last = _said_of(error)
                self.sleep(pause_s)
                continue
            if state.state in _DONE:
                return
            raise _not_committed(f"{table} (label {label})", state, said)
        kind = CommitUnknown if sent else CommitFailed
        raise kind(last, where=f"{table} (label {label})", hint="check the front ends, then start again")

    def _commit(self, table: TableId, label: str) -> str | None:
        """None when it is committed, else what the server says instead."""
        reply = self.transactions.commit(table, label)
        return None if reply.ok else f": {reply.message or reply.status}"


def _said_of(error: SinkError) -> str:
    """The reason, with the server it is about."""
    return f"{error.where}: {error.message}" if error.where else error.message


def _not_committed(where: str, state: LabelState, said: str) -> SinkError:
    """The error for a decided label that did not become committed."""
    if state.state is State.PREPARED:
        return CommitFailed(f"StarRocks did not commit{said}", where=where, hint="start again to try once more")
    if state.state is State.ABORTED:
        hint = (
            "the batch was decided and is not read again, so its rows of this table are lost in StarRocks: "
            f"{_TOOLS}; then keep prepared transactions longer (sink.prepared-timeout, or the server's "
            "prepared_transaction_default_timeout_second)"
        )
        reason = f"StarRocks has aborted a prepared load: {state.reason or 'it gives no reason'}"
        return CommitUnknown(reason, where=where, hint=hint)
    hint = (
        "it keeps label_keep_max_num finished loads of a database (1000 by default) for label_keep_max_second; whether "
        f"this one was committed cannot be told any more: compare the table with the source, and {_TOOLS} if it differs"
    )
    return CommitUnknown(f"StarRocks does not know the label (state {state.state})", where=where, hint=hint)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A label of this pipeline that the server has a transaction for."""

    database: str
    label: str


def roll_back_leftovers(transactions: Transactions, sql: SqlClient, space: LabelSpace, batch: int) -> int:
    """Roll back what this pipeline prepared for `batch` or later ones and never decided; returns how many.

    Labels of batches before are decided, and left alone. Raises SinkUnavailable or SinkError.
    """
    with sql.session() as session:
        found = _leftovers(session, space)
    number = 0
    for leftover in found:
        parts = space.read(leftover.label)
        if parts is None or parts.batch < batch:
            continue
        # The name is only used to cancel by; the label holds a hash of it.
        table = TableId(leftover.database, "_")
        if transactions.state(leftover.database, leftover.label).state in (State.PREPARE, State.PREPARED):
            try:
                state = transactions.clear(table, leftover.label)
            except LabelFinishedError:
                continue  # somebody committed it at this moment
            number += 1
            if state in (State.PREPARE, State.PREPARED):
                log.warning(
                    "%s in %s cannot be rolled back; it ends with its timeout", leftover.label, leftover.database
                )
    return number


def _leftovers(session: Session, space: LabelSpace) -> set[Leftover]:
    """Transactions under this pipeline's labels, from wherever the account may look."""
    found, seen = set(), False
    for look in (_from_loads, _from_transactions):
        try:
            found |= look(session, space)
            seen = True
        except Refused as error:
            log.info("loads left over by an earlier run: %s", error)
    if not seen:
        log.warning(
            "this account may not list loads in StarRocks: what an earlier run left prepared is found by its label "
            "when its part of the batch is loaded again, or ends with its timeout"
        )
    return found


def _from_loads(session: Session, space: LabelSpace) -> set[Leftover]:
    rows = session.rows(_LOADS.format(pattern=text_literal(space.start + "%")))
    return {Leftover(str(database), str(label)) for database, label in rows if space.read(str(label))}


def _from_transactions(session: Session, space: LabelSpace) -> set[Leftover]:
    found = set()
    for database in session.records(_DATABASES):
        number, name = str(database["DbId"]), str(database["DbName"])
        for row in session.records(_RUNNING.format(id=int(number))):
            label = str(row["Label"])
            if space.read(label):
                # Older versions show the cluster's name before the database's.
                found.add(Leftover(name.rpartition(":")[2], label))
    return found
