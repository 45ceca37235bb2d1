"""Schema changes carried out with Paimon's catalog. Driver.

What needs more than one step leaves a mark in the table's options first, in the same step as what shows in its schema,
and `wait_for_earlier` ends what a crash has cut off: a column whose rows still lack its default, a copy that was about
to take its table's place.

All commits go through the Rust package, which writes a snapshot conditionally:

| commit | user | identifier |
|---|---|---|
| a batch's rows | `<prefix>-<pipeline>` | the batch |
| all rows replaced or gone | `<prefix>-<pipeline>-rewrite` | none: it may be done again |
| merged files | `<prefix>-<pipeline>-compact` | none |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pyarrow as pa

from cdc.errors import ChangeRefused, SinkError
from cdc.evolution.session import SchemaSession
from cdc.evolution.steps import Statement
from cdc.evolution.table import ActualColumn, Layout
from cdc.schema import TableId, shadow_of
from connectors.paimon.dialect import PaimonDialect, PaimonStep, PaimonTable, same_layout
from connectors.paimon.library import Catalog, identifier, native
from connectors.paimon.options import PaimonSinkOptions
from connectors.paimon.rewrite import copy_rows
from connectors.paimon.rows import read_rows
from connectors.paimon.tables import FILL, SEQUENCE_BASE, SWAP, TABLE_ID, CatalogTables, LakeTable, greatest_sequence
from connectors.paimon.types import arrow_type
from connectors.shared.lake.defaults import literal
from connectors.shared.lake.errors import refused_changes
from connectors.shared.lake.queries import connection


class PaimonSchemas(SchemaSession[str]):
    """A session with the catalog: methods of the names that `PaimonStep.kind` has carry an operation out."""

    def __init__(self, tables: CatalogTables, options: PaimonSinkOptions, pipeline: str, user: str) -> None:
        """`user` is the commit user of the pipeline's batches."""
        self._tables, self._dialect = tables, PaimonDialect(options.table_properties(), options.partitions())
        self._pipeline, self._user = pipeline, f"{user}-rewrite"
        self._catalog = tables.catalog

    @property
    def dialect(self) -> PaimonDialect:
        """The sink's dialect."""
        return self._dialect

    def read(self, tables: Sequence[TableId]) -> Layout[str]:
        """One read of the newest schema for each table."""
        with self._catalog.guard(self._catalog.place):
            databases = self._catalog.open().list_databases()
        there = (self._tables.find(table) for table in dict.fromkeys(tables) if table.database in databases)
        return Layout([_actual(table) for table in there if table is not None], databases)

    def execute(self, statement: Statement) -> None:
        """Carry out one operation. Raises ChangeRefused, SinkError."""
        operation = statement.sql
        assert isinstance(operation, PaimonStep)
        with refused_changes(), self._catalog.guard(str(statement.table)):
            getattr(self, f"_{operation.kind}")(**operation.values)

    def finds(self, query: str) -> bool:
        """Looks at the rows with DuckDB, batch by batch."""
        table = next(
            (table for table in self._altered if query.startswith(f"SELECT 1 FROM {self._name(table)} ")), None
        )
        if table is None:
            raise SinkError(f"no table is asked about: {query}")
        found = self._tables.get(table)
        condition = query.removeprefix(f"SELECT 1 FROM {self._name(table)} ")
        for rows in read_rows(self._catalog, found, [column.name for column in found.columns]):
            with connection() as duck:
                duck.register("cdc_rows", pa.Table.from_batches([rows]))
                if duck.execute(f"SELECT 1 FROM cdc_rows {condition}").fetchall():
                    return True
        return False

    def holds_rows(self, table: TableId) -> bool:
        """Reads the first column, until there is a row."""
        found = self._tables.get(table)
        return any(rows.num_rows for rows in read_rows(self._catalog, found, [found.columns[0].name]))

    def identity(self, table: TableId) -> str | None:
        """The identity in the table's options."""
        found = self._tables.find(table)
        return None if found is None else found.identity

    def wait_for_earlier(self, tables: Sequence[TableId]) -> None:
        """End what a crash has cut off in these tables."""
        self._altered = list(tables)
        for name in dict.fromkeys(tables):
            table = self._tables.find(name)
            if table is None:
                continue
            self._fill_columns(table)
            if SWAP in table.options:
                self._end_swap(name, TableId.parse(table.options[SWAP]))

    # operations

    def _create_database(self, name: str) -> None:
        self._catalog.open().create_database(name, True)

    def _create_table(self, table: PaimonTable) -> None:
        if self._tables.find(table.id) is not None:
            return
        from pypaimon.schema.data_types import DataField
        from pypaimon.schema.schema import Schema

        fields = [
            DataField(number, column.name, _field_type(table, column), column.comment or None)
            for number, column in enumerate(table.columns)
        ]
        options = {**table.options, TABLE_ID: uuid4().hex, SEQUENCE_BASE + self._pipeline: "0"}
        options.setdefault("bucket", "1" if table.key else "-1")
        if not table.key:
            options["bucket"] = "-1"
        schema = Schema(fields, list(table.partition_keys), list(table.key), options, table.comment or None)
        self._catalog.open().create_table(identifier(table.id), schema, False)

    def _drop_table(self, table: TableId) -> None:
        self._catalog.open().drop_table(identifier(table), True)

    def _truncate_table(self, table: TableId) -> None:
        _truncate(self._catalog, self._tables.get(table), self._user)

    def _rename_table(self, table: TableId, new: TableId) -> None:
        self._catalog.open().rename_table(identifier(table), identifier(new))
        if self._tables.find(new) is None:
            reason = "the catalog has not renamed it: renaming a folder of an object store is none of its operations"
            raise ChangeRefused(reason, where=str(table), hint="`cdc resync` the table under its new name")

    def _comment_table(self, table: TableId, comment: str) -> None:
        self._alter(table, [_kinds().update_comment(comment or None)])

    def _add_column(self, table: TableId, column: ActualColumn[str], after: str | None) -> None:
        there = self._tables.get(table)
        move = None if after is None else _move_class().after(column.name, after)
        kind = _library_type(column.type, key=False)
        changes = [_kinds().add_column(column.name, kind, column.comment or None, move)]
        fills = column.default is not None and _value(there, column.name, column.type, column.default) is not None
        if fills and there.library.snapshot_manager().get_latest_snapshot() is not None:
            changes.append(_kinds().set_option(FILL + column.name, str(column.default)))
        self._alter(table, changes)
        self._fill_columns(self._tables.get(table))

    def _modify_column(self, table: TableId, name: str, new_type: str) -> None:
        self._alter(table, [_kinds().update_column_type(name, _library_type(new_type, key=False), True)])

    def _comment_column(self, table: TableId, name: str, comment: str) -> None:
        self._alter(table, [_kinds().update_column_comment(name, comment)])

    def _rename_column(self, table: TableId, old_name: str, new_name: str) -> None:
        self._alter(table, [_kinds().rename_column(old_name, new_name)])

    def _drop_column(self, table: TableId, name: str) -> None:
        self._alter(table, [_kinds().drop_column(name)])

    def _copy_rows(self, source: TableId, target: TableId, empty: Sequence[str]) -> None:
        to = self._tables.get(target)
        base = to.sequence_base(self._pipeline)
        messages = copy_rows(self._catalog, self._tables.get(source), to, base + 1, self._prefix, empty=empty)
        _overwrite(self._catalog, to, self._user, messages)

    def _swap_shadow(self, copy: TableId, table: TableId) -> None:
        source, to = self._tables.get(copy), self._tables.find(table)
        if to is not None and same_layout(_actual(source), _actual(to)):
            sequence = to.sequence_base(self._pipeline) + greatest_sequence(self._catalog, source)
            messages = copy_rows(self._catalog, source, to, sequence, self._prefix)
            _overwrite(self._catalog, to, self._user, messages)
            self._drop_table(copy)
            return
        self._alter(copy, [_kinds().set_option(SWAP, str(table))])
        self._drop_table(table)
        self._end_swap(copy, table)

    # helpers

    def _end_swap(self, marked: TableId, table: TableId) -> None:
        """Give a copy the name of its table once that is dropped, and take its mark away. A marked table of any other
        name has been swapped already, and renamed since."""
        if marked in (self._dialect.copy_of(table), shadow_of(table)):
            if self._tables.find(table) is not None:
                return
            self._rename_table(marked, table)
            marked = table
        self._alter(marked, [_kinds().remove_option(SWAP)])

    @property
    def _prefix(self) -> str:
        return f"cdc-{self._pipeline}-rewrite-"

    def _name(self, table: TableId) -> str:
        return self._dialect.table_name(table)

    def _alter(self, table: TableId, changes: list[Any]) -> None:
        self._catalog.open().alter_table(identifier(table), changes, False)

    def _fill_columns(self, table: LakeTable) -> None:
        """Rows that lack a column's default get it, in one snapshot."""
        marks = {name.removeprefix(FILL): text for name, text in table.options.items() if name.startswith(FILL)}
        if not marks:
            return
        types = {column.name: column.type for column in table.columns}
        fill = {name: _value(table, name, types[name], text) for name, text in marks.items() if name in types}
        sequence = greatest_sequence(self._catalog, table)
        messages = copy_rows(self._catalog, table, table, sequence, self._prefix, fill)
        _overwrite(self._catalog, table, self._user, messages)
        self._alter(table.id, [_kinds().remove_option(FILL + name) for name in marks])


def _value(table: LakeTable, name: str, kind: str, default: str) -> pa.Scalar | None:
    return literal(default, arrow_type(kind), name, table.id)


def _actual(table: LakeTable) -> PaimonTable:
    comments = {field.name: field.description or "" for field in table.library.fields}
    columns = tuple(
        ActualColumn(column.name, column.type, column.nullable, None, comments[column.name]) for column in table.columns
    )
    options = {name: value for name, value in table.options.items() if not name.startswith("cdc.")}
    comment = table.library.table_schema.comment or ""
    return PaimonTable(table.id, columns, table.key, comment, table.partition_keys, options)


def _field_type(table: PaimonTable, column: ActualColumn[str]) -> Any:
    return _library_type(column.type, key=table.in_key(column.name))


def _library_type(text: str, *, key: bool) -> Any:
    from pypaimon.schema.data_types import ArrayType, AtomicType

    if text.startswith("ARRAY<"):
        return ArrayType(True, AtomicType(text[6:-1]))
    return AtomicType(text, nullable=not key)


def _kinds() -> Any:
    from pypaimon.schema.schema_change import SchemaChange

    return SchemaChange


def _move_class() -> Any:
    from pypaimon.schema.schema_change import Move

    return Move


def _overwrite(catalog: Catalog, table: LakeTable, user: str, messages: Sequence[Any]) -> None:
    """One snapshot in which the rows of these messages are all that the table has; may repeat. Raises SinkError."""
    from pypaimon.write.native_commit import to_native_commit_messages

    with catalog.guard(str(table.id)):
        library = table.library.copy({"dynamic-partition-overwrite": "false"})
        builder = native(library).new_batch_write_builder()._with_commit_user(user)
        builder.with_overwrite({}).new_commit().commit(to_native_commit_messages(library, list(messages)))


def _truncate(catalog: Catalog, table: LakeTable, user: str) -> None:
    """One snapshot without rows; may repeat. Raises SinkError."""
    with catalog.guard(str(table.id)):
        native(table.library).new_batch_write_builder()._with_commit_user(user).new_commit().truncate_table()
