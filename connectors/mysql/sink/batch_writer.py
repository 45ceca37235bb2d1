"""Writes a batch's rows to the tables of the server, inside the caller's transaction. Driver."""

from __future__ import annotations

from collections.abc import Sequence

from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.mysql.sink.catalog import read_server_tables
from connectors.mysql.sink.dialect import ServerTable
from connectors.mysql.sink.load import TableWriter
from connectors.mysql.sink.options import ServerSinkOptions
from connectors.mysql.sink.refused_rows import BatchDeadLetters, RefusedRows
from connectors.mysql.sink.session import SinkSession
from connectors.shared.staging.stage import Staged


class BatchWriter:
    """Writes batches one after the other; caches the server's table definitions between batches."""

    def __init__(self, options: ServerSinkOptions, pipeline: str) -> None:
        self._dead_letters = options.dead_letters if options.rejected_values == "dead-letter" else None
        self._pipeline = pipeline
        self._tables: dict[TableId, ServerTable] = {}
        self._cut_off = True
        """Whether an earlier attempt at the next batch may have left dead letters.

        True at first, as earlier runs are unknown.
        """

    def forget_tables(self) -> None:
        """Drop cached definitions before tables change."""
        self._tables = {}

    def committed(self) -> None:
        """Record that the transaction is committed."""
        self._cut_off = False

    def write(self, session: SinkSession, batch: int, staged: Sequence[Staged]) -> dict[str, int]:
        """Write all rows; returns counts of deletes without a matching row and of rows sent to the dead letters.

        Raises SinkError, SinkUnavailable.
        """
        self._read_missing(session, [item.table for item in staged])
        letters = BatchDeadLetters(self._dead_letters, self._pipeline, batch)
        if self._cut_off:
            letters.withdraw(item.table for item in staged)
        self._cut_off = True
        missed = {}
        try:
            for item in staged:
                if number := self._write_table(session, item, letters):
                    missed[f"delete-without-row {item.table}"] = number
            letters.close()
        except BaseException:
            letters.discard()
            raise
        return missed | letters.counts

    def _write_table(self, session: SinkSession, item: Staged, letters: BatchDeadLetters) -> int:
        table = self._tables.get(item.table)
        if table is None:
            raise missing_table(item.table)
        table.check()
        return TableWriter(session, table, item, RefusedRows(letters, table, item.table, item.key)).write()

    def _read_missing(self, session: SinkSession, tables: Sequence[TableId]) -> None:
        unknown = [table for table in tables if table not in self._tables]
        if unknown:
            folds = int(session.rows("SELECT @@GLOBAL.lower_case_table_names")[0][0]) > 0
            found = {_name(table.id, folds): table for table in read_server_tables(session, unknown, ignore_case=folds)}
            self._tables |= {table: found[name] for table in unknown if (name := _name(table, folds)) in found}


def missing_table(table: TableId) -> SinkError:
    """Return the error for rows of a missing table."""
    hint = "it was dropped or renamed in the server; `cdc resync` re-snapshots it"
    return SinkError("the table does not exist", where=str(table), hint=hint)


def _name(table: TableId, folds: bool) -> str:
    return str(table).casefold() if folds else str(table)
