"""From the fields of a load to staged rows: mapping to columns, conversion, filtering, the last row of each key."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cdc_standins.data import DELETE
from cdc_standins.doris.catalog import DELETE_SIGN, NOW, Column, Table
from cdc_standins.doris.errors import BadRows, LoadError, from_front_end
from cdc_standins.doris.headers import LoadHeaders
from cdc_standins.doris.types import DorisType
from cdc_standins.expressions import Expression
from cdc_standins.load_text import Field, Fields, TextReader
from cdc_standins.load_values import TEXTS, convert

_SIGN = Column(DELETE_SIGN, DorisType("TINYINT"), -1, nullable=False, default="0")


@dataclass(frozen=True, slots=True)
class Target:
    """One column that a load fills: from an expression over fields, or with its default when there is none."""

    column: Column
    stored: str
    source: Expression | None


@dataclass(slots=True)
class Loaded:
    """The rows of a finished load, one per key, and how many were sent."""

    rows: pa.Table
    total: int


class LoadPlan:
    """How one load fills one table. Raises LoadError when it cannot."""

    def __init__(self, table: Table, headers: LoadHeaders, now: Callable[[], dt.datetime]) -> None:
        self.table, self.headers, self._now = table, headers, now
        hidden = [(_SIGN, DELETE)] if table.unique else []
        if headers.columns is None:
            self.sources = [column.name for column in table.columns] + list(headers.hidden_columns)
            computed: dict[str, Expression] = {}
        else:
            self.sources = [item.name for item in headers.columns if item.expression is None]
            computed = {item.name.lower(): item.expression for item in headers.columns if item.expression is not None}
        known = {name.lower() for name in self.sources}
        for name, expression in computed.items():
            if missing := expression.names() - known:
                raise from_front_end(f"Unknown column '{sorted(missing)[0]}' in the expression of {name}")
        if len(known) != len(self.sources):
            raise from_front_end("Duplicate column in the columns header")
        columns = [(column, column.stored) for column in table.columns] + hidden
        self.targets = [Target(column, stored, self._source(column, known, computed)) for column, stored in columns]
        for target in self.targets:
            if target.source is None and not target.column.takes_default:
                raise from_front_end(f"Column has no default value. column: {target.column.name}")

    def read(self, blocks: Iterator[memoryview]) -> Loaded:
        """Read the body. Raises BadRows when a row is filtered."""
        total = filtered = 0
        reasons: list[str] = []
        parts = []
        for columns, count, rejected in self._fields(blocks):
            if not self.headers.strict:
                raise LoadError("INTERNAL_ERROR", "the stand-in reads rows only with strict_mode: true")
            rows, wrong = self._convert(columns, count)
            total += count + len(rejected)
            filtered += len(rejected) + len(wrong)
            reasons += [*rejected, *wrong][: max(0, 50 - len(reasons))]
            parts.append(rows)
        if filtered:
            raise BadRows(total, filtered, 0, reasons)
        rows = pa.concat_tables(parts) if parts else pa.table({})
        return Loaded(self._last_of_each_key(rows), total)

    def _source(self, column: Column, known: set[str], computed: Mapping[str, Expression]) -> Expression | None:
        name = column.name.lower()
        if name in computed:
            return computed[name]
        return Expression(name=name) if name in known else None

    def _fields(self, blocks: Iterator[memoryview]) -> Iterator[tuple[list[Fields], int, list[str]]]:
        reader = TextReader(self.headers.text, len(self.sources))
        for block in blocks:
            for window in reader.feed(block):
                yield window.columns, len(window.rows), window.rejected
        for window in reader.finish():
            yield window.columns, len(window.rows), window.rejected

    def _convert(self, columns: list[Fields], count: int) -> tuple[pa.Table, list[str]]:
        """Fields to rows of the physical table; what was filtered is left out, with one reason for each row."""
        fields = dict(zip((name.lower() for name in self.sources), columns, strict=True))
        wrong: dict[int, str] = {}
        arrays = {}
        for target in self.targets:
            given = self._given(target, fields, count)
            values, bad = convert(given, target.column.type.loaded)
            for row in bad:
                wrong.setdefault(row, _reason(target.column, given[row] or b""))
            if not target.column.nullable and values.null_count:
                for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
                    wrong.setdefault(row, f"column({target.column.name}) values is null while columns is not nullable")
            arrays[target.stored] = values
        rows = pa.table(arrays)
        if wrong:
            keep = np.ones(count, np.bool_)
            keep[list(wrong)] = False
            rows = rows.filter(pa.array(keep))
        return rows, [f"{reason}. src line [{row}]; " for row, reason in wrong.items()]

    def _given(self, target: Target, fields: Mapping[str, Fields], count: int) -> Fields:
        if target.source is None:
            return [self._default(target.column)] * count
        return target.source.evaluate(fields, count)

    def _default(self, column: Column) -> Field:
        if column.default == NOW:
            return str(self._now()).encode()
        return None if column.default is None else column.default.encode()

    def _last_of_each_key(self, rows: pa.Table) -> pa.Table:
        """Of several rows of a key the later one."""
        keys = [column.stored for column in self.table.keys] if self.table.unique else []
        if not keys or rows.num_rows < 2:
            return rows
        numbered = rows.select(keys).append_column("$row", pa.array(np.arange(rows.num_rows)))
        last = numbered.group_by(keys, use_threads=False).aggregate([("$row", "max")])["$row_max"].to_numpy()
        return rows if len(last) == rows.num_rows else rows.take(pa.array(np.sort(last)))


def _reason(column: Column, given: bytes) -> str:
    shown = given[:32].decode(errors="replace")
    if column.type.kind in (*TEXTS, "VARBINARY"):
        return (
            f"column_name[{column.name}], the length of input is too long than schema. first 32 bytes of input str: "
            f"[{shown}] schema length: {column.type.length}; actual length: {len(given)}; "
        )
    return f"column({column.name}) value is incorrect while strict mode is true, src value is {shown}"
