"""The statements that write rows of one table, run in the caller's transaction. Driver.

Each raises RowRefused when the table does not take one of its rows, also where the server would only have changed a
value and warned; SinkError for what is about the whole table; SinkUnavailable to try the batch again. The caller then
undoes the statement.

LOAD DATA LOCAL without REPLACE stores what it can of a bad value and skips equal keys without a word, so it is never
used that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from cdc.errors import SinkError
from connectors.mysql.sink.dialect import ServerTable
from connectors.mysql.sink.refusal import RowRefused, is_harmless, of_a_row, of_the_table
from connectors.mysql.sink.session import ENVELOPE_BYTES, SinkSession
from connectors.mysql.sink.text import WrittenColumn, in_literals, labels_of, load_columns
from connectors.shared.conversion.policy import Reason
from connectors.shared.sql.client import StatementRefused
from connectors.shared.sql.text import quoted

_STATEMENT_ROWS, _STATEMENT_BYTES = 1_000, 1 << 20

T = TypeVar("T")


class RowStatements:
    """Statements for the rows of a table as it is in the server."""

    def __init__(self, session: SinkSession, table: ServerTable) -> None:
        self._session, self._table = session, table
        self._name = quoted(table.id.database, table.id.table)

    def columns(self, names: Sequence[str]) -> list[WrittenColumn]:
        """The columns as they are in the server. Raises SinkError for one that is not there."""
        found = []
        for name in names:
            column = self._table.column(name)
            if column is None:
                hint = "add it again; was the table changed by somebody else?"
                raise SinkError(f"there is no column {name}", where=str(self._table.id), hint=hint)
            # OceanBase shows quotes and backslashes of labels without an escape, so nobody knows how it has them.
            labels = frozenset[str]() if self._session.flavor == "oceanbase" else labels_of(column.type)
            found.append(WrittenColumn(column.name, column.type, exact=True, labels=labels))
        return found

    def load(self, body: bytes, columns: Sequence[WrittenColumn], types: Sequence[pa.DataType], *, new: bool) -> None:
        """Write the rows of a `load_body` by LOAD DATA over those of their keys; `new` ones meet none.

        `types`: those of the columns of the rows.
        """
        sql = (
            f"LOAD DATA LOCAL INFILE 'rows' REPLACE INTO TABLE {self._name} CHARACTER SET utf8mb4 "
            "FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' " + load_columns(columns, types)
        )
        loaded = self._translate_errors(lambda: self._session.load(sql, [body]))
        if loaded.warnings:
            self._refuse_warnings(unknown=True)
        if new and loaded.deleted and self._table.unique:
            raise RowRefused(Reason.UNIQUE_KEY, f"{loaded.deleted} rows have values of others in a unique key")

    def insert(self, columns: Sequence[WrittenColumn], lines: Sequence[str], *, new: bool) -> None:
        """Write rows by one INSERT; but for `new` ones over those of their keys, whose other columns stay."""
        names = ", ".join(quoted(column.name) for column in columns)
        others = [column for column in columns if not self._table.in_key(column.name)] or list(columns[:1])
        updates = ", ".join(f"{quoted(column.name)} = VALUES({quoted(column.name)})" for column in others)
        end = "" if new else f" ON DUPLICATE KEY UPDATE {updates}"
        self._run(f"INSERT INTO {self._name} ({names}) VALUES {', '.join(lines)}{end}", len(lines))

    def delete(self, columns: Sequence[WrittenColumn], lines: Sequence[str]) -> None:
        """Delete the rows of keys."""
        found = in_literals(columns, lines, self._session.flavor)
        self._run(f"DELETE FROM {self._name} WHERE {found}", len(lines))

    def delete_one(self, columns: Sequence[WrittenColumn], values: Sequence[str]) -> bool:
        """Delete one row that is equal in every column; whether there was one. `values` are SQL."""
        same = " AND ".join(self._equal(column, value) for column, value in zip(columns, values, strict=True))
        return self._run(f"DELETE FROM {self._name} WHERE {same} LIMIT 1", 1) > 0

    def has_own_columns(self, names: Sequence[str]) -> bool:
        """Whether the table has columns that are not written and would lose their values with their row."""
        written = {name.casefold() for name in (*names, *self._table.generated)}
        return not {column.name.casefold() for column in self._table.columns} <= written

    def _equal(self, column: WrittenColumn, value: str) -> str:
        """A comparison that takes NULL for equal to NULL, text code by code, and -0 for no 0 where the server does."""
        name, kind = quoted(column.name), column.type.name
        if kind == "json":
            return f"{name} <=> CAST({value} AS JSON)" if value != "NULL" else f"{name} IS NULL"
        if kind in ("float", "double") and value in ("'0'", "'-0'"):
            return f"CAST({name} * 1e0 AS CHAR) <=> CAST({value[1:-1]}e0 AS CHAR)"
        # MySQL compares no vectors, OceanBase nothing else with one.
        as_bytes = column.type.is_characters or (kind == "vector" and self._session.flavor == "mysql")
        return f"CAST({name} AS BINARY) <=> CAST({value} AS BINARY)" if as_bytes else f"{name} <=> {value}"

    def _run(self, sql: str, rows: int) -> int:
        longest = self._session.max_packet_bytes
        if rows == 1 and (size := len(sql.encode())) + ENVELOPE_BYTES > longest:
            message = f"a row of {size:,} bytes does not fit in the server's max_allowed_packet, {longest:,} bytes"
            raise RowRefused(Reason.TOO_LONG, message)
        changed, warnings = self._translate_errors(lambda: self._session.write(sql))
        if warnings:
            self._refuse_warnings(unknown=False)
        return changed

    def _translate_errors(self, statement: Callable[[], T]) -> T:
        try:
            return statement()
        except StatementRefused as error:
            raise of_a_row(error) or of_the_table(error, self._table.id) from None

    def _refuse_warnings(self, *, unknown: bool) -> None:
        """Raise for a warning of a value; with `unknown` also for what nobody knows to be harmless."""
        for _, code, text in self._session.rows("SHOW WARNINGS"):
            refusal = StatementRefused(int(code), f"the server would have changed a value: {text}")
            if (refused := of_a_row(refusal)) is not None:
                raise refused
            if unknown and not is_harmless(int(code)):
                raise of_the_table(refusal, self._table.id)


def statements_of(lines: Sequence[str], most_bytes: int) -> Iterator[tuple[int, int]]:
    """Where the lines of one statement after the other begin and end, so that none is longer than the server takes."""
    start = size = 0
    most_bytes = min(_STATEMENT_BYTES, most_bytes // 2)
    for place, line in enumerate(lines):
        bytes_ = len(line) if line.isascii() else 4 * len(line)
        if place > start and (place - start >= _STATEMENT_ROWS or size + bytes_ > most_bytes):
            yield start, place
            start, size = place, 0
        size += bytes_
    if lines:
        yield start, len(lines)
