"""A sink that can only append: what it was given has to add up to the source's rows, each exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from cdc.block import ChangeBlock
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    TableId,
    TruncateTable,
)
from cdc.sink import Prepared, Sink, TaskAttempt
from cdc.testing import images

Row = tuple[tuple[str, Any], ...]


class CountingSink(Sink):
    """Rows with how often they are there. A row taken away that is not there, or a second one, is a failure."""

    def __init__(self, *, keyless: frozenset[str] = frozenset()) -> None:
        self.tables: dict[TableId, Counter[Row]] = {}
        self.problems: list[str] = []
        self._keyless = keyless
        self._prepared: dict[str, list[tuple[str, dict[str, Any]]]] = {}

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        for change in changes:
            self._apply(change)

    def _apply(self, change: SchemaChange) -> None:
        match change:
            case CreateTable(table=table):
                self.tables.setdefault(table, Counter())
            case DropTable(table=table):
                del self.tables[table]
            case TruncateTable(table=table):
                self.tables[table].clear()
            case RenameTable(table=table, new_table=new):
                self.tables[new] = self.tables.pop(table)
            case AddColumn(table=table, column=column):
                value = int(column.default) if column.default is not None else None
                self._map(table, lambda row: {**row, column.name: value})
            case DropColumn(table=table, name=name):
                self._map(table, lambda row: {key: value for key, value in row.items() if key != name})
            case RenameColumn(table=table, old_name=old, new_name=new):
                self._map(table, lambda row: {new if key == old else key: value for key, value in row.items()})
            case RenameColumns(table=table, names=names):
                self._map(table, lambda row: {dict(names).get(key, key): value for key, value in row.items()})
            case AlterColumnType() | AlterPrimaryKey():
                pass
            case _:
                raise AssertionError(change)

    def _map(self, table: TableId, change: Any) -> None:
        old = self.tables[table]
        self.tables[table] = Counter()
        for row, number in old.items():
            self.tables[table][_row(change(dict(row)))] += number

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        kept: dict[TableId, list[tuple[str, dict[str, Any]]]] = {}
        for item in blocks:
            kept.setdefault(item.table, []).extend(images([item]))
        return [self._keep(task, table, changes) for table, changes in kept.items()]

    def _keep(self, task: TaskAttempt, table: TableId, changes: list[tuple[str, dict[str, Any]]]) -> Prepared:
        name = f"{task.batch}/{task.partition}/{table}"
        self._prepared[name] = changes
        symbols = [symbol for symbol, _ in changes]
        return Prepared(table, task.partition, name, *(symbols.count(symbol) for symbol in ("+I", "+U", "-D")))

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        for handle in prepared:
            rows = self.tables[handle.table]
            for symbol, values in self._prepared.pop(handle.handle):
                row = _row(values)
                rows[row] += 1 if symbol in ("+I", "+U") else -1
                if rows[row] < 0:
                    self.problems.append(f"batch {batch}: {handle.table}: {symbol} of a row that is not there: {row}")
                if rows[row] > 1 and handle.table.table not in self._keyless:
                    self.problems.append(f"batch {batch}: {handle.table}: {symbol} doubles {row}")
                if not rows[row]:
                    del rows[row]

    def abort(self, batch: int, noted: Any = ()) -> None:
        self._prepared.clear()


def _row(values: dict[str, Any]) -> Row:
    return tuple(sorted(values.items()))
