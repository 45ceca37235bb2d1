"""At-least-once: rows wait in files of the state directory, and the driver loads them once the batch is decided.

StarRocks holds nothing between the phases, so nothing expires there, schema changes wait for nothing, and versions
without the transaction interface will do. The label makes a load happen once for as long as the server remembers it; a
batch that is committed again after that is loaded again.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from cdc.block import ChangeBlock
from cdc.errors import CommitFailed, CommitUnknown, SinkError, SinkUnavailable
from cdc.schema import TableId
from cdc.sink import TaskAttempt
from cdc.state.durable import close_synced, open_new, state_error
from connectors.shared.dead_letters.dead_letters import DeadLetters
from connectors.shared.sending.sender import Written
from connectors.starrocks import replies
from connectors.starrocks.client import State, Transactions
from connectors.starrocks.load import ALWAYS
from connectors.starrocks.replies import Reply
from connectors.starrocks.targets import Targets
from connectors.streamload.dialect import STARROCKS
from connectors.streamload.labels import LabelSpace
from connectors.streamload.window import WindowEncoder, WindowRules

log = logging.getLogger(__name__)

_FOLDER = "loads"
_PIECE = 1 << 20
_PAUSES_S = (0.5, 1.0, 2.0, 4.0)
_LOADED = ("SUCCESS", "PUBLISH TIMEOUT")


@dataclass(frozen=True, slots=True)
class StagedLoader:
    """Begins the files of one task. Thread safe."""

    directory: Path
    targets: Targets
    labels: LabelSpace
    rules: WindowRules
    dead_letters: str | None = None

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> StagedLoad:
        """The file of part number `part` of a table. Raises SinkError."""
        target = self.targets.get(first.table, first.schema, task.batch)
        label = self.labels.label(task.batch, first.table, task.partition, part)
        dead_letters = DeadLetters(self.dead_letters or "", f"{first.table}/{label}", task.attempt)
        path = self.directory / _FOLDER / str(task.batch) / f"{label}.{task.attempt}"
        return StagedLoad(path, label, WindowEncoder(first.schema, target, STARROCKS, self.rules), dead_letters)


class StagedLoad:
    """One file of load text, as `connectors.shared.sending.sender` drives it."""

    def __init__(self, path: Path, label: str, encoder: WindowEncoder, dead_letters: DeadLetters) -> None:
        self._path, self._label, self._encoder, self._dead_letters = path, label, encoder, dead_letters
        self._file: BinaryIO | None = None
        self._headers: Mapping[str, str] = {}
        self._rows = 0

    def write(self, blocks: Sequence[ChangeBlock]) -> Written | None:
        """Check, encode and write a window. None when its text needs other headers than the file's."""
        encoded = self._encoder.encode(blocks, headers_sent=self._file is not None)
        if encoded is None:
            return None
        if encoded.rows:
            try:
                if self._file is None:
                    self._file = open_new(self._path)
                    self._headers = encoded.headers
                self._file.write(encoded.text)
            except OSError as error:
                raise state_error(self._path, error) from error
            self._rows += encoded.rows
        self._dead_letters.write(encoded.dead_letters)
        return encoded.written

    def finish(self) -> Any:
        """Make the file durable; returns the handle."""
        self._dead_letters.close()
        if self._file is None:
            return {"label": ""}
        try:
            close_synced(self._file)
        except OSError as error:
            raise state_error(self._path, error) from error
        return {"label": self._label, "file": self._path.name, "rows": self._rows, "headers": dict(self._headers)}

    def cancel(self) -> None:
        """Remove the file."""
        self._dead_letters.discard()
        if self._file is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """Loads the files of one batch. Driver."""

    transactions: Transactions
    directory: Path
    headers: Mapping[str, str]
    batch: int
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, table: TableId, handle: Mapping[str, Any]) -> None:
        """Load one file, or find that it is loaded. Raises CommitFailed or SinkError."""
        label = str(handle["label"])
        if not label:
            return
        last: SinkError | None = None
        for pause_s in (*_PAUSES_S, 0.0):
            try:
                if self._done(table, label) or self._load(table, label, handle):
                    return
                last = CommitFailed("StarRocks is still busy with the load", where=f"{table} (label {label})")
            except (SinkUnavailable, CommitUnknown) as error:
                last = error
            self.sleep(pause_s)
        if last is not None:
            raise CommitFailed(last.message, where=last.where, hint=last.hint or "start again to try once more")

    def _done(self, table: TableId, label: str) -> bool:
        return self.transactions.state(table.database, label).state in (State.COMMITTED, State.VISIBLE)

    def _load(self, table: TableId, label: str, handle: Mapping[str, Any]) -> bool:
        """Send the file; False when the label is in use at this moment."""
        path = _batch_folder(self.directory, self.batch) / str(handle["file"])
        where = f"{table} (label {label})"
        try:
            file = path.open("rb")
        except OSError as error:
            hint = "the state directory is incomplete: restore it"
            raise SinkError(f"{path.name} cannot be read: {error.strerror}", where=where, hint=hint) from error
        with file:
            headers = {**self.headers, **ALWAYS, **handle["headers"], "label": label}
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


def forget_files(directory: Path, batch: int) -> None:
    """Remove the files of this batch and of older ones that a crash left behind. Driver."""
    folder = directory / _FOLDER
    for old in folder.glob("*") if folder.exists() else ():
        if old.name.isdigit() and int(old.name) <= batch:
            shutil.rmtree(old, ignore_errors=True)


def drop_files(directory: Path, batch: int) -> None:
    """Remove the files of a batch that was never decided. Driver."""
    shutil.rmtree(_batch_folder(directory, batch), ignore_errors=True)


def _batch_folder(directory: Path, batch: int) -> Path:
    return directory / _FOLDER / str(batch)
