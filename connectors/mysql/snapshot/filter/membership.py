"""Decides which part of a table a key belongs to. Must agree with the server's comparison, or rows are lost.

Numbers, dates, times and bytes are compared here, vectorized where the key has only integers and moments. Text compares
by its collation, which only the server knows, so the server is queried, with many keys per statement.
"""

from __future__ import annotations

import calendar
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import UnsupportedChange
from connectors.mysql.snapshot.chunk import Bound, Chunk
from connectors.mysql.snapshot.plan.bounds import BINARY, INTEGERS, TIMES, Collations, lexicographic, literals_of
from connectors.mysql.snapshot.plan.bounds import split_columns as columns_of
from connectors.mysql.table import MySqlColumn, MySqlTable

_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (.*))?")
_EPOCH = date(1970, 1, 1).toordinal()
DAY_US = 86_400_000_000
BEFORE_ALL = -(1 << 63)
"""Rank of dates before the year 1."""
Ask = Callable[[str], Sequence[Any]]
"""Runs a statement on the server and returns its only row, of numbers."""

COMPARISONS = 2000
"""Maximum comparisons per statement."""

STATEMENT_BYTES = 1 << 19
"""Approximate maximum length of a statement: servers refuse one longer than their max_allowed_packet."""

_SIGN = np.uint64(1 << 63)
_RANKED = INTEGERS | TIMES


class Membership:
    """Computes the number of bounds below each key. Executor; not thread-safe.

    Args:
        columns, collations: of the split columns.
        bounds: in rising order.
        ask: queries the server; called only for keys of text.
    """

    def __init__(
        self, columns: Sequence[MySqlColumn], collations: Collations, bounds: Sequence[Bound], ask: Ask
    ) -> None:
        self._columns, self._collations, self._bounds, self._ask = columns, collations, list(bounds), ask
        kinds = {column.type for column in columns}
        if kinds <= _RANKED:
            self._find = self._ranked
        elif kinds <= _RANKED | BINARY | {"decimal"}:
            self._find = self._bisect_keys
        else:
            self._find = self._by_query

    def __call__(self, keys: pa.RecordBatch) -> Any:
        """Return int64[n] for the keys of n rows.

        `keys` has the split columns in order, with types as in a change block. NULL in a nullable column is below every
        bound. Raises UnsupportedChange for other NULLs: they stand for invalid dates, whose place in the order is not
        known.
        """
        if not self._bounds or not keys.num_rows:
            return np.zeros(keys.num_rows, np.int64)
        if any(column.null_count for column in keys.columns):
            return self._around_nulls(keys)
        return self._find(keys)

    def _around_nulls(self, keys: pa.RecordBatch) -> Any:
        if len(self._columns) > 1 or not self._columns[0].nullable:
            names = ", ".join(column.name for column in self._columns)
            raise UnsupportedChange(
                f"a key ({names}) holds an invalid date, so its part of the table is not known",
                hint="name another column in scan.incremental.snapshot.chunk.key-column, or correct the row",
            )
        valid = np.asarray(pc.is_valid(keys.column(0)))
        found = np.zeros(keys.num_rows, np.int64)
        found[valid] = self._find(keys.filter(pa.array(valid)))
        return found

    def _ranked(self, keys: pa.RecordBatch) -> Any:
        """Compare each column as a 64-bit number; several columns are compared as big-endian bytes."""
        ranks = [rank(keys.column(i)) for i in range(len(self._columns))]
        limits = [
            np.array([_rank_of(column, bound[i]) for bound in self._bounds], np.uint64)
            for i, column in enumerate(self._columns)
        ]
        return np.searchsorted(_sortable_array(limits), _sortable_array(ranks), side="left")

    def _bisect_keys(self, keys: pa.RecordBatch) -> Any:
        limits = [tuple(map(_comparable, self._columns, bound)) for bound in self._bounds]
        columns = [_values(column, keys.column(i)) for i, column in enumerate(self._columns)]
        return np.array([bisect_left(limits, key) for key in zip(*columns, strict=True)], np.int64)

    def _by_query(self, keys: pa.RecordBatch) -> Any:
        rows = list(zip(*map(_texts, self._columns, keys.columns), strict=True))
        places: dict[tuple[Any, ...], int] = dict.fromkeys(rows, 0)
        for some in self._statements(list(places)):
            places.update(zip(some, map(int, self._ask("SELECT " + ", ".join(some.values()))), strict=True))
        return np.array([places[row] for row in rows], np.int64)

    def _statements(self, keys: Sequence[tuple[Any, ...]]) -> Iterator[dict[tuple[Any, ...], str]]:
        """Group keys and their SQL expressions into statements."""
        most, size = max(1, COMPARISONS // len(self._bounds)), 0
        some: dict[tuple[Any, ...], str] = {}
        for key in keys:
            question = self._question(key)
            if some and (len(some) == most or size + len(question) > STATEMENT_BYTES):
                yield some
                some, size = {}, 0
            some[key] = question
            size += len(question)
        if some:
            yield some

    def _question(self, key: tuple[Any, ...]) -> str:
        mine = literals_of(self._columns, self._collations, key, typed=True)
        others = (literals_of(self._columns, self._collations, bound, typed=True) for bound in self._bounds)
        return " + ".join(f"({lexicographic(mine, other, '>', '>')})" for other in others)


class InChunk:
    """Tests whether keys belong to a chunk. Picklable if `ask` is."""

    def __init__(self, chunk: Chunk, table: MySqlTable, ask: Ask) -> None:
        bounds = [bound for bound in (chunk.lower, chunk.upper) if bound is not None]
        self.columns = chunk.columns
        self._place = 0 if chunk.lower is None else 1
        self._places = Membership(columns_of(chunk.columns, table), chunk.collations, bounds, ask)

    def __call__(self, keys: pa.RecordBatch) -> Any:
        """Return bool[n]; `keys` holds `columns` in order, with types as in a change block. Raises as `Membership`."""
        return self._places(keys) == self._place


def rank(values: pa.Array) -> Any:
    """Map integers, dates or times to uint64[n] in the same order. No NULLs."""
    if pa.types.is_date32(values.type):
        numbers = values.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64) * 86_400_000_000
    elif pa.types.is_integer(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
    else:
        numbers = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "u":
        return numbers.astype(np.uint64)
    return numbers.astype(np.int64).view(np.uint64) ^ _SIGN


def _rank_of(column: MySqlColumn, value: Any) -> int:
    """Return the rank of one value of a bound."""
    number = microseconds(column.type, str(value)) if column.type in TIMES else int(value)
    unsigned = column.unsigned and column.type not in TIMES
    return number if unsigned else max(0, number + (1 << 63))


def _sortable_array(columns: Sequence[Any]) -> Any:
    """Combine the ranks of several columns into one sortable array."""
    if len(columns) == 1:
        return columns[0]
    width = 8 * len(columns)
    return np.stack(columns, axis=1).astype(">u8").view(f"S{width}")[:, 0]  # stacking makes the bytes native


def _comparable(column: MySqlColumn, value: Any) -> Any:
    if column.type in BINARY:
        return bytes(value)
    return Decimal(str(value)) if column.type == "decimal" else _rank_of(column, value)


def _values(column: MySqlColumn, values: pa.Array) -> list[Any]:
    """Convert a column of keys to the same form as `_comparable` gives for bounds."""
    if column.type in BINARY:
        return list(values.to_pylist())
    return [Decimal(value) for value in values.to_pylist()] if column.type == "decimal" else rank(values).tolist()


def _texts(column: MySqlColumn, values: pa.Array) -> list[Any]:
    """Convert values to the form that `literal` takes."""
    if column.type in TIMES and not pa.types.is_date32(values.type):
        return [_moment(column.type, value) for value in values.cast(pa.int64()).to_pylist()]
    return list(values.to_pylist())


def _moment(kind: str, number: int) -> str:
    if kind == "time":
        sign, number = ("-" if number < 0 else ""), abs(number)
        seconds, fraction = divmod(number, 1_000_000)
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return str(np.datetime64(number, "us")).replace("T", " ")


def microseconds(kind: str, text: str) -> int:
    """Return a `time` as its duration, and a `date`, `datetime` or `timestamp` as the time since 1970.

    An invalid date becomes the last moment before its place: 2024-02-30 the end of 2024-02-29. Raises ValueError.
    """
    if kind == "time":
        return _span(text)
    match = _DAY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no date")
    year, month, day = (int(match[part]) for part in (1, 2, 3))
    clock = _span(match[4]) if match[4] else 0
    if year == 0:
        return BEFORE_ALL
    if month == 0:
        return (date(year, 1, 1).toordinal() - _EPOCH) * DAY_US - 1
    last = calendar.monthrange(year, month)[1]
    start = (date(year, month, 1).toordinal() - _EPOCH - 1) * DAY_US
    if 1 <= day <= last:
        return start + day * DAY_US + clock
    return start + (min(day, last) + 1) * DAY_US - 1


def _span(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time")
    sign, hours, minutes, seconds, fraction = match.groups()
    total = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -total if sign else total
