"""One load of one table in one task: a stream load, from its first row until it is prepared. Runs in executors.

Doris answers with the number of rows that it loaded. Any number but that of the rows sent makes the load fail.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetters, folder_of
from cdc.errors import CommitUnknown, SinkError, SinkUnavailable
from cdc.schema import TableId
from cdc.sink import TaskAttempt
from connectors.doris.replies import LoadReply, TransactionState, load_reply, one_line, refusal
from connectors.doris.transactions import Handle, Transactions
from connectors.shared.streamload.dialect import DORIS
from connectors.shared.streamload.flush import EncodedFlush, FlushEncoder, RowRules
from connectors.shared.streamload.http import Upload
from connectors.shared.streamload.label_record import LabelWriter
from connectors.shared.streamload.labels import MOST_LABELS, LabelSpace
from connectors.shared.streamload.pack import Packing
from connectors.shared.streamload.table_load import STRICT, TableLoad
from connectors.shared.streamload.targets import Targets

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadRules:
    """The options about loads. With `two_phase` a load is prepared and committed later, otherwise committed at once."""

    headers: Mapping[str, str]
    two_phase: bool = True
    packing: Packing = ""
    dead_letters: str | None = None


@dataclass(frozen=True, slots=True)
class Loader:
    """Begins the loads of one task. Thread safe."""

    transactions: Transactions
    targets: Targets
    labels: LabelSpace
    record: LabelWriter
    rows: RowRules
    rules: LoadRules

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> DorisLoad:
        """Begin the load of part number `part` of a table. Raises SinkError."""
        target = self.targets.get(first.table, first.schema, task.batch)
        encoder = FlushEncoder(first.schema, target, DORIS, self.rows)
        labels = self.labels.choices(task, first.table, part)
        name = self.labels.label(task.batch, first.table, task.partition, part)  # the same for every generation
        dead_letters = DeadLetters(self.rules.dead_letters or "", f"{folder_of(first.table)}/{name}", task.attempt)
        return DorisLoad(self, first.table, labels, target.upserts, encoder, dead_letters)


class DorisLoad(TableLoad[Upload]):
    """One stream load."""

    def __init__(
        self,
        loader: Loader,
        table: TableId,
        labels: tuple[str, ...],
        upserts: bool,
        encoder: FlushEncoder,
        dead_letters: DeadLetters,
    ) -> None:
        """`labels` are tried in order: those after the first are for rows that may be loaded a second time."""
        super().__init__(table, "", encoder, dead_letters, loader.transactions.retry)
        self._loader, self._labels, self._upserts = loader, labels, upserts
        # A load that is cancelled stops waiting.
        self._transactions = Transactions(loader.transactions.client, self._retry)

    def _open(self, encoded: EncodedFlush) -> Upload:
        """Begin the request with a free label; the rows become its body."""
        for label in self._labels:
            upload = self._begin(label, encoded)
            if upload is not None:
                self._label = label
                return upload
        hint = "set another sink.label-prefix"
        raise SinkError(f"{MOST_LABELS} labels of this load are used up", where=self._where, hint=hint)

    def _begin(self, label: str, encoded: EncodedFlush) -> Upload | None:
        """Begin the load; None when a committed load has the label and its rows may be loaded again."""
        rules, transactions = self._loader.rules, self._transactions
        phases = {"two_phase_commit": "true"} if rules.two_phase else {}
        headers = {**rules.headers, **STRICT, **phases, **encoded.headers, "label": label}
        self._loader.record.note(self._table, label)
        for _ in range(2):
            upload = transactions.client.load(self._table, headers, rules.packing)
            if upload.early is None:
                return upload
            reply = load_reply(upload.early)
            if not reply.label_exists:
                raise self._failure(reply)
            if not transactions.free_label_once(self._table, label, reply.txn):
                self._may_repeat(label)
                return None
        raise SinkUnavailable("the label of this load does not become free", where=f"{self._table}, label {label}")

    def _may_repeat(self, label: str) -> None:
        """Decide whether to load again the rows of a label that is committed already.

        The batch was carried out before, but the state directory does not have its decision. Raises SinkError where
        loading again would duplicate rows.
        """
        if not self._upserts and self._loader.rules.two_phase:
            raise SinkError(
                "Doris has committed rows of this very load: the state directory is older than the tables",
                where=f"{self._table}, label {label}",
                hint="restore the newest state directory; for a new start, load this table again: it has no key, so "
                "rows would be in it twice",
            )
        log.warning("%s: label %s is committed already, its rows are loaded once more", self._table, label)

    def _raise_refusal(self, body: Upload) -> NoReturn:
        raise self._failure(load_reply(body.finish()))

    def _nothing(self) -> Any:
        return Handle("", 0, 0, self._upserts).to_json()

    def _finish_body(self, body: Upload) -> Any:
        try:
            answer = body.finish()
        except CommitUnknown as error:
            return self._looked_up(error).to_json()
        try:
            reply = load_reply(answer)
        except SinkUnavailable as error:  # as of a proxy, which may have passed the load on
            return self._looked_up(error).to_json()
        if reply.label_exists:
            raise self._label_taken(reply)
        return self._check_reply(reply).to_json()

    def _label_taken(self, reply: LoadReply) -> SinkUnavailable:
        """Free the label that another load has, as told after the body only: by a proxy that sent this load twice, or
        that held it back until it was complete. Raises as `free_label_once` and `_may_repeat`."""
        if not self._transactions.free_label_once(self._table, self._label, reply.txn):
            self._may_repeat(self._label)
        reason = f"another load had its label: {one_line(reply.message)}"
        return SinkUnavailable(reason, where=self._where, hint="the rows are sent again")

    def _check_reply(self, reply: LoadReply) -> Handle:
        two_phase = self._loader.rules.two_phase
        if not reply.succeeded:
            raise self._failure(reply)
        if reply.loaded != self._rows or reply.filtered or reply.unselected:
            if two_phase:
                self._transactions.abort_quietly(self._table, self._label, reply.txn)
            raise SinkError(
                f"{self._rows:,} rows were sent, Doris loaded {reply.loaded:,}, filtered {reply.filtered:,} and left "
                f"out {reply.unselected:,}{self._details(reply)}",
                where=self._where,
                hint="nothing of this load is visible" if two_phase else "see the reasons",
            )
        return Handle(self._label, reply.txn if two_phase else 0, self._rows, self._upserts)

    def _looked_up(self, error: SinkError) -> Handle:
        """The handle of a load that was sent whole but whose answer was lost: the state of its label tells."""
        transactions, two_phase = self._transactions, self._loader.rules.two_phase
        state = transactions.outcome(self._table.database, self._label)
        if state is TransactionState.PRECOMMITTED and two_phase:
            txn = self._retry.call(lambda: transactions.client.transaction_of(self._table, self._label), self._where)
            if txn is not None:
                log.info("%s: the answer was lost, Doris has the load prepared", self._where)
                return Handle(self._label, txn, self._rows, self._upserts)
        if state.decided and not two_phase:
            return Handle(self._label, 0, self._rows, self._upserts)
        reason = f"{error.message}; Doris says {state}"
        raise SinkUnavailable(reason, where=self._where, hint="the rows are sent again") from error

    def _failure(self, reply: LoadReply) -> SinkError:
        self._loader.targets.forget(self._table)
        return refusal(one_line(reply.message) + self._details(reply), self._where)

    def _details(self, reply: LoadReply) -> str:
        lines = self._transactions.client.error_lines(reply.error_url) if reply.error_url else ""
        return f": {one_line(lines)}" if lines else ""
