"""A whole sink for a system without SQL, and without transactions: the worked example of docs/write-a-connector.md.

A table is an alias of an index. `prepare` makes bulk bodies, which wait beside the decision; `commit` sends them with
versions from the log, so a repeat changes nothing. What an index cannot do in place is re-snapshot into a shadow table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from document_store import DocumentStore

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError
from cdc.evolution import operations as op
from cdc.evolution.api_sink import ApiSession
from cdc.evolution.rules import NewColumn, TableRules
from cdc.evolution.table import ActualColumn, ActualTable, Layout
from cdc.evolution.table_sink import TableSink
from cdc.lines.format import encoded
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, TaskAttempt
from cdc.source import Context
from cdc.testing.blocks import images

FENCE = "cdc_fence"


class IndexRules(TableRules[str]):
    """Fields keep their type and name; a new one is filled by an update of all documents."""

    name = "the document store"
    has_comments = False
    has_databases = False
    moves_tables = True
    renames_columns = False
    drops_columns = False
    rebuilds = False
    checks_rows = False
    new_column_default = NewColumn.BACK_FILL

    def column_type(self, data_type: DataType, *, key: bool) -> str:
        return str(data_type)

    def holds(self, actual: str, data_type: DataType, *, key: bool) -> bool:
        return actual == str(data_type)

    def data_type(self, actual: str) -> DataType:
        return DataType.parse(actual)

    def modifies_in_place(self, table: ActualTable[str], column: ActualColumn[str], new: str) -> bool:
        return False

    def new_table(self, table: TableId, schema: TableSchema) -> ActualTable[str]:
        columns = tuple(self.new_column(column, key=False) for column in schema.columns)
        return ActualTable(table, columns, schema.primary_key)

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[str]:
        return ActualColumn(column.name, str(column.type), default=column.default)

    def with_key(self, table: ActualTable[str], key: tuple[str, ...]) -> ActualTable[str]:
        return replace(table, key=key)


class IndexSession(ApiSession[str]):
    """Operations as calls. An index is named by the table that it was made for, and a number."""

    rules = IndexRules()

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    def read(self, tables: Sequence[TableId]) -> Layout[str]:
        found = []
        for table in tables:
            if (name := self._store.index_of(str(table))) is not None:
                index = self._store.index(name)
                columns = tuple(ActualColumn(field, kind) for field, kind in index["mapping"].items())
                found.append(ActualTable(table, columns, tuple(index["about"]["key"])))
        return Layout(found, {table.database for table in tables})

    def create_table(self, operation: op.CreateTableOp) -> None:
        self._create(operation.new)

    def create_shadow(self, operation: op.CreateShadowOp) -> None:
        self._create(operation.new)

    def _create(self, table: ActualTable[str]) -> None:
        """A name that no index has: the one of before may still be somebody's."""
        number = 0
        while self._there(name := f"{table.id}-{number}"):
            number += 1
        mapping = {column.name: column.type for column in table.columns}
        self._store.create_index(name, mapping, {"key": list(table.key)})
        self._store.set_aliases({str(table.id): name})

    def _there(self, name: str) -> bool:
        try:
            return bool(self._store.index(name))
        except LookupError:
            return False

    def drop_table(self, operation: op.DropTableOp) -> None:
        self._drop(operation.table)

    def drop_shadow(self, operation: op.DropShadowOp) -> None:
        self._drop(operation.shadow)

    def _drop(self, table: TableId) -> None:
        name = self._store.index_of(str(table))
        self._store.set_aliases({}, [str(table)])
        if name is not None:
            self._store.delete_index(name)

    def holds_rows(self, table: TableId) -> bool:
        return any(doc["source"] is not None for doc in self._store.index(self._index(table))["docs"].values())

    def truncate_table(self, operation: op.TruncateTableOp) -> None:
        """An empty index of the same fields takes its place."""
        former = self._store.index_of(str(operation.table))
        self._create(self._actual(operation.table))
        if former is not None:
            self._store.delete_index(former)

    def _actual(self, table: TableId) -> ActualTable[str]:
        found = self.read([table]).get(table)
        if found is None:
            raise ChangeRefused("the table does not exist", where=str(table), hint="restore it")
        return found

    def rename_table(self, operation: op.RenameTableOp) -> None:
        self._move(operation.table, operation.new)

    def move_table(self, operation: op.MoveTableOp) -> None:
        self._move(operation.actual.id, operation.new.id)

    def swap_shadow(self, operation: op.SwapShadowOp) -> None:
        former = self._store.index_of(str(operation.table))
        self._move(operation.shadow, operation.table)
        if former is not None:
            self._store.delete_index(former)

    def _move(self, table: TableId, new: TableId) -> None:
        """One step, so a repeat finds the alias or not."""
        name = self._store.index_of(str(table))
        if name is not None:
            self._store.set_aliases({str(new): name}, [str(table)])

    def add_column(self, operation: op.AddColumnOp) -> None:
        column = operation.column
        self._store.put_mapping(self._index(operation.table), column.name, column.type)

    def fill_column(self, operation: op.FillColumnOp) -> None:
        column = operation.column
        text, kind = column.default or "", DataType.parse(column.type)
        value = json.loads(text) if "INT" in str(kind) else text
        self._store.update_all(self._index(operation.table), column.name, encoded(value, kind))

    def _index(self, table: TableId) -> str:
        return self._store.index_of(str(table)) or str(table)


class DocumentSink(TableSink[str]):
    """Documents by key; of tables without one, each inserted row by its place in the log."""

    delivery: ClassVar[Delivery] = Delivery.IDEMPOTENT
    keyless: ClassVar[KeylessRows] = KeylessRows.INSERTS

    def __init__(self, path: Path, context: Context) -> None:
        super().__init__(context)
        self._cluster = DocumentStore(path)

    @contextmanager
    def schema_session(self, *, write: bool) -> Iterator[IndexSession]:
        yield IndexSession(self._cluster)

    def last_committed_batch(self) -> int:
        return int(self._fence()["batch"])

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        tables: dict[TableId, list[Any]] = {}
        for block in blocks:
            types, key = {column.name: column.type for column in block.schema.columns}, block.schema.primary_key
            for symbol, row in images([block]):
                requests = tables.setdefault(block.table, [])
                version = [task.batch, task.partition, len(requests)]
                if not key and symbol != "+I":
                    raise SinkError("rows of a table without a key are only inserted", where=str(block.table))
                id_ = json.dumps([encoded(row[name], types[name]) for name in key] if key else version)
                source = {name: encoded(value, types[name]) for name, value in row.items()}
                requests.append([symbol, [_id(id_), version, source if symbol in ("+I", "+U") else None]])
        return [_prepared(table, task.partition, requests) for table, requests in tables.items()]

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        if batch <= self.last_committed_batch():
            return
        for item in prepared:
            index = self._cluster.index_of(str(item.table))
            if index is None:
                raise SinkError("the table does not exist", where=str(item.table), hint="`cdc resync` it")
            self._cluster.bulk(index, json.loads(item.payload))
        self._cluster.bulk(FENCE, [("fence", [batch], {"batch": batch})])

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Nothing is in the system before the commit."""

    def _fence(self) -> dict[str, Any]:
        self._cluster.create_index(FENCE, {"batch": "BIGINT"}, {})
        found = self._cluster.index(FENCE)["docs"].get("fence")
        return {"batch": -1} if found is None else dict(found["source"])


def _id(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _prepared(table: TableId, partition: int, requests: list[Any]) -> Prepared:
    symbols = [symbol for symbol, _ in requests]
    inserts, updates, deletes = (symbols.count(symbol) for symbol in ("+I", "+U", "-D"))
    body = json.dumps([request for _, request in requests]).encode()
    return Prepared(table, partition, None, inserts, updates, deletes, payload=body)
