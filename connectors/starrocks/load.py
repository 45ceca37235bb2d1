"""One load of one table in one task: a transaction from its first row until it is prepared. Executor.

The transaction begins with the first row that is sent, as StarRocks refuses one without rows. Its answer to `prepare`
tells how many rows it loaded; anything but the number that was sent fails the load, which the task then sends again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.block import ChangeBlock
from cdc.errors import CommitUnknown, SinkError, SinkUnavailable
from cdc.schema import TableId
from cdc.sink import TaskAttempt
from connectors.shared.dead_letters.dead_letters import DeadLetters
from connectors.shared.sending.sender import Written
from connectors.starrocks import replies
from connectors.starrocks.client import LabelFinishedError, Transactions
from connectors.starrocks.replies import Reply
from connectors.starrocks.targets import Targets
from connectors.streamload.dialect import STARROCKS
from connectors.streamload.http import Upload
from connectors.streamload.labels import LabelSpace
from connectors.streamload.window import Encoded, WindowEncoder, WindowRules

log = logging.getLogger(__name__)

_MOST_LABELS = 20
ALWAYS = {"strict_mode": "true", "max_filter_ratio": "0"}
"""Loads are strict: otherwise a value that cannot be read becomes NULL without a word."""


@dataclass(frozen=True, slots=True)
class Loader:
    """Begins the loads of one task. Thread safe."""

    transactions: Transactions
    targets: Targets
    labels: LabelSpace
    headers: Mapping[str, str]
    rules: WindowRules
    dead_letters: str | None = None

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> TableLoad:
        """The load of part number `part` of a table. Raises SinkError."""
        target = self.targets.get(first.table, first.schema, task.batch)
        labels = [
            self.labels.label(task.batch, first.table, task.partition, part, again)
            for again in range(_MOST_LABELS if target.upserts else 1)
        ]
        dead_letters = DeadLetters(self.dead_letters or "", f"{first.table}/{labels[0]}", task.attempt)
        return TableLoad(
            self, first.table, labels, WindowEncoder(first.schema, target, STARROCKS, self.rules), dead_letters
        )


def handle(label: str) -> dict[str, Any]:
    """What the decision file keeps of a load; the label is empty when there was no row to send."""
    return {"label": label}


class TableLoad:
    """One open load, as `connectors.shared.sending.sender` drives it."""

    def __init__(
        self, loader: Loader, table: TableId, labels: Sequence[str], encoder: WindowEncoder, dead_letters: DeadLetters
    ) -> None:
        """`labels`: those to try, in order; a further one is for rows that may be loaded once more."""
        self._loader, self._table, self._labels, self._label = loader, table, labels, labels[0]
        self._encoder, self._dead_letters = encoder, dead_letters
        self._upload: Upload | None = None
        self._transaction: int | None = None
        self._rows = 0
        self._lock = threading.Lock()
        self._cancelled = False

    def write(self, blocks: Sequence[ChangeBlock]) -> Written | None:
        """Check, encode and send a window. None when its text needs other headers than those sent."""
        encoded = self._encoder.encode(blocks, headers_sent=self._upload is not None)
        if encoded is None:
            return None
        if encoded.rows:
            upload = self._upload or self._open(encoded)
            if not upload.write(encoded.text):
                self._refused(upload)
            self._rows += encoded.rows
        self._dead_letters.write(encoded.dead_letters)
        return encoded.written

    def finish(self) -> Any:
        """End the body, prepare, check what was loaded; returns the handle."""
        if self._upload is None:
            self._dead_letters.close()
            return handle("")
        try:
            self._check_load(replies.read(self._upload.finish()))
            self._check_prepared(self._loader.transactions.prepare(self._table, self._label))
        except CommitUnknown as error:
            # Nothing is decided yet, so what became of it does not matter: it is sent again.
            self._give_up()
            raise SinkUnavailable(error.message, where=error.where, hint="the rows are sent again") from error
        except SinkError:
            self._give_up()
            raise
        self._dead_letters.close()
        return handle(self._label)

    def cancel(self) -> None:
        """Break off; may come from another thread while one is inside `write` or `finish`."""
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            upload, begun = self._upload, self._transaction is not None
        if upload is not None:
            upload.cancel()
        self._dead_letters.discard()
        if begun:
            self._loader.transactions.roll_back(self._table, self._label)

    def _open(self, encoded: Encoded) -> Upload:
        """Begin the transaction and the request whose body the rows are."""
        transactions = self._loader.transactions
        number = self._begin()
        with self._lock:
            self._transaction = number
            if self._cancelled:
                transactions.roll_back(self._table, self._label)
                raise SinkUnavailable("the load was cancelled", where=self._where)
        try:
            headers = {**self._loader.headers, **ALWAYS, **encoded.headers}
            upload = transactions.load(self._table, self._label, headers)
        except SinkError:
            self._give_up()
            raise
        with self._lock:
            self._upload = upload
            cancelled = self._cancelled
        if cancelled:
            upload.cancel()
            self._give_up()
            raise SinkUnavailable("the load was cancelled", where=self._where)
        return upload

    def _begin(self) -> int:
        """Begin under the first label that is not used up."""
        for label in self._labels:
            self._label = label
            try:
                return self._loader.transactions.begin(self._table, label)
            except LabelFinishedError:
                log.warning("%s is committed already; its rows are loaded once more if the table has a key", label)
        raise SinkError(
            "StarRocks has committed rows of this very load: the state directory is older than the tables",
            where=self._where,
            hint="restore the newest state directory; for a new start, empty the table: it would get rows twice",
        )

    def _refused(self, upload: Upload) -> None:
        """The server answered before the body was whole."""
        reply = replies.read(upload.finish())
        self._give_up()
        raise replies.failure("rows were refused", self._where, reply)

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
        """Roll back, so that nothing stays open whatever comes next."""
        self._loader.transactions.roll_back(self._table, self._label)

    @property
    def _where(self) -> str:
        return f"{self._table} (label {self._label})"
