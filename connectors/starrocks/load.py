"""One load of one table in one task: a transaction, from its first row until it is prepared. Runs in executors.

The transaction begins with the first row, because StarRocks refuses one without rows. The answer to `prepare` has the
number of rows that were loaded. Any number but that of the rows sent makes the load fail; the task then sends it again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetters, folder_of
from cdc.errors import CommitUnknown, SinkError, SinkUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.sink import TaskAttempt
from connectors.shared.streamload.dialect import STARROCKS
from connectors.shared.streamload.flush import EncodedFlush, FlushEncoder, RowRules
from connectors.shared.streamload.http import Upload
from connectors.shared.streamload.label_record import LabelWriter
from connectors.shared.streamload.labels import LabelSpace
from connectors.shared.streamload.table_load import STRICT, TableLoad
from connectors.shared.streamload.targets import Targets
from connectors.starrocks import replies
from connectors.starrocks.client import LabelFinishedError, Transactions
from connectors.starrocks.replies import Reply

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loader:
    """Begins the loads of one task. Thread safe."""

    transactions: Transactions
    targets: Targets
    labels: LabelSpace
    record: LabelWriter
    headers: Mapping[str, str]
    rules: RowRules
    retry: RetryPolicy
    dead_letters: str | None = None

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> StarRocksLoad:
        """Begin the load of part number `part` of a table. Raises SinkError."""
        target = self.targets.get(first.table, first.schema, task.batch)
        encoder = FlushEncoder(first.schema, target, STARROCKS, self.rules)
        labels = self.labels.choices(task, first.table, part)
        name = self.labels.label(task.batch, first.table, task.partition, part)  # the same for every generation
        dead_letters = DeadLetters(self.dead_letters or "", f"{folder_of(first.table)}/{name}", task.attempt)
        return StarRocksLoad(self, first.table, labels, target.upserts, encoder, dead_letters)


def handle(label: str, *, upserts: bool) -> dict[str, Any]:
    """The handle of a load, as the decision file keeps it; the label is empty when there was no row to send."""
    return {"label": label, "upserts": upserts}


class StarRocksLoad(TableLoad[Upload]):
    """A load in one transaction."""

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
        super().__init__(table, labels[0], encoder, dead_letters, loader.retry)
        self._loader, self._labels, self._upserts = loader, labels if upserts else labels[:1], upserts
        self._transaction: int | None = None

    def _open(self, encoded: EncodedFlush) -> Upload:
        """Begin the transaction, and the request whose body the rows become."""
        self._transaction = self._begin()
        try:
            headers = {**self._loader.headers, **STRICT, **encoded.headers}
            return self._loader.transactions.load(self._table, self._label, headers)
        except SinkError:
            self._give_up()
            raise

    def _begin(self) -> int:
        """Begin a transaction under the first label that no committed load has."""
        for label in self._labels:
            self._label = label
            self._loader.record.note(self._table, label)
            try:
                return self._loader.transactions.begin(self._table, label)
            except LabelFinishedError:
                log.warning("%s is committed already; its rows are loaded once more if the table has a key", label)
        raise SinkError(
            "StarRocks has committed rows of this very load: the state directory is older than the tables",
            where=self._where,
            hint="restore the newest state directory; for a new start, empty the table: it would get rows twice",
        )

    def _raise_refusal(self, body: Upload) -> NoReturn:
        reply = replies.read(body.finish())
        self._give_up()
        raise replies.failure("rows were refused", self._where, reply)

    def _nothing(self) -> Any:
        return handle("", upserts=self._upserts)

    def _finish_body(self, body: Upload) -> Any:
        """End the body, prepare the transaction, and check how much was loaded."""
        try:
            self._check_load(replies.read(body.finish()))
            self._check_prepared(self._loader.transactions.prepare(self._table, self._label))
        except CommitUnknown as error:
            # The batch is not decided yet, so the outcome does not matter: the rows are sent again.
            self._give_up()
            raise SinkUnavailable(error.message, where=error.where, hint="the rows are sent again") from error
        except SinkError:
            self._give_up()
            raise
        return handle(self._label, upserts=self._upserts)

    def _check_load(self, reply: Reply) -> None:
        if not reply.ok:
            self._loader.targets.forget(self._table)
            raise replies.failure("rows were refused", self._where, reply)
        number = reply.number("TxnId")
        if number is not None and self._transaction and number != self._transaction:
            raise SinkUnavailable(
                f"rows went into transaction {number} instead of {self._transaction}: another task uses this label",
                where=self._where,
                hint="an earlier attempt of the task is still running; this one is tried again",
            )

    def _check_prepared(self, reply: Reply) -> None:
        if not reply.ok:
            self._loader.targets.forget(self._table)
            details = self._loader.transactions.error_rows(reply)
            raise replies.failure("rows were refused", self._where, reply, details)
        loaded, filtered = reply.number("NumberLoadedRows"), reply.number("NumberFilteredRows") or 0
        if filtered or (loaded is not None and loaded != self._rows):
            raise SinkUnavailable(
                f"{self._rows} rows were sent, StarRocks loaded {loaded} and filtered {filtered}",
                where=self._where,
                hint="nothing of them is visible; they are sent again",
            )

    def _give_up(self) -> None:
        """Roll back, so that no transaction stays open."""
        if self._transaction is not None:
            self._loader.transactions.roll_back(self._table, self._label)
