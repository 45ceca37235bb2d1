"""Writes one batch's rows to a table of the server, inside the caller's transaction. Driver.

**With a key** the images of a piece of the log are reduced to the last one of each key: keys whose last image is a
delete are deleted, the others are upserted. Pieces follow each other in log order.

| table | rows are written by |
|---|---|
| primary key alone, all columns ours | `LOAD DATA LOCAL ... REPLACE`, else as below |
| columns of its own, or no LOAD DATA LOCAL | `INSERT ... ON DUPLICATE KEY UPDATE`: its own columns stay |
| further unique keys | `DELETE` of all keys of the piece, then `INSERT` |

`ON DUPLICATE KEY UPDATE` and `REPLACE` match rows by any unique key, hence the last case.

**Without a key** changes are applied one by one; a delete removes one of several equal rows.

A piece with a row that the table refuses is rolled back and written row by row (`row_by_row`). A thread reads and
formats a piece while the server loads the one before it; the first piece is short, so that the server begins at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, islice, pairwise

import numpy as np
import pyarrow as pa

from cdc.block import RowKind
from connectors.mysql.sink.dialect import ServerTable
from connectors.mysql.sink.refusal import RowRefused
from connectors.mysql.sink.refused_rows import RefusedRows
from connectors.mysql.sink.row_by_row import RowByRow
from connectors.mysql.sink.session import SinkSession
from connectors.mysql.sink.statements import RowStatements, statements_of
from connectors.mysql.sink.text import WrittenColumn, compared, literals, load_body, refusals
from connectors.shared.batches import gather_batches
from connectors.shared.last_image.last_image import last_rows
from connectors.shared.staging.stage import KIND, POSITION, Staged

_PIECE_ROWS, _PIECE_BYTES = 100_000, 32 << 20
_GONE = (int(RowKind.DELETE), int(RowKind.UPDATE_BEFORE))


class TableWriter:
    """Writes the staged rows of one table. `table` is its definition in the server; `refused` receives refused rows."""

    def __init__(self, session: SinkSession, table: ServerTable, staged: Staged, refused: RefusedRows) -> None:
        self._session, self._table, self._staged, self._refused = session, table, staged, refused
        self._statements = RowStatements(session, table)

    def write(self) -> int:
        """Write all rows; returns the number of deletes without a matching row, for a table without a key.

        Raises SinkError for a refused row that may not be skipped, SinkUnavailable to retry the batch.
        """
        batches = self._staged.read()
        pieces = chain(
            gather_batches(islice(batches, 1), _PIECE_BYTES), gather_batches(batches, _PIECE_BYTES, _PIECE_ROWS)
        )
        if not self._staged.key:
            return sum(self._write_keyless(rows) for rows in pieces)
        with closing(_one_ahead(map(self._last_images, pieces))) as keyed:
            for piece in keyed:
                self._write_keyed(piece)
        return 0

    def _last_images(self, rows: pa.RecordBatch) -> _Piece:
        """Reduce rows to the last image of each key, and format their text."""
        last = last_rows(rows, self._staged.key)
        values = self._values(rows)
        values = values if len(last) == len(values) else values.take(pa.array(last))
        gone = np.isin(_kinds(rows)[last], _GONE)
        upserts, text = _without(values, gone), None
        columns = self._statements.columns(upserts.schema.names) if upserts.num_rows else []
        if upserts.num_rows and self._is_loaded(upserts):
            with suppress(RowRefused):  # raised where the piece is written
                text = load_body(upserts, columns)
        return _Piece(values, gone, _positions(rows, last), upserts, columns, text)

    def _write_keyed(self, piece: _Piece) -> None:
        new = bool(self._table.unique) or not self._table.key
        one_by_one = self._one_by_one(piece.values, piece.gone, piece.positions)
        one_by_one.begin()
        try:
            self._delete(piece.values, piece.gone, all_keys=new)
            self._write(piece.upserts, piece.columns, new=new, text=piece.text)
        except RowRefused:
            one_by_one.undo()
            one_by_one.upsert(piece.values, piece.gone, self._staged.key, new=new)

    def _is_loaded(self, rows: pa.RecordBatch) -> bool:
        """Return whether the rows are written by LOAD DATA."""
        return self._session.local_files and not self._statements.has_own_columns(rows.schema.names)

    def _write(
        self, rows: pa.RecordBatch, columns: list[WrittenColumn], *, new: bool, text: bytes | None = None
    ) -> None:
        """Upsert rows; with `new`, none of their keys exists.

        `text`: the rows' text for LOAD DATA, if already formatted.
        """
        if not rows.num_rows:
            return
        if self._is_loaded(rows):
            body = text if text is not None else load_body(rows, columns)
            self._statements.load(body, columns, rows.schema.types, new=new)
            return
        lines = literals(rows, columns)
        for start, end in statements_of(lines, self._session.max_packet_bytes):
            self._statements.insert(columns, lines[start:end], new=new)

    def _delete(self, rows: pa.RecordBatch, gone: np.ndarray, *, all_keys: bool) -> None:
        """Delete rows by key, a list of keys per statement."""
        if not all_keys and not gone.any():
            return
        columns = self._statements.columns(self._staged.key)
        keys = rows.select([rows.schema.names[_index(rows, name)] for name in self._staged.key])
        lines = literals(keys if all_keys else _without(keys, ~gone), compared(columns))
        for start, end in statements_of(lines, self._session.max_packet_bytes):
            self._statements.delete(columns, lines[start:end])

    def _write_keyless(self, rows: pa.RecordBatch) -> int:
        """Write runs of inserts and of other changes, in order.

        Returns the number of deletes without a matching row.
        """
        kinds, missed = _kinds(rows), 0
        values, positions = self._values(rows), _positions(rows, np.arange(rows.num_rows))
        gone = np.isin(kinds, _GONE)
        bounds = [0, *(np.flatnonzero(np.diff(gone)) + 1).tolist(), len(kinds)]
        for start, end in pairwise(bounds):
            part = values.slice(start, end - start)
            if end > start and gone[start]:
                missed += self._delete_one_by_one(part, positions[start:end])
            elif end > start:
                self._append(part, positions[start:end])
        return missed

    def _append(self, rows: pa.RecordBatch, positions: pa.Array) -> None:
        one_by_one = self._one_by_one(rows, np.zeros(rows.num_rows, bool), positions)
        one_by_one.begin()
        try:
            self._write(rows, self._statements.columns(rows.schema.names), new=True)
        except RowRefused:
            one_by_one.undo()
            one_by_one.append(rows)

    def _delete_one_by_one(self, rows: pa.RecordBatch, positions: pa.Array) -> int:
        missed = 0
        columns = self._statements.columns(rows.schema.names)
        absent = refusals(rows, columns)  # no row can have such values
        good = [place for place in range(rows.num_rows) if place not in absent]
        written = rows.take(pa.array(good, pa.int64()))
        texts = [
            literals(written.select([name]), [column])
            for name, column in zip(rows.schema.names, compared(columns), strict=True)
        ]
        for place, values in zip(good, zip(*texts, strict=True), strict=True):
            try:
                missed += not self._statements.delete_one(columns, [value[1:-1] for value in values])
            except RowRefused as error:
                self._refused.check(rows, place, error)
                self._refused.add(rows, place, error, positions[place].as_py(), deleted=True)
        return missed + len(absent)

    def _values(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Select the columns to write: no generated columns, except in a key, where the server refuses them."""
        names = [name for name in rows.schema.names if name not in (KIND, POSITION)]
        kept = {name.casefold() for name in self._staged.key}
        made = {name.casefold() for name in self._table.generated} - kept
        return rows.select([name for name in names if name.casefold() not in made])

    def _one_by_one(self, rows: pa.RecordBatch, gone: np.ndarray, positions: pa.Array) -> RowByRow:
        return RowByRow(
            self._session,
            self._statements,
            lambda place, error: self._refused.check(rows, place, error),
            lambda place, error: self._refused.add(
                rows, place, error, positions[place].as_py(), deleted=bool(gone[place])
            ),
        )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the log for a table with a key.

    Attributes:
        values: the last image of each key.
        gone: for each of them, whether it is a delete.
        positions: for each of them, its position in the log.
        upserts: the images that are not deletes.
        columns: their columns, as in the server.
        text: their text for LOAD DATA; None if that is not used, or refuses a row.
    """

    values: pa.RecordBatch
    gone: np.ndarray
    positions: pa.Array
    upserts: pa.RecordBatch
    columns: list[WrittenColumn]
    text: bytes | None


def _one_ahead(pieces: Iterator[_Piece]) -> Generator[_Piece, None, None]:
    """Yield pieces; the next one is made in a thread meanwhile."""
    with ThreadPoolExecutor(1, "rows to load") as thread:
        following = thread.submit(next, pieces, None)
        while (piece := following.result()) is not None:
            following = thread.submit(next, pieces, None)
            yield piece


def _positions(rows: pa.RecordBatch, places: np.ndarray) -> pa.Array:
    """Return the log positions of these rows; empty if they were not staged."""
    if POSITION not in rows.schema.names:
        return pa.repeat("", len(places))
    return rows.column(rows.schema.names.index(POSITION)).take(pa.array(places))


def _kinds(rows: pa.RecordBatch) -> np.ndarray:
    return np.asarray(rows.column(rows.schema.names.index(KIND)).to_numpy())


def _without(rows: pa.RecordBatch, mask: np.ndarray) -> pa.RecordBatch:
    return rows.filter(pa.array(~mask)) if mask.any() else rows


def _index(rows: pa.RecordBatch, name: str) -> int:
    return [column.lower() for column in rows.schema.names].index(name.lower())
