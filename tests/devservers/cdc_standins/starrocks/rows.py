"""Windows of fields to rows as they are staged: conversion, expressions, validation, in the order of the back end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_standins.load_text import Field, Window
from cdc_standins.load_values import convert
from cdc_standins.starrocks.errors import internal
from cdc_standins.starrocks.headers import error_line
from cdc_standins.starrocks.plan import OPERATION, Output, Plan
from cdc_standins.starrocks.schema import NOW, Column
from cdc_standins.starrocks.types import TEXT, ColumnType

LONGEST_KEY = 128
ERROR_LINES = 50
_KEY_BYTES = {
    "BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "LARGEINT": 16, "DATE": 4, "DATETIME": 8,
}  # fmt: skip
_ANY_TEXT = ColumnType("VARBINARY")


@dataclass(slots=True)
class Counts:
    """What a load saw; `errors` are the first lines of the error log."""

    total: int = 0
    filtered: int = 0
    errors: list[str] = field(default_factory=list)

    def reject(self, lines: Sequence[str], count: int) -> None:
        """Count filtered rows, keep the first lines."""
        self.filtered += count
        self.errors.extend(lines[: max(0, ERROR_LINES - len(self.errors))])


class RowBuilder:
    """Makes staged batches of one load, without the rows that have a value that is none."""

    def __init__(self, plan: Plan, *, now: Callable[[], datetime] = datetime.now) -> None:
        self.plan = plan
        self.counts = Counts()
        self._now = now().replace(microsecond=0)
        self._schema = pa.schema(
            [pa.field(output.column.staged, output.column.type.arrow) for output in plan.outputs]
            + [pa.field(OPERATION, pa.int8())]
        )

    @property
    def schema(self) -> pa.Schema:
        """Columns by their staged names, and `__op`."""
        return self._schema

    def build(self, window: Window) -> pa.RecordBatch:
        """The rows of a window that pass. Raises LoadFailure when the whole load fails."""
        self.counts.total += len(window.rows) + len(window.rejected)
        self.counts.reject(window.rejected, len(window.rejected))
        checks = _Checks(window)
        columns, texts = self._slots(window, checks)
        outputs = [self._output(output, columns, texts, checks) for output in self.plan.outputs]
        operations = self._operations(columns, len(window.rows))
        batch = pa.RecordBatch.from_arrays([*outputs, operations], schema=self._schema)
        if checks.bad:
            keep = np.ones(len(window.rows), np.bool_)
            keep[list(checks.bad)] = False
            batch = batch.filter(pa.array(keep))
        self.counts.reject(checks.lines, len(checks.bad))
        if self.plan.table.primary:
            self._check_keys(batch)
        return batch

    def _slots(self, window: Window, checks: _Checks) -> tuple[dict[str, pa.Array], dict[str, Sequence[Field]]]:
        """Slots of a column's own type as Arrow, those that expressions read as text."""
        columns: dict[str, pa.Array] = {}
        texts: dict[str, Sequence[Field]] = {}
        for position, (slot, fields) in enumerate(zip(self.plan.slots, window.columns, strict=True)):
            if not slot.used:
                continue
            plain = slot.type.name == "VARCHAR" and not slot.type.length
            column, invalid = convert(fields, (_ANY_TEXT if plain else slot.type).loaded)
            checks.fail(invalid, partial(_not_a_value, slot.name, position, slot.type))
            if plain:
                texts[slot.name] = column.to_pylist() if invalid else fields
            columns[slot.name] = column
        return columns, texts

    def _output(
        self, output: Output, columns: dict[str, pa.Array], texts: dict[str, Sequence[Field]], checks: _Checks
    ) -> pa.Array:
        rows = len(checks.rows)
        if output.source is None:
            array = self._default(output.column, rows)
        elif output.direct:
            array = columns[output.source.name]
        else:
            array = self._computed(output, output.source.evaluate(texts, rows), checks)
        if not output.column.nullable and array.null_count:
            message = f"NULL value in non-nullable column '{output.column.name}'"
            checks.fail(np.flatnonzero(pc.is_null(array)).tolist(), lambda _: message)
        return array

    def _computed(self, output: Output, fields: Sequence[Field], checks: _Checks) -> pa.Array:
        column = output.column
        array, invalid = convert(fields, column.type.loaded)
        if column.type.name in (*TEXT, "VARBINARY"):
            checks.fail(invalid, lambda row: _too_long(fields[row], column))
        else:
            checks.fail(invalid, partial(_not_a_value, column.name, -1, column.type))
        return array

    def _default(self, column: Column, rows: int) -> pa.Array:
        if column.default == NOW:
            value: Field = str(self._now.date() if column.type.name == "DATE" else self._now).encode()
        else:
            value = None if column.default is None else column.default.encode()
        one, _ = convert([value], column.type.loaded)
        return pa.repeat(one[0], rows)

    def _operations(self, columns: dict[str, pa.Array], rows: int) -> pa.Array:
        if not self.plan.operation:
            return pa.array(np.zeros(rows, np.int8))
        numbers = columns[OPERATION]
        known = pc.all(pc.is_in(numbers, pa.array([0, 1], pa.int8()))).as_py()
        if known is False:
            raise internal("invalid __op: a row's operation is neither 0 (upsert) nor 1 (delete)")
        return numbers

    def _check_keys(self, batch: pa.RecordBatch) -> None:
        lengths: Any = 0
        keys = self.plan.table.keys
        for key in keys:
            if key.type.name in TEXT:
                size = pc.binary_length(batch.column(key.staged).cast(pa.binary())).fill_null(0)
                lengths = lengths + size.to_numpy(zero_copy_only=False) + (2 if key is not keys[-1] else 0)
            else:
                lengths = lengths + _KEY_BYTES[key.type.name]
        if batch.num_rows and np.max(lengths) > LONGEST_KEY:
            raise internal("primary key size exceed the limit.")


class _Checks:
    """Which rows of a window failed, each with its first reason."""

    def __init__(self, window: Window) -> None:
        self.rows = window.rows
        self.bad: set[int] = set()
        self.lines: list[str] = []

    def fail(self, rows: Sequence[int], message: Callable[[int], str]) -> None:
        new = [row for row in rows if row not in self.bad]
        self.lines += [error_line(message(row), self.rows[row]) for row in new[:ERROR_LINES]]
        self.bad |= {*new}


def _not_a_value(name: str, position: int, kind: ColumnType, _: int = 0) -> str:
    return f"The field (name = {name}, pos = {position}) is out of range. Type: {str(kind).upper()}"


def _too_long(value: Field, column: Column) -> str:
    text = value or b""
    shown = text[:64].decode(errors="replace")
    return (
        f"String '{shown}'(length={len(text)}) is too long. The max length of '{column.name}' is {column.type.length}"
    )
