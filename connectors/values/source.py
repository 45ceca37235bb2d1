"""The values source: schema changes and row images written down in a file or in the pipeline itself.

The whole log is parsed once per process: meant for tests, examples and corrections by hand, not for large files. The
format is in `connectors.values.format`. An offset is `{"line": n}`: the first n lines are done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from cdc.block import ChangeBlock, RowKind, arrow_schema
from cdc.errors import SourceError, SourceUnavailable
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.source import Context, Count, Limits, Offset, Report, Source, Split
from connectors.values.format import Commit, Line, RowImage, decoded, line_from_json
from connectors.values.options import ValuesSourceOptions
from connectors.values.tables import Tables, changed

_EXAMPLE = 'write lines such as {"op": "+I", "table": "shop.orders", "row": {"id": 1}}'


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line: where it stands, what it says, and the tables as they are after it."""

    where: str
    line: Line
    tables: Tables


class ValuesSource(Source):
    """Reads lines in order; a batch is a range of whole transactions without a schema change after its first row."""

    bounded = True

    def __init__(self, options: ValuesSourceOptions, context: Context) -> None:
        self._options = options
        self._parsed: tuple[_Entry, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_parsed": None}

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The tables as they are after the last line. Driver."""
        entries = self._entries()
        return entries[-1].tables if entries else {}

    def initial_offset(self) -> Offset:
        """Before the first line. Stream reader process."""
        return {"line": 0}

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """The end of the next batch; `start` itself at the end of the log. Stream reader process."""
        entries, rows, end = self._entries(), 0, int(start["line"])
        for stop in self._ends(end):
            part = [entry.line for entry in entries[end:stop]]
            images = sum(isinstance(line, RowImage) for line in part)
            full = limits is not None and rows + images > limits.max_rows
            if rows and (full or not all(isinstance(line, RowImage | Commit) for line in part)):
                break
            rows, end = rows + images, stop
        return {"line": end}

    def stop_at_current(self) -> None:
        """The log does not grow. Stream reader process."""

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Runs of lines of about equal number. Stream reader process."""
        first, last = int(start["line"]), int(end["line"])
        size = max(1, -(-(last - first) // parallelism))
        return [Split(number, [at, min(at + size, last)]) for number, at in enumerate(range(first, last, size))]

    def schema_changes(self, start: Offset, end: Offset) -> Sequence[SchemaChange]:
        """The schema changes among the lines. Driver."""
        lines = (entry.line for entry in self._entries()[start["line"] : end["line"]])
        return [line for line in lines if not isinstance(line, RowImage | Commit)]

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """One block for each run of rows of the same table. Executor. Raises SourceError naming the line."""
        first, last = split.payload
        rows = (
            (number, entry)
            for number, entry in enumerate(self._entries()[first:last], start=first)
            if isinstance(entry.line, RowImage)
        )
        for table, run in groupby(rows, key=_table):
            yield _block(table, list(run))

    def position_text(self, sequence: int) -> str:
        """The number of the line, from 1."""
        return f"line {sequence}" if sequence > 0 else ""

    def _entries(self) -> tuple[_Entry, ...]:
        if self._parsed is None:
            self._parsed = tuple(_parse(self._lines()))
        return self._parsed

    def _lines(self) -> Iterator[tuple[str, object]]:
        """Where each line stands, and its JSON value."""
        if self._options.rows is not None:
            yield from ((f"source.rows[{number}]", row) for number, row in enumerate(self._options.rows))
            return
        path = Path(self._options.path or "")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            hint = "name a JSON-lines file in source.path"
            raise SourceUnavailable(f"cannot be read: {error}", where=str(path), hint=hint) from error
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield f"{path}:{number}", _json(line, f"{path}:{number}")

    def _ends(self, start: int) -> Iterator[int]:
        """The line numbers after `start` at which transactions end."""
        entries = self._entries()
        explicit = any(isinstance(entry.line, Commit) for entry in entries)
        for number in range(start, len(entries)):
            after = entries[number + 1].line if number + 1 < len(entries) else None
            if _ends_transaction(entries[number].line, after, explicit):
                yield number + 1


def _ends_transaction(line: Line, after: Line | None, explicit: bool) -> bool:
    if not isinstance(line, RowImage) or not isinstance(after, RowImage | Commit):
        return True
    return not explicit and line.kind is not RowKind.UPDATE_BEFORE


def _json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SourceError(f"is not JSON: {error}", where=where, hint="write one JSON object a line") from error


def _parse(lines: Iterator[tuple[str, object]]) -> Iterator[_Entry]:
    tables: Tables = {}
    for where, value in lines:
        try:
            line = line_from_json(value)
            if isinstance(line, RowImage):
                _check_columns(line, tables)
            elif not isinstance(line, Commit):
                tables = changed(tables, line)
        except ValueError as error:
            raise SourceError(str(error), where=where, hint=_EXAMPLE) from error
        yield _Entry(where, line, tables)


def _check_columns(image: RowImage, tables: Tables) -> None:
    if image.table not in tables:
        raise ValueError(f"there is no table {image.table} at this point; create it first")
    unknown = sorted(image.row.keys() - set(tables[image.table].names))
    if unknown:
        raise ValueError(f"{image.table} has no column {', '.join(unknown)}")


def _table(numbered: tuple[int, _Entry]) -> TableId:
    line = numbered[1].line
    return line.table if isinstance(line, RowImage) else TableId("", "")


def _block(table: TableId, run: Sequence[tuple[int, _Entry]]) -> ChangeBlock:
    schema = run[0][1].tables[table]
    images = [(entry.where, entry.line) for _, entry in run if isinstance(entry.line, RowImage)]
    columns = [
        pa.array([_value(where, image, column.name, schema) for where, image in images], field.type)
        for column, field in zip(schema.columns, arrow_schema(schema), strict=True)
    ]
    return ChangeBlock(
        table=table,
        schema=schema,
        rows=pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema)),
        kinds=pa.array([image.kind for _, image in images], pa.uint8()),
        sequence=pa.array([number + 1 for number, _ in run], pa.int64()),
        row=pa.array([0] * len(run), pa.int32()),
        timestamps_ms=pa.array([image.ts_ms for _, image in images], pa.int64()),
    )


def _value(where: str, image: RowImage, name: str, schema: TableSchema) -> Any:
    data_type = schema.column(name).type
    try:
        value = decoded(image.row.get(name), data_type)
        pa.scalar(value, arrow_schema(schema).field(name).type)
    except (ValueError, OverflowError) as error:
        raise SourceError(f"column {name}: {error}", where=where, hint=f"write a value of {data_type}") from error
    return value
