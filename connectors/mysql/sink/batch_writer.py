"""A batch's rows into the tables of the server, inside the caller's transaction. Driver."""

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
    """Writes one batch after the other; keeps the tables as they are in the server from batch to batch."""

    def __init__(self, options: ServerSinkOptions, pipeline: str) -> None:
        self._dead_letters = options.dead_letters if options.rejected_values == "dead-letter" else None
        self._pipeline = pipeline
        self._tables: dict[TableId, ServerTable] = {}
        self._cut_off = True
        """Whether an attempt to commit the next batch may have left dead letters: nobody knows what ran before this."""

    def forget_tables(self) -> None:
        """Tables are about to change."""
        self._tables = {}

    def committed(self) -> None:
        """The transaction is through."""
        self._cut_off = False

    def write(self, session: SinkSession, batch: int, staged: Sequence[Staged]) -> dict[str, int]:
        """Write all rows; counts of deletes that found no row, and of rows that went to the dead letters.

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
    """Rows for a table that is not there."""
    hint = "it was dropped or renamed in the server; `cdc resync` re-snapshots it"
    return SinkError("the table does not exist", where=str(table), hint=hint)


def _name(table: TableId, folds: bool) -> str:
    return str(table).casefold() if folds else str(table)
