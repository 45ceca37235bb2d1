"""Handles rows that their tables refuse: the run stops at the first, or each becomes a line in a dead-letter file.

    <sink.dead-letter.path>/<pipeline id>/<table>/batch-7.jsonl

The files of a batch are complete before its transaction is committed. An abandoned attempt removes its files; if a
crash prevented that, the next attempt does. So a row is either in the table or in the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from cdc.dead_letters import DeadLetter, DeadLetters, Rejected, cell, folder_of
from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.mysql.sink.dialect import ServerTable
from connectors.mysql.sink.refusal import RowRefused, column_of
from connectors.shared.conversion.policy import RejectedValuePolicy, counter_name


class BatchDeadLetters:
    """The dead letters of one batch. Driver; one object per attempt to commit it.

    `place` is the folder or URL; None when no row may be skipped. Attributes: `counts`, rows by `counter_name`.
    """

    def __init__(self, place: str | None, pipeline: str, batch: int) -> None:
        self._place, self._pipeline, self._batch = place, pipeline, batch
        self._files: dict[TableId, DeadLetters] = {}
        self.counts: Counter[str] = Counter()

    @property
    def leaves_out(self) -> bool:
        """Whether refused rows are skipped instead of stopping the run."""
        return self._place is not None

    def withdraw(self, tables: Iterable[TableId]) -> None:
        """Remove files that an interrupted attempt left for these tables. Raises SinkError."""
        if self.leaves_out:
            for table in tables:
                self._file(table).withdraw()

    def write(self, table: TableId, letter: DeadLetter, counter: str) -> None:
        """Write a row. Raises SinkError."""
        if table not in self._files:
            self._files[table] = self._file(table)
        self._files[table].write([letter])
        self.counts[counter] += 1

    def close(self) -> None:
        """Complete the files; before the transaction is committed. Raises SinkError."""
        for file in self._files.values():
            file.close()

    def discard(self) -> None:
        """Discard incomplete files."""
        for file in self._files.values():
            file.discard()

    def _file(self, table: TableId) -> DeadLetters:
        return DeadLetters(self._place or "", f"{self._pipeline}/{folder_of(table)}/batch-{self._batch}")


class RefusedRows:
    """Handles refused rows of one table. `key` are the source's key columns."""

    def __init__(self, letters: BatchDeadLetters, table: ServerTable, source: TableId, key: tuple[str, ...]) -> None:
        self._dead_letters, self._table, self._source, self._key = letters, table, source, key

    def add(self, rows: pa.RecordBatch, place: int, refused: RowRefused, position: str, *, deleted: bool) -> None:
        """Skip a row. `position`: its position in the log. Raises SinkError when its dead letter cannot be written."""
        column, where, key = self._locate(rows, place, refused)
        found = self._table.column(column) if column else None
        letter = DeadLetter(
            table=str(self._source),
            position=position,
            operation="delete" if deleted else "upsert",
            key=key,
            rejected=(Rejected(column, str(found.type) if found else "", refused.message),),
            row={name: cell(rows, name, place) for name in rows.schema.names},
        )
        counter = counter_name(refused.reason, RejectedValuePolicy.DEAD_LETTER, where)
        self._dead_letters.write(self._source, letter, counter)

    def _locate(self, rows: pa.RecordBatch, place: int, refused: RowRefused) -> tuple[str, str, dict[str, object]]:
        """Return the refused column, its full name for messages, and the key of the row."""
        column = column_of(refused.message, self._table)
        where = f"{self._source}.{column}" if column else str(self._source)
        return column, where, {name: cell(rows, name, place) for name in self._key}

    def check(self, rows: pa.RecordBatch, place: int, refused: RowRefused) -> None:
        """Raise SinkError, with table, key and column, if no row may be skipped."""
        if self._dead_letters.leaves_out:
            return
        _, where, key = self._locate(rows, place, refused)
        shown = ", ".join(f"{name}={value!r:.80}" for name, value in key.items()) or "no key"
        raise SinkError(
            f"the server refuses a row: {refused.message}",
            where=f"{where}, row {shown}",
            hint="nothing of the batch is in; alter the table or remove what is in the way, then start again: the "
            "batch is written as it was. Or set sink.invalid-values: dead-letter",
        )
