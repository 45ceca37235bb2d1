"""Statements that write rows of one table, run in the caller's transaction. Driver.

Each raises RowRefused when the table refuses one of its rows, also if the server would only have changed a value and
warned; SinkError for a problem of the whole table; SinkUnavailable to retry the batch. The caller then rolls the
statement back.

LOAD DATA LOCAL without REPLACE stores bad values as far as possible and silently skips equal keys, so it is never used
that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from cdc.errors import SinkError, SinkUnavailable
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
    """Statements for the rows of a table, by its definition in the server."""

    def __init__(self, session: SinkSession, table: ServerTable) -> None:
        self._session, self._table = session, table
        self._name = quoted(table.id.database, table.id.table)

    def columns(self, names: Sequence[str]) -> list[WrittenColumn]:
        """Return the columns as they are in the server. Raises SinkError for a missing one."""
        found = []
        for name in names:
            column = self._table.column(name)
            if column is None:
                hint = "add it again; was the table changed by somebody else?"
                raise SinkError(f"there is no column {name}", where=str(self._table.id), hint=hint)
            # OceanBase shows quotes and backslashes of labels unescaped, so its labels are ambiguous.
            labels = frozenset[str]() if self._session.flavor == "oceanbase" else labels_of(column.type)
            found.append(WrittenColumn(column.name, column.type, exact=True, labels=labels))
        return found

    def load(self, body: bytes, columns: Sequence[WrittenColumn], types: Sequence[pa.DataType], *, new: bool) -> None:
        """Write the rows of a `load_body` by LOAD DATA, replacing rows with the same key; `new` rows have none.

        `types`: the types of the rows' columns.
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
        """Write rows by one INSERT. Unless `new`, updates existing rows of the same keys, whose other columns stay."""
        names = ", ".join(quoted(column.name) for column in columns)
        others = [column for column in columns if not self._table.in_key(column.name)] or list(columns[:1])
        updates = ", ".join(f"{quoted(column.name)} = VALUES({quoted(column.name)})" for column in others)
        end = "" if new else f" ON DUPLICATE KEY UPDATE {updates}"
        self._run(f"INSERT INTO {self._name} ({names}) VALUES {', '.join(lines)}{end}", len(lines))

    def delete(self, columns: Sequence[WrittenColumn], lines: Sequence[str]) -> None:
        """Delete the rows of these keys."""
        found = in_literals(columns, lines, self._session.flavor)
        self._run(f"DELETE FROM {self._name} WHERE {found}", len(lines))

    def delete_one(self, columns: Sequence[WrittenColumn], values: Sequence[str]) -> bool:
        """Delete one row that is equal in every column; returns whether there was one. `values` are SQL."""
        same = " AND ".join(self._equal(column, value) for column, value in zip(columns, values, strict=True))
        return self._run(f"DELETE FROM {self._name} WHERE {same} LIMIT 1", 1) > 0

    def has_own_columns(self, names: Sequence[str]) -> bool:
        """Return whether the table has further columns, which would lose their values if their row were replaced."""
        written = {name.casefold() for name in (*names, *self._table.generated)}
        return not {column.name.casefold() for column in self._table.columns} <= written

    def _equal(self, column: WrittenColumn, value: str) -> str:
        """SQL comparison: NULL equals NULL, text compares code by code, -0 differs from 0 where the server can."""
        name, kind = quoted(column.name), column.type.name
        if kind == "json":
            return f"{name} <=> CAST({value} AS JSON)" if value != "NULL" else f"{name} IS NULL"
        if kind in ("float", "double") and value in ("'0'", "'-0'"):
            return f"CAST({name} * 1e0 AS CHAR) <=> CAST({value[1:-1]}e0 AS CHAR)"
        # MySQL cannot compare vectors; OceanBase compares a vector only with another one.
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
        except SinkUnavailable as error:
            error.where = f"{self._table.id} on {error.where}"
            raise

    def _refuse_warnings(self, *, unknown: bool) -> None:
        """Raise for a warning about a value; with `unknown` also for any warning not known to be harmless."""
        for _, code, text in self._session.rows("SHOW WARNINGS"):
            refusal = StatementRefused(int(code), f"the server would have changed a value: {text}")
            if (refused := of_a_row(refusal)) is not None:
                raise refused
            if unknown and not is_harmless(int(code)):
                raise of_the_table(refusal, self._table.id)


def statements_of(lines: Sequence[str], most_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the lines of each statement, so that none is longer than the server accepts."""
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
