"""One batch's rows into the server, inside the caller's transaction. Driver.

**With a key** the images of a piece of the log come down to the last one of each key: keys whose last image is a delete
go, the others are written over what is there. Pieces follow each other in the order of the log.

| table | rows are written by |
|---|---|
| primary key alone, all columns ours | `LOAD DATA LOCAL ... REPLACE`, else as below |
| columns of its own, or no LOAD DATA LOCAL | `INSERT ... ON DUPLICATE KEY UPDATE`: its own columns stay |
| further unique keys | `DELETE` of all keys of the piece, then `INSERT` |

`ON DUPLICATE KEY UPDATE` and `REPLACE` take any row with an equal unique key for the one that is meant, hence the last.

**Without a key** changes are carried out one after the other; a delete takes one of equal rows.

LOAD DATA LOCAL without REPLACE stores what it can of a bad value and skips equal keys without a word, so it is never
used that way; its warnings are errors here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from cdc.block import RowKind
from cdc.errors import SinkError
from cdc.schema import TableId
from connectors.mysql.sink.dialect import ServerTable
from connectors.mysql.sink.session import SinkSession
from connectors.mysql.sink.text import TargetColumn, literals, load_body, load_columns
from connectors.shared.last_image.last_image import last_rows
from connectors.shared.sql.client import Refused, quoted
from connectors.shared.staging.stage import KIND, Staged

_PIECE_ROWS, _PIECE_BYTES = 100_000, 32 << 20
_STATEMENT_ROWS, _STATEMENT_BYTES = 1_000, 1 << 20
_GONE = (int(RowKind.DELETE), int(RowKind.UPDATE_BEFORE))
_DUPLICATE = 1062


class TableWriter:
    """Writes the staged rows of one table. `table` is as it is in the server."""

    def __init__(self, session: SinkSession, table: ServerTable, staged: Staged) -> None:
        self._session, self._table, self._staged = session, table, staged
        self._name = quoted(table.id.database, table.id.table)

    def write(self) -> int:
        """Write all rows; how many deletes found no row, in a table without a key.

        Raises SinkError for what the table does not take, SinkUnavailable to try the batch again.
        """
        missed = 0
        try:
            for rows in _pieces(self._staged.read()):
                if self._staged.key:
                    self._keyed(rows)
                else:
                    missed += self._keyless(rows)
        except Refused as error:
            raise self._refused(error) from None
        return missed

    def _keyed(self, rows: pa.RecordBatch) -> None:
        kinds = _kinds(rows)
        values = rows.select(rows.schema.names[:-1])
        last = last_rows(values, self._staged.key)
        gone = np.isin(kinds[last], _GONE)
        careful = bool(self._table.unique) or not self._table.key
        removed = last if careful else last[gone]
        if len(removed) and (careful or gone.any()):
            self._delete(values.take(pa.array(removed)))
        written = last[~gone]
        if len(written):
            self._write(values if len(written) == len(values) else values.take(pa.array(written)), new=careful)

    def _write(self, rows: pa.RecordBatch, *, new: bool) -> None:
        """Upsert; with `new` no row of these keys is there."""
        columns = self._columns(rows.schema.names)
        if self._session.local_files and not self._has_own_columns(rows.schema.names):
            self._load(rows, columns, new=new)
            return
        names = ", ".join(quoted(column.name) for column in columns)
        start = f"INSERT INTO {self._name} ({names}) VALUES "
        others = [column for column in columns if not self._table.in_key(column.name)] or list(columns[:1])
        updates = ", ".join(f"{quoted(column.name)} = VALUES({quoted(column.name)})" for column in others)
        end = "" if new else f" ON DUPLICATE KEY UPDATE {updates}"
        for lines in _statements(literals(rows, columns)):
            self._session.run(f"{start}{', '.join(lines)}{end}")

    def _load(self, rows: pa.RecordBatch, columns: Sequence[TargetColumn], *, new: bool) -> None:
        sql = (
            f"LOAD DATA LOCAL INFILE 'rows' REPLACE INTO TABLE {self._name} CHARACTER SET utf8mb4 "
            "FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' "
            + load_columns(columns, rows.schema.types)
        )
        loaded = self._session.load(sql, [load_body(rows, columns)])
        if loaded.warnings:
            raise self._warned()
        if new and loaded.deleted and self._table.unique:
            raise self._another_row(f"{loaded.deleted} rows")

    def _delete(self, keys: pa.RecordBatch) -> None:
        """Rows of these keys, a list of keys in each statement."""
        columns = self._columns(self._staged.key)
        rows = keys.select([keys.schema.names[_index(keys, name)] for name in self._staged.key])
        names = ", ".join(quoted(column.name) for column in columns)
        for lines in _statements(literals(rows, columns)):
            self._session.run(f"DELETE FROM {self._name} WHERE ({names}) IN ({', '.join(lines)})")

    def _keyless(self, rows: pa.RecordBatch) -> int:
        """Runs of inserts and of other changes, in order. How many deletes found no row."""
        kinds, missed = _kinds(rows), 0
        values = rows.select(rows.schema.names[:-1])
        gone = np.isin(kinds, _GONE)
        bounds = [0, *(np.flatnonzero(np.diff(gone)) + 1).tolist(), len(kinds)]
        for start, end in pairwise(bounds):
            part = values.slice(start, end - start)
            if end > start and gone[start]:
                missed += self._delete_one_by_one(part)
            elif end > start:
                self._write(part, new=True)
        return missed

    def _delete_one_by_one(self, rows: pa.RecordBatch) -> int:
        missed = 0
        columns = self._columns(rows.schema.names)
        texts = [
            literals(rows.select([name]), [column]) for name, column in zip(rows.schema.names, columns, strict=True)
        ]
        for values in zip(*texts, strict=True):
            same = " AND ".join(_equal(column, value[1:-1]) for column, value in zip(columns, values, strict=True))
            missed += not self._session.run(f"DELETE FROM {self._name} WHERE {same} LIMIT 1")
        return missed

    def _columns(self, names: Sequence[str]) -> list[TargetColumn]:
        """The columns as they are in the server. Raises SinkError for one that is not there."""
        found = []
        for name in names:
            column = self._table.column(name)
            if column is None:
                hint = "add it again; was the table changed by somebody else?"
                raise SinkError(f"there is no column {name}", where=str(self._table.id), hint=hint)
            found.append(TargetColumn(column.name, column.type))
        return found

    def _has_own_columns(self, names: Sequence[str]) -> bool:
        """Whether the table has columns that are not written and would lose their values with their row."""
        written = (*names, *self._table.generated)
        return not {column.name.casefold() for column in self._table.columns} <= {name.casefold() for name in written}

    def _warned(self) -> SinkError:
        said = "; ".join(str(row[2]) for row in self._session.rows("SHOW WARNINGS LIMIT 3"))
        hint = "nothing of the batch is in; alter the column, then start again: the batch is written anew"
        return SinkError(f"the server would have changed values: {said}", where=str(self._table.id), hint=hint)

    def _another_row(self, what: str) -> SinkError:
        keys = "; ".join(", ".join(columns) for columns in self._table.unique)
        hint = "nothing of the batch is in; remove those rows or that key, then start again"
        reason = f"{what} of other keys have the same values in a unique key ({keys})"
        return SinkError(reason, where=str(self._table.id), hint=hint)

    def _refused(self, error: Refused) -> SinkError:
        if error.code == _DUPLICATE:
            return self._another_row(f"a row ({error.message})")
        hint = "nothing of the batch is in; alter the table so that it takes the value, then start again"
        return SinkError(str(error), where=str(self._table.id), hint=hint)


def missing_table(table: TableId) -> SinkError:
    """Rows for a table that is not there."""
    hint = "it was dropped or renamed in the server; `cdc resync` copies it anew"
    return SinkError("the table does not exist", where=str(table), hint=hint)


def _equal(column: TargetColumn, value: str) -> str:
    """A comparison that takes NULL for equal to NULL, and text code by code."""
    name = quoted(column.name)
    if column.type.name == "json":
        return f"{name} <=> CAST({value} AS JSON)" if value != "NULL" else f"{name} IS NULL"
    if column.type.name == "float":
        return f"ABS({name} - {value}) <= 1e-6 * ABS({value})" if value != "NULL" else f"{name} IS NULL"
    return f"CAST({name} AS BINARY) <=> CAST({value} AS BINARY)" if column.type.is_characters else f"{name} <=> {value}"


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Record batches of some ten thousand rows, or of as many bytes."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _PIECE_ROWS or size >= _PIECE_BYTES:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _statements(lines: Sequence[str]) -> Iterator[list[str]]:
    """Lines for one statement after the other, so that none is longer than servers take."""
    held: list[str] = []
    size = 0
    for line in lines:
        if held and (len(held) >= _STATEMENT_ROWS or size + len(line) > _STATEMENT_BYTES):
            yield held
            held, size = [], 0
        held.append(line)
        size += len(line)
    if held:
        yield held


def _kinds(rows: pa.RecordBatch) -> np.ndarray:
    return np.asarray(rows.column(rows.schema.names.index(KIND)).to_numpy())


def _index(rows: pa.RecordBatch, name: str) -> int:
    return [column.lower() for column in rows.schema.names].index(name.lower())
