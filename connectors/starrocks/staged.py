"""At-least-once: rows wait in files of the state directory, and the driver loads them once the batch is decided.

StarRocks holds nothing between the phases, so nothing expires there, schema changes wait for nothing, and versions
without the transaction interface will do. The label makes a load happen once for as long as the server remembers it; a
batch that is committed again after that is loaded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetters
from cdc.errors import CommitFailed, CommitUnknown, SinkError, SinkUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.sink import TaskAttempt
from cdc.state.durable import close_synced, open_new, state_error
from cdc.state.store import Store
from connectors.shared.streamload.dialect import STARROCKS
from connectors.shared.streamload.flush import EncodedFlush, FlushEncoder, RowRules
from connectors.shared.streamload.labels import LabelSpace
from connectors.shared.streamload.table_load import TableLoad
from connectors.starrocks import replies
from connectors.starrocks.client import DONE, Transactions
from connectors.starrocks.load import ALWAYS
from connectors.starrocks.replies import Reply
from connectors.starrocks.targets import Targets

_FOLDER = "loads"
_PIECE = 1 << 20
_LOADED = ("SUCCESS", "PUBLISH TIMEOUT")


@dataclass(frozen=True, slots=True)
class StagedLoader:
    """Begins the files of one task. Thread safe."""

    store: Store
    targets: Targets
    labels: LabelSpace
    rules: RowRules
    dead_letters: str | None = None

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> StagedLoad:
        """The file of part number `part` of a table. Raises SinkError."""
        target = self.targets.get(first.table, first.schema, task.batch)
        label = self.labels.label(task.batch, first.table, task.partition, part)
        dead_letters = DeadLetters(self.dead_letters or "", f"{first.table}/{label}", task.attempt)
        path = _batch_folder(self.store.bulk(""), task.batch) / f"{label}.{task.attempt}"
        encoder = FlushEncoder(first.schema, target, STARROCKS, self.rules)
        return StagedLoad(self.store, path, first.table, label, encoder, dead_letters)


class _StagedFile:
    """A file of load text under way."""

    def __init__(self, path: Path, headers: Mapping[str, str]) -> None:
        self.path, self.headers = path, dict(headers)
        try:
            self._file: BinaryIO = open_new(path)
        except OSError as error:
            raise state_error(path, error) from error

    def write(self, data: memoryview) -> bool:
        try:
            self._file.write(data)
        except OSError as error:
            raise state_error(self.path, error) from error
        return True

    def close(self) -> None:
        """Make it durable."""
        try:
            close_synced(self._file)
        except OSError as error:
            raise state_error(self.path, error) from error

    def cancel(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class StagedLoad(TableLoad[_StagedFile]):
    """One file of load text."""

    def __init__(
        self, store: Store, path: Path, table: TableId, label: str, encoder: FlushEncoder, dead_letters: DeadLetters
    ) -> None:
        super().__init__(table, label, encoder, dead_letters, RetryPolicy(timeout_s=0))
        self._store, self._path = store, path

    def _open(self, encoded: EncodedFlush) -> _StagedFile:
        return _StagedFile(self._path, encoded.headers)

    def _refused(self, body: _StagedFile) -> NoReturn:
        raise SinkError("the file takes no more rows", where=str(body.path))

    def _ended(self, body: _StagedFile) -> Any:
        body.close()
        self._store.keep(self._path)
        return {"label": self._label, "file": self._path.name, "rows": self._rows, "headers": body.headers}

    def _nothing(self) -> Any:
        return {"label": ""}


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """Loads the files of one batch; a server that is away is waited for as `retry` says. Driver."""

    transactions: Transactions
    directory: Path
    headers: Mapping[str, str]
    batch: int
    retry: RetryPolicy

    def __call__(self, table: TableId, handle: Mapping[str, Any]) -> None:
        """Load one file, or find that it is loaded. Raises CommitFailed or SinkError."""
        label = str(handle["label"])
        if not label:
            return
        where = f"{table} (label {label})"

        def load() -> None:
            try:
                if self._done(table, label) or self._load(table, label, handle):
                    return
            except (SinkUnavailable, CommitUnknown) as error:
                hint = error.hint or "start again to try once more"
                raise CommitFailed(error.message, where=error.where, hint=hint) from error
            raise CommitFailed("StarRocks is still busy with the load", where=where)

        self.retry.call(load, f"the load of {where}")

    def _done(self, table: TableId, label: str) -> bool:
        return self.transactions.state(table.database, label).state in DONE

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


def forget_files(store: Store, batch: int) -> None:
    """Remove the files of this batch and of older ones that a crash left behind. Driver."""
    folder = store.bulk(_FOLDER)
    for old in folder.glob("*") if folder.exists() else ():
        if old.name.isdigit() and int(old.name) <= batch:
            store.drop(old)


def drop_files(store: Store, batch: int) -> None:
    """Remove the files of a batch that was never decided. Driver."""
    store.drop(_batch_folder(store.bulk(""), batch))


def _batch_folder(directory: Path, batch: int) -> Path:
    return directory / _FOLDER / str(batch)
