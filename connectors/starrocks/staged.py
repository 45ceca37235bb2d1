"""At-least-once: rows wait in files of the state directory, and the driver loads them once the batch is decided.

StarRocks keeps nothing between the two phases, so nothing expires there, schema changes need not wait, and versions
without the transaction interface work too. The label prevents a second load for as long as the server remembers it; a
batch that is committed again later is loaded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetters, folder_of
from cdc.errors import SinkError
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.sink import TaskAttempt
from cdc.state.durable import close_synced, open_new, state_error
from cdc.state.store import Store
from connectors.shared.staging.stage import StagingFolder
from connectors.shared.streamload.dialect import STARROCKS
from connectors.shared.streamload.flush import EncodedFlush, FlushEncoder, RowRules
from connectors.shared.streamload.labels import LabelSpace
from connectors.shared.streamload.table_load import TableLoad
from connectors.shared.streamload.targets import Targets


@dataclass(frozen=True, slots=True)
class StagedLoader:
    """Opens the files of one task. Thread safe."""

    staging: StagingFolder
    targets: Targets
    labels: LabelSpace
    rules: RowRules
    dead_letters: str | None = None

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> StagedLoad:
        """Open the file of part number `part` of a table. Raises SinkError."""
        target = self.targets.get(first.table, first.schema, task.batch)
        label = self.labels.label(task.batch, first.table, task.partition, part)
        dead_letters = DeadLetters(self.dead_letters or "", f"{folder_of(first.table)}/{label}", task.attempt)
        path = self.staging.path(task.batch) / f"{label}.{task.attempt}"
        encoder = FlushEncoder(first.schema, target, STARROCKS, self.rules)
        return StagedLoad(self.staging.store, path, first.table, label, encoder, dead_letters)


class _StagedFile:
    """A file that is being written."""

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
        """Close the file and make it durable."""
        try:
            close_synced(self._file)
        except OSError as error:
            raise state_error(self.path, error) from error

    def cancel(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class StagedLoad(TableLoad[_StagedFile]):
    """A load whose rows go into one file."""

    def __init__(
        self, store: Store, path: Path, table: TableId, label: str, encoder: FlushEncoder, dead_letters: DeadLetters
    ) -> None:
        super().__init__(table, label, encoder, dead_letters, RetryPolicy(timeout_s=0))
        self._store, self._path = store, path

    def _open(self, encoded: EncodedFlush) -> _StagedFile:
        return _StagedFile(self._path, encoded.headers)

    def _raise_refusal(self, body: _StagedFile) -> NoReturn:
        raise SinkError("the file accepts no more rows", where=str(body.path))

    def _finish_body(self, body: _StagedFile) -> Any:
        body.close()
        self._store.persist(self._path)
        return {"label": self._label, "file": self._path.name, "rows": self._rows, "headers": body.headers}

    def _nothing(self) -> Any:
        return {"label": ""}


def load_files(store: Store) -> StagingFolder:
    """The folder of the files."""
    return StagingFolder(store, "loads")
