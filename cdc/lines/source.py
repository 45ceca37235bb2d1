"""A source that reads changes from JSON lines (`cdc.lines.format`).

The whole log is parsed once per process: meant for tests, examples and corrections by hand, not for large files. An
offset is `{"line": n}`: the first n lines are done.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, takewhile
from typing import Any

import pyarrow as pa

from cdc import events as on
from cdc.block import ChangeBlock, RowKind, arrow_schema
from cdc.errors import EngineError, SourceError
from cdc.evolution.apply import apply_changes
from cdc.evolution.merge import find
from cdc.lines.format import Commit, Line, RowImage, decoded, line_from_json
from cdc.schema import AlterColumnType, CreateTable, DataType, Kind, SchemaChange, TableId, TableSchema
from cdc.source import Count, Limits, Offset, Report, Source, Split

Tables = Mapping[TableId, TableSchema]

_PAIR = "write both images of an update, -U and +U, in two lines that follow each other"
_NO_AFTER = "a -U is followed by the +U of the same row"
_CREATED = '{"change": "create.table", "table": "shop.orders", "schema": {"columns": [{"name": "id", "type": "INT"}]}}'
_EXAMPLE = f'write lines such as {_CREATED} and, after it, {{"op": "+I", "table": "shop.orders", "row": {{"id": 1}}}}'


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line: its location, its change, and the tables after it."""

    where: str
    line: Line
    tables: Tables


class LineSource(Source):
    """Reads lines in order; a batch is a range of whole transactions without a schema change after its first row."""

    bounded = True

    def __init__(self) -> None:
        self._parsed: tuple[_Entry, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_parsed": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @abstractmethod
    def lines(self) -> Iterable[tuple[str, object]]:
        """The location of each line, for messages, and its JSON value; the same on every call. Any process.

        Raises SourceError.
        """

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The tables after the last line. Driver."""
        entries = self._entries()
        return entries[-1].tables if entries else {}

    def first_tables(self) -> Mapping[TableId, TableSchema]:
        """The tables at the first row: those that a run finds when it starts. Raises SourceError."""
        start = self.initial_offset()
        changes = self._changes(start, self.latest_offset(start, None, 0.0))
        return apply_changes({}, takewhile(lambda change: isinstance(change, CreateTable), changes))

    def initial_offset(self) -> Offset:
        """The offset before the first line. Stream reader process."""
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
        """No effect: the log does not grow. Stream reader process."""

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Ranges of about equally many lines. Stream reader process."""
        first, last = int(start["line"]), int(end["line"])
        size, entries = max(1, -(-(last - first) // parallelism)), self._entries()
        ends = (at + _ends_update(entries[at].line) for at in range(first + size, last, size))
        cuts = [first, *dict.fromkeys(ends), last]
        parts = [[at, to] for at, to in pairwise(cuts) if at < to]
        return [Split(number, part) for number, part in enumerate(parts)]

    def events(self, start: Offset, end: Offset) -> Sequence[on.SourceEvent]:
        """The schema changes among the lines. Driver."""
        return on.events(self._changes(start, end))

    def _changes(self, start: Offset, end: Offset) -> list[SchemaChange]:
        lines = (entry.line for entry in self._entries()[start["line"] : end["line"]])
        return [line for line in lines if not isinstance(line, RowImage | Commit)]

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Yield a block per sequence of rows of one table. Executor. Raises SourceError with the line."""
        first, last = split.payload
        rows = (
            (number, entry)
            for number, entry in enumerate(self._entries()[first:last], start=first)
            if isinstance(entry.line, RowImage)
        )
        for table, run in groupby(rows, key=_table):
            yield _block(table, list(run))

    def position_text(self, sequence: int) -> str:
        """The location of a row's line, for an update the first of its two. Executor and driver."""
        return self._entries()[sequence - 1].where if sequence > 0 else ""

    def _entries(self) -> tuple[_Entry, ...]:
        if self._parsed is None:
            self._parsed = tuple(_parse(self.lines()))
        return self._parsed

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


def _ends_update(line: Line) -> bool:
    return isinstance(line, RowImage) and line.kind is RowKind.UPDATE_AFTER


def _parse(lines: Iterable[tuple[str, object]]) -> Iterator[_Entry]:
    tables: Tables = {}
    before: _Entry | None = None
    for where, value in lines:
        try:
            line = line_from_json(value)
            _check_pair(before, line)
            if isinstance(line, RowImage):
                _check_columns(line, tables)
            elif not isinstance(line, Commit):
                line = _with_old(line, tables)
                tables = _changed(tables, line)
        except ValueError as error:
            raise SourceError(str(error), where=where, hint=_EXAMPLE) from error
        before = _Entry(where, line, tables)
        yield before
    if before is not None and _begins_update(before.line):
        raise SourceError(_NO_AFTER, where=before.where, hint=_PAIR)


def _begins_update(line: Line) -> bool:
    return isinstance(line, RowImage) and line.kind is RowKind.UPDATE_BEFORE


def _check_pair(before: _Entry | None, line: Line) -> None:
    """Check that both images of an update follow each other."""
    if before is not None and isinstance(before.line, RowImage) and _begins_update(before.line):
        if not isinstance(line, RowImage) or not _ends_update(line) or line.table != before.line.table:
            raise ValueError(f"{_NO_AFTER} (line at {before.where})")
    elif _ends_update(line):
        raise ValueError("a +U comes right after the -U of the same row, which says what the row was")


def _with_old(change: SchemaChange, tables: Tables) -> SchemaChange:
    """A change of type with the column's former definition, which a line may leave out: it says what values there are.

    A sink's own type does not: Iceberg, for one, has no VARCHAR.
    """
    if not isinstance(change, AlterColumnType) or change.old is not None or change.table not in tables:
        return change
    return replace(change, old=find(tables[change.table], change.column.name))


def _changed(tables: Tables, change: SchemaChange) -> Tables:
    if change.table not in tables and not isinstance(change, CreateTable):
        raise ValueError(f"there is no table {change.table} at this point; create it first")
    try:
        after = apply_changes(tables, [change])
    except EngineError as error:
        raise ValueError(error.message) from error
    if change.table in after:
        _check_schema(after[change.table])
    return after


def _check_schema(schema: TableSchema) -> None:
    names = [name.casefold() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        raise ValueError(f"column {twice[0]} is there twice" if twice else "a table has at least one column")
    missing = [name for name in schema.primary_key if name not in schema.names]
    if missing:
        raise ValueError(
            f"the primary key names {missing[0]}, which is not a column; there are {', '.join(schema.names)}"
        )
    for column in schema.columns:
        precision, scale = column.type.length or 0, column.type.scale or 0
        if column.type.kind is Kind.DECIMAL and not (1 <= precision <= 65 and scale <= precision):
            raise ValueError(f"column {column.name}: {column.type} is not a type: a DECIMAL has 1 to 65 digits in all")


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
        sequence=pa.array([number + 1 - _ends_update(entry.line) for number, entry in run], pa.int64()),
        row=pa.array([int(_ends_update(entry.line)) for _, entry in run], pa.int32()),
        timestamps_ms=pa.array([image.ts_ms for _, image in images], pa.int64()),
    )


def _value(where: str, image: RowImage, name: str, schema: TableSchema) -> Any:
    data_type, given = schema.column(name).type, image.row.get(name)
    try:
        value = decoded(given, data_type)
    except ValueError as error:
        raise _wrong_value(where, name, str(error), data_type) from error
    try:
        pa.scalar(value, arrow_schema(schema).field(name).type)
    except (ValueError, OverflowError) as error:
        raise _wrong_value(where, name, f"{given!r} does not fit {data_type}", data_type) from error
    return value


def _wrong_value(where: str, column: str, problem: str, data_type: DataType) -> SourceError:
    return SourceError(f"column {column}: {problem}", where=where, hint=f"write a value of {data_type}")
