"""One load of one table in one task: a stream load from its first row until it is prepared. Executor.

Doris answers with the number of rows it loaded; anything but the number that was sent fails the load.
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
from connectors.doris.client import DorisClient
from connectors.doris.replies import LoadReply, State, load_reply, refusal, shown
from connectors.doris.settle import Handle, Settler, transaction_of
from connectors.doris.targets import Targets
from connectors.shared.dead_letters.dead_letters import DeadLetters
from connectors.shared.sending.sender import Written
from connectors.shared.sql.client import SqlClient
from connectors.streamload.dialect import DORIS
from connectors.streamload.http import Upload
from connectors.streamload.labels import LabelSpace
from connectors.streamload.pack import Packing
from connectors.streamload.window import Encoded, WindowEncoder, WindowRules

log = logging.getLogger(__name__)

_ALWAYS = {"strict_mode": "true", "max_filter_ratio": "0"}
"""Loads are strict: otherwise a value that cannot be read becomes NULL without a word."""
_MOST_LABELS = 20


@dataclass(frozen=True, slots=True)
class LoadRules:
    """What the options say about loads. `two_phase`: prepared and committed; otherwise committed at once."""

    headers: Mapping[str, str]
    two_phase: bool = True
    packing: Packing = ""
    dead_letters: str | None = None


@dataclass(frozen=True, slots=True)
class Loader:
    """Begins the loads of one task. Thread safe."""

    client: DorisClient
    settler: Settler
    sql: SqlClient
    targets: Targets
    labels: LabelSpace
    rows: WindowRules
    rules: LoadRules

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> TableLoad:
        """The load of part number `part` of a table. Raises SinkError."""
        target = self.targets.get(first.table, first.schema)
        encoder = WindowEncoder(first.schema, target, DORIS, self.rows)
        name = self.labels.label(task.batch, first.table, task.partition, part)
        dead_letters = DeadLetters(self.rules.dead_letters or "", f"{first.table}/{name}", task.attempt)
        return TableLoad(self, task, first.table, part, target.upserts, encoder, dead_letters)


class TableLoad:
    """One open load, as `connectors.shared.sending.sender` drives it."""

    def __init__(
        self,
        loader: Loader,
        task: TaskAttempt,
        table: TableId,
        part: int,
        upserts: bool,
        encoder: WindowEncoder,
        dead_letters: DeadLetters,
    ) -> None:
        self._loader, self._task, self._table, self._part = loader, task, table, part
        self._upserts, self._encoder, self._dead_letters = upserts, encoder, dead_letters
        self._upload: Upload | None = None
        self._label = ""
        self._rows = 0
        self._lock = threading.Lock()
        self._cancelled = False

    def write(self, blocks: Sequence[ChangeBlock]) -> Written | None:
        """Check, encode and send a window. None when its text needs other headers than those sent."""
        encoded = self._encoder.encode(blocks, headers_sent=self._upload is not None)
        if encoded is None:
            return None
        if encoded.rows:
            self._send(self._upload or self._open(encoded), encoded.text)
            self._rows += encoded.rows
        self._dead_letters.write(encoded.dead_letters)
        return encoded.written

    def finish(self) -> Any:
        """End the body, check what was loaded; returns the handle of the prepared load."""
        if self._upload is None:
            self._dead_letters.close()
            return Handle("", 0, 0).to_json()
        try:
            answer = self._upload.finish()
        except CommitUnknown as error:
            handle = self._ask(error)
        else:
            handle = self._checked(load_reply(answer))
        self._dead_letters.close()
        return handle.to_json()

    def cancel(self) -> None:
        """Break off; Doris aborts a load whose body is not whole. May come from another thread."""
        with self._lock:
            self._cancelled = True
            upload = self._upload
        if upload is not None:
            upload.cancel()
        self._dead_letters.discard()

    def _send(self, upload: Upload, text: memoryview) -> None:
        if not upload.write(text):
            raise self._failure(load_reply(upload.finish()))

    def _open(self, encoded: Encoded) -> Upload:
        """Begin the request whose body the rows are, with a label that is free."""
        for again in range(_MOST_LABELS):
            label = self._loader.labels.label(self._task.batch, self._table, self._task.partition, self._part, again)
            upload = self._begin(label, encoded)
            if upload is not None:
                self._label = label
                return upload
        raise SinkError(
            f"{_MOST_LABELS} labels of this load are used up", where=self._where, hint="set another sink.label-prefix"
        )

    def _begin(self, label: str, encoded: Encoded) -> Upload | None:
        """None when the label is that of a committed load, whose rows may be loaded again."""
        rules = self._loader.rules
        phases = {"two_phase_commit": "true"} if rules.two_phase else {}
        headers = {**rules.headers, **_ALWAYS, **phases, **encoded.headers, "label": label}
        for _ in range(_MOST_LABELS):
            upload = self._loader.client.load(self._table, headers, rules.packing)
            with self._lock:
                self._upload = upload
                cancelled = self._cancelled
            if cancelled:
                upload.cancel()
                raise SinkUnavailable("the load was cancelled", where=self._where)
            if upload.early is None:
                return upload
            self._upload = None
            reply = load_reply(upload.early)
            if not reply.label_taken:
                raise self._failure(reply)
            if not self._loader.settler.free(self._table.database, label, reply.txn):
                self._may_repeat(label)
                return None
        raise SinkUnavailable("the label of this load does not become free", where=f"{self._table}, label {label}")

    def _may_repeat(self, label: str) -> None:
        """A load of this label is committed: its batch was carried out before, and its decision is not there."""
        if not self._upserts and self._loader.rules.two_phase:
            raise SinkError(
                "Doris has committed rows of this very load: the state directory is older than the tables",
                where=f"{self._table}, label {label}",
                hint="restore the newest state directory; for a new start, load this table anew: it has no key, so "
                "rows would be in it twice",
            )
        log.warning("%s: label %s is committed already, its rows are loaded once more", self._table, label)

    def _checked(self, reply: LoadReply) -> Handle:
        if not reply.succeeded:
            raise self._failure(reply)
        if reply.loaded != self._rows or reply.filtered or reply.unselected:
            if self._loader.rules.two_phase:
                self._loader.settler.abort(self._table.database, self._label, reply.txn)
            raise SinkError(
                f"{self._rows:,} rows were sent, Doris loaded {reply.loaded:,}, filtered {reply.filtered:,} and left "
                f"out {reply.unselected:,}{self._details(reply)}",
                where=self._where,
                hint="nothing of this load is visible" if self._loader.rules.two_phase else "see the reasons",
            )
        return Handle(self._label, reply.txn if self._loader.rules.two_phase else 0, self._rows)

    def _ask(self, error: CommitUnknown) -> Handle:
        """The answer to a whole load was lost: ask for the state of its label."""
        database = self._table.database
        state = self._loader.settler.outcome(database, self._label)
        if state is State.PRECOMMITTED and self._loader.rules.two_phase:
            with self._loader.sql.session() as session:
                txn = transaction_of(session, database, self._label)
            if txn is not None:
                log.info("%s: the answer was lost, Doris has the load prepared", self._where)
                return Handle(self._label, txn, self._rows)
        if state.decided and not self._loader.rules.two_phase:
            return Handle(self._label, 0, self._rows)
        reason = f"{error.message}; Doris says {state}"
        raise SinkUnavailable(reason, where=self._where, hint="the rows are sent again") from error

    def _failure(self, reply: LoadReply) -> SinkError:
        self._loader.targets.forget(self._table)
        return refusal(shown(reply.message) + self._details(reply), self._where)

    def _details(self, reply: LoadReply) -> str:
        lines = self._loader.client.error_lines(reply.error_url) if reply.error_url else ""
        return f": {shown(lines)}" if lines else ""

    @property
    def _where(self) -> str:
        return f"{self._table}, label {self._label}" if self._label else str(self._table)
