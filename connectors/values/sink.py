"""The values sink: schema changes and row images as JSON lines, to a file exactly once, or to the terminal.

Rows are staged as lines, one file per task. `committed.json` in the sink's state folder records the committed length of
the output in bytes, and the last batch. Bytes after that length are left over from a crash and are cut off before the
next write. Terminal output cannot be cut off: a batch in flight during a crash may be printed twice.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from cdc.block import ChangeBlock, RowKind
from cdc.errors import SinkError, StateError
from cdc.lines.format import block_lines, change_line
from cdc.schema import SchemaChange, TableId
from cdc.sink import Delivery, KeylessRows, Prepared, Sink, TaskAttempt
from cdc.source import Context
from cdc.state.durable import new_file, state_error
from cdc.state.store import RESTORE
from connectors.values.options import ValuesSinkOptions

_NOTE = "committed.json"


@dataclass(frozen=True, slots=True)
class _Committed:
    """The committed part of the output: `length` bytes, up to batch `batch`, and a digest of later schema changes."""

    length: int
    batch: int = -1
    applied: str = ""


class ValuesSink(Sink):
    """Appends to one file. Picklable; keeps no file open."""

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.CHANGES

    def __init__(self, options: ValuesSinkOptions, context: Context) -> None:
        self._path, self._store = options.path, context.store

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Write one line per schema change, unless the same changes were the last thing written. Driver."""
        text = "".join(map(change_line, changes))
        digest = hashlib.sha256(text.encode()).hexdigest()
        committed = self._committed()
        if committed.applied != digest:
            self._append(text, replace(committed, applied=digest))

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the task's rows to a synced file of its own. Executor."""
        path = self._staging(task.batch) / f"{task.partition}-{task.attempt}.jsonl"
        counts: dict[TableId, Counter[int]] = {}
        try:
            with new_file(path) as file:
                for block in blocks:
                    file.writelines(line.encode() for line in block_lines(block))
                    counts.setdefault(block.table, Counter()).update(block.kinds.to_pylist())
        except OSError as error:
            raise state_error(path, error) from error
        self._store.persist(path)
        return [
            Prepared(
                table, task.partition, f"{task.batch}/{path.name}",
                number[RowKind.INSERT], number[RowKind.UPDATE_AFTER], number[RowKind.DELETE],
            )
            for table, number in counts.items()
        ]  # fmt: skip

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Append the staged lines in log order, unless the batch is committed already. Driver."""
        committed = self._committed()
        if batch > committed.batch:
            names = dict.fromkeys(handle.handle for handle in prepared)
            text = "".join(self._staged(name) for name in names)
            self._append(text, replace(committed, batch=batch, applied=""))
        self.abort(batch)

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Remove the staged files of the batch. Driver."""
        self._store.drop(self._staging(batch))

    def _staging(self, batch: int) -> Path:
        return self._store.bulk("staging") / str(batch)

    def _staged(self, name: str) -> str:
        path = self._store.bulk("staging") / name
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise StateError(f"staged rows cannot be read: {error.strerror}", where=str(path), hint=RESTORE) from error

    def _committed(self) -> _Committed:
        """Read `committed.json`. Creates it on first use, before any byte is written."""
        note = self._store.read_json(_NOTE)
        if note is None:
            path = Path(self._path)
            known = _Committed(path.stat().st_size if self._path != "-" and path.exists() else 0)
            self._note(known)
            return known
        return _Committed(**note)

    def _append(self, text: str, then: _Committed) -> None:
        if self._path == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
            self._note(then)
            return
        try:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab") as file:
                file.truncate(self._committed().length)
                file.seek(0, os.SEEK_END)
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
                length = file.tell()
        except OSError as error:
            hint = "free some space, or choose another sink.path"
            raise SinkError(f"cannot be written: {error.strerror}", where=self._path, hint=hint) from error
        self._note(replace(then, length=length))

    def _note(self, committed: _Committed) -> None:
        self._store.write_json(_NOTE, asdict(committed))
