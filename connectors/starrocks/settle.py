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
from connectors.starrocks.client import LabelState, State, Transactions
from connectors.streamload.labels import LabelSpace
from connectors.streamload.sql import Refused, Session, SqlClient, text_literal

log = logging.getLogger(__name__)

_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_DONE = (State.COMMITTED, State.VISIBLE)
_LOADS = "SELECT DB_NAME, LABEL FROM information_schema.loads WHERE LABEL LIKE {pattern}"
_DATABASES = "SHOW PROC '/transactions'"
_RUNNING = "SHOW PROC '/transactions/{id}/running'"
_TOOLS = "resynchronise the table, or start with a new --state-dir and empty tables"


@dataclass(frozen=True, slots=True)
class Handle:
    """What one prepared load is known by, as kept in the decision file. `labels` is empty when no row was sent."""

    labels: tuple[str, ...]

    @classmethod
    def of(cls, prepared: Prepared) -> Handle:
        """The handle inside of what the engine keeps."""
        return cls(tuple(prepared.handle["labels"]))

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `of` reads back."""
        return {"labels": list(self.labels)}


def commit_all(
    transactions: Transactions,
    batch: int,
    prepared: Sequence[Prepared],
    threads: int,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Commit every handle: those of a table one after another in the given order, tables in parallel.

    Raises CommitFailed, CommitUnknown or SinkError after every table was tried.
    """
    tables: dict[TableId, list[str]] = {}
    for item in prepared:
        tables.setdefault(item.table, []).extend(Handle.of(item).labels)

    def commit_table(table: TableId) -> SinkError | None:
        try:
            for label in tables[table]:
                commit_one(transactions, table, label, sleep)
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


def commit_one(
    transactions: Transactions, table: TableId, label: str, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Commit one label, or find that it is committed; a server that is away is asked again for a while.

    Raises CommitFailed, CommitUnknown or SinkError.
    """
    sent = False
    last: SinkError | None = None
    for pause_s in (*_PAUSES_S, 0.0):
        said = ""
        try:
            reply = transactions.commit(table, label)
            if reply.ok:
                return
            said = f": {reply.message or reply.status}"
        except CommitUnknown:
            log.info("%s: no answer to the commit of %s: asking for its state", table, label)
            sent = True
        except SinkUnavailable as error:
            last = error
            sleep(pause_s)
            continue
        try:
            state = transactions.state(table.database, label)
        except SinkUnavailable as error:
            last = error
            sleep(pause_s)
            continue
        if state.state in _DONE:
            return
        raise _not_committed(f"{table} (label {label})", state, said)
    kind = CommitUnknown if sent else CommitFailed
    reason = last.message if last else "no answer"
    raise kind(reason, where=f"{table} (label {label})", hint="check the front ends, then start again")


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
            state = transactions.clear(table, leftover.label)
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
    pattern = text_literal(space.start.replace("_", "\\_") + "%")
    rows = session.rows(_LOADS.format(pattern=pattern))
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
