"""What became of a transaction: asked, never guessed. Driver and executors.

| state of a label | before the decision | after the decision |
|---|---|---|
| PREPARE | an earlier attempt is still being loaded: aborted | cannot be |
| PRECOMMITTED | an earlier attempt got so far: aborted | committed |
| COMMITTED, VISIBLE | the batch is carried out again after its decision was lost | done |
| ABORTED | free for use | the rows are lost in the sink: an error that says what to do |
| UNKNOWN | free for use | forgotten, either way: an error that says what to do |

Doris keeps a precommitted transaction for an hour (stream_load_default_precommit_timeout_second), and a finished label
for 12 hours or 2,000 loads of its database, whichever ends first (streaming_label_keep_max_second,
label_num_threshold).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cdc.errors import CommitFailed, CommitUnknown, SinkError, SinkUnavailable
from connectors.doris.client import DorisClient
from connectors.doris.replies import State, TxnReply, Verdict, shown
from connectors.shared.sql.client import Refused, Session, quoted, text_literal
from connectors.streamload.labels import Label, LabelSpace

_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0)
_OWN_DATABASES = frozenset({"information_schema", "mysql", "__internal_schema"})
_AGAIN = (
    "the batch is decided and is not read again: compare the table with the source, and run cdc resync for it if it "
    "differs; remove commits/{batch}.json from the state directory, or every start stops here again"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Handle:
    """One prepared load. `txn` is 0 for a load that is committed already, `label` empty when no row was sent."""

    label: str
    txn: int
    rows: int

    def to_json(self) -> dict[str, Any]:
        """A JSON value that `from_json` reads back."""
        return {"label": self.label, "txn": self.txn, "rows": self.rows}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Handle:
        """The handle that `to_json` made."""
        return cls(fields["label"], int(fields["txn"]), int(fields["rows"]))


class Settler:
    """Commits, aborts, and finds out. Picklable."""

    def __init__(self, client: DorisClient, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client, self._sleep = client, sleep

    def commit(self, batch: int, database: str, handle: Handle) -> None:
        """Commit one prepared load; that it is committed already is a success. Driver, may repeat.

        Doris answers as soon as the transaction is COMMITTED and makes it visible by itself. Raises CommitFailed (may
        be tried again), CommitUnknown (no answer, or Doris has forgotten), SinkError (the rows are lost in the sink).
        """
        if not handle.label or not handle.txn:
            return
        where = f"{database}, label {handle.label}"
        last: SinkError = CommitFailed("the commit was not answered", where=where)
        for pause_s in self._patiently():
            try:
                reply = self._client.commit(database, handle.txn)
                if self._is_committed(reply, batch, database, handle):
                    return
                last = CommitFailed(f"Doris did not commit: {shown(reply.message)}", where=where)
                if reply.verdict is Verdict.REFUSED:
                    raise last
            except _Forgotten:
                raise
            except (SinkUnavailable, CommitUnknown) as error:
                # Committing again is safe: a transaction that is committed says so.
                last = CommitUnknown(
                    f"no answer to the commit: {error.message}",
                    where=f"{where}, {error.where}",
                    hint="the batch is decided: the next start commits it, within an hour of its load",
                )
            self._sleep(pause_s)
        raise last

    def _is_committed(self, reply: TxnReply, batch: int, database: str, handle: Handle) -> bool:
        if reply.verdict is Verdict.DONE:
            return True
        state = State.ABORTED if reply.verdict is Verdict.ABORTED else None
        if reply.verdict is Verdict.NOT_FOUND:
            state = self._client.state(database, handle.label)
        if state is State.ABORTED:
            raise SinkError(
                f"Doris has aborted {handle.rows:,} rows that were to be committed: {shown(reply.message)}",
                where=f"{database}, label {handle.label}",
                hint=_AGAIN.format(batch=batch),
            )
        if state is State.UNKNOWN:
            raise _Forgotten(
                f"Doris has forgotten the load of {handle.rows:,} rows, and so whether it was committed",
                where=f"{database}, label {handle.label}",
                hint=_AGAIN.format(batch=batch),
            )
        return state is not None and state.decided

    def free(self, database: str, label: str, txn: int) -> bool:
        """Make a label of an undecided load usable: abort what has it. False when its rows are committed for good.

        `txn` is the transaction that the server named with the label, 0 or less when it named none. Raises
        SinkUnavailable when the transaction neither ends nor can be aborted.
        """
        for pause_s in self._patiently():
            state = self._client.state(database, label)
            if state.decided:
                return False
            if state in (State.ABORTED, State.UNKNOWN):
                return True
            if txn > 0:
                try:
                    self._client.abort(database, txn)
                    continue
                except CommitUnknown as error:
                    log.info("no answer to the abort of %s: %s", label, error)
            self._sleep(pause_s)
        raise SinkUnavailable(
            "an earlier attempt of this load does not end", where=f"{database}, label {label}", hint="try again later"
        )

    def outcome(self, database: str, label: str) -> State:
        """The state of a load that was sent whole, once it is no longer under way."""
        state = State.PREPARE
        for pause_s in self._patiently():
            try:
                state = self._client.state(database, label)
            except SinkUnavailable as error:
                log.info("no answer about %s: %s", label, error)
            if state is not State.PREPARE:
                return state
            self._sleep(pause_s)
        return state

    def abort(self, database: str, label: str, txn: int) -> None:
        """Abort a prepared transaction that was never decided. Raises SinkUnavailable when no answer comes."""
        for pause_s in self._patiently():
            try:
                reply = self._client.abort(database, txn)
            except (CommitUnknown, SinkUnavailable) as error:
                log.info("no answer to the abort of %s: %s", label, error)
            else:
                if reply.verdict in (Verdict.DONE, Verdict.ABORTED, Verdict.NOT_FOUND):
                    return
                log.info("%s is not aborted: %s", label, reply.message)
            self._sleep(pause_s)
        raise SinkUnavailable("a load cannot be aborted", where=f"{database}, label {label}", hint="try again later")

    def _patiently(self) -> Iterator[float]:
        yield from _PAUSES_S


class _Forgotten(CommitUnknown):
    """Asking again cannot help, as the server has answered. Crosses processes as a plain CommitUnknown."""

    def to_json(self) -> str:
        return CommitUnknown(self.message, where=self.where, hint=self.hint).to_json()


def prepared(session: Session, space: LabelSpace) -> Iterator[tuple[str, Label, int]]:
    """Database, label and transaction of everything of this pipeline that waits for a decision. Driver."""
    for database in databases(session):
        query = f"SHOW TRANSACTION FROM {quoted(database)} WHERE status = 'precommitted'"
        try:
            records = session.records(query)
        except Refused as error:
            # Databases where the user may not load have nothing of this pipeline.
            log.debug("transactions of %s cannot be listed: %s", database, error)
            continue
        for record in records:
            label = space.read(str(record["Label"]))
            if label is not None:
                yield database, label, int(record["TransactionId"])


def transaction_of(session: Session, database: str, label: str) -> int | None:
    """The id of a label's newest transaction, None when Doris knows none."""
    query = f"SHOW TRANSACTION FROM {quoted(database)} WHERE label = {text_literal(label)}"
    try:
        records = session.records(query)
    except Refused:
        return None
    return max((int(record["TransactionId"]) for record in records), default=None)


def databases(session: Session) -> list[str]:
    """The databases that the user can see, without Doris' own."""
    rows = session.rows("SELECT SCHEMA_NAME FROM information_schema.schemata")
    return sorted(str(row[0]) for row in rows if str(row[0]).lower() not in _OWN_DATABASES)
