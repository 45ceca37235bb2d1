"""Finds the rows that a table refuses, after a statement with many rows was refused. Driver.

A refused statement is rolled back and retried in halves until one row is left: `k` bad rows of `n` cost about `2 k
log2(n)` statements. Only the server decides which rows are bad, so triggers, checks and unique keys count as well as
values.

A refused row leaves the table's row of its key unchanged. If keys are deleted before rows are written, because of a
unique key, that old row returns and may conflict with others. So the work restarts without the refused rows until no
further row is refused. Then these are tried once more, as the rows in conflict with them may have been refused, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from connectors.mysql.sink.refusal import RowRefused
from connectors.mysql.sink.session import SinkSession
from connectors.mysql.sink.statements import RowStatements, statements_of
from connectors.mysql.sink.text import compared, literals, refusals
from connectors.shared.conversion.policy import Reason

Found = Callable[[int, RowRefused], None]
"""Receives the index of a row and its refusal. May raise, to end the search."""

_START, _TRIAL, _AGAIN = "cdc_rows", "cdc_trial", "cdc_again"


class RowByRow:
    """Writes rows of one table except those that it refuses.

    `met` is called for each row refused at first, `left_out` for those finally skipped, in order. `begin` must come
    before anything is written, so that all can be rolled back.
    """

    def __init__(self, session: SinkSession, statements: RowStatements, met: Found, left_out: Found) -> None:
        self._session, self._statements, self._met, self._left_out = session, statements, met, left_out
        self._refused: dict[int, RowRefused] = {}

    def begin(self) -> None:
        """Set the savepoint for `undo`."""
        self._session.run(f"SAVEPOINT {_START}")

    def undo(self) -> None:
        """Roll back all statements since `begin`."""
        self._session.run(f"ROLLBACK TO SAVEPOINT {_START}")

    def upsert(self, rows: pa.RecordBatch, gone: np.ndarray, key: Sequence[str], *, new: bool) -> None:
        """Delete the rows that are `gone` and write the others; with `new`, all keys are deleted first."""
        self._refused = {}
        self._refuse_unwritable(rows)
        while True:
            before = len(self._refused)
            self._delete(rows, np.ones(len(gone), bool) if new else gone, key)
            self._insert(rows, np.flatnonzero(~gone), new=new)
            if not new or len(self._refused) == before:
                break
            self.undo()
        while new and self._retry_unique(rows, gone, key):
            pass
        self._report_refused()

    def append(self, rows: pa.RecordBatch) -> None:
        """Write rows of a table without a key."""
        self._refused = {}
        self._refuse_unwritable(rows)
        self._insert(rows, np.arange(rows.num_rows), new=True)
        self._report_refused()

    def _retry_unique(self, rows: pa.RecordBatch, gone: np.ndarray, key: Sequence[str]) -> bool:
        """Retry rows refused for a unique key; returns whether one of them was accepted."""
        met = [place for place, error in sorted(self._refused.items()) if error.reason is Reason.UNIQUE_KEY]
        for place in met:
            error = self._refused.pop(place)
            self._session.run(f"SAVEPOINT {_AGAIN}")
            self._delete(rows, np.arange(len(gone)) == place, key)
            self._insert(rows, np.array([place])[~gone[place : place + 1]], new=True)
            if place in self._refused:
                self._session.run(f"ROLLBACK TO SAVEPOINT {_AGAIN}")
                self._refused[place] = error
        return any(place not in self._refused for place in met)

    def _report_refused(self) -> None:
        for place, error in sorted(self._refused.items()):
            self._left_out(place, error)

    def _delete(self, rows: pa.RecordBatch, which: np.ndarray, key: Sequence[str]) -> None:
        names = {name.lower(): name for name in rows.schema.names}
        keys = rows.select([names[name.lower()] for name in key])
        columns = compared(self._statements.columns(key))
        self._each(keys, np.flatnonzero(which), lambda part: literals(part, columns), self._deleting(key))

    def _deleting(self, key: Sequence[str]) -> Callable[[Sequence[str]], None]:
        columns = self._statements.columns(key)
        return lambda lines: self._statements.delete(columns, lines)

    def _insert(self, rows: pa.RecordBatch, places: np.ndarray, *, new: bool) -> None:
        columns = self._statements.columns(rows.schema.names)
        self._each(
            rows, places, lambda part: literals(part, columns),
            lambda lines: self._statements.insert(columns, lines, new=new),
        )  # fmt: skip

    def _each(
        self,
        rows: pa.RecordBatch,
        places: np.ndarray,
        texts: Callable[[pa.RecordBatch], list[str]],
        run: Callable[[Sequence[str]], None],
    ) -> None:
        left = np.array([place for place in places.tolist() if place not in self._refused], np.int64)
        if not len(left):
            return
        lines = texts(rows.take(pa.array(left)))
        for start, end in statements_of(lines, self._session.max_packet_bytes):
            for place, error in self._bisect(lines, start, end, run):
                self._refuse(int(left[place]), error)

    def _bisect(
        self, lines: list[str], start: int, end: int, run: Callable[[Sequence[str]], None]
    ) -> Iterator[tuple[int, RowRefused]]:
        """Run the lines in order; yields those that are refused on their own."""
        parts = [(start, end)]
        while parts:
            first, last = parts.pop()
            self._session.run(f"SAVEPOINT {_TRIAL}")
            try:
                run(lines[first:last])
            except RowRefused as error:
                self._session.run(f"ROLLBACK TO SAVEPOINT {_TRIAL}")
                if last - first == 1:
                    yield first, error
                else:
                    middle = (first + last) // 2
                    parts += [(middle, last), (first, middle)]

    def _refuse_unwritable(self, rows: pa.RecordBatch) -> None:
        for place, error in refusals(rows, self._statements.columns(rows.schema.names)).items():
            self._refuse(place, error)

    def _refuse(self, place: int, error: RowRefused) -> None:
        self._met(place, error)
        self._refused.setdefault(place, error)
