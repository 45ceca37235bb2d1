"""Carry out schema changes with Paimon's catalog. Runs in the driver.

A change of several steps first sets a mark in the table's options, together with its first change of the schema. After
a crash, `wait_for_earlier` completes the change: it fills a column whose rows still lack the default, or puts a copy in
the place of its table.

All commits go through the Rust package, which writes snapshots conditionally:

| commit | user | identifier |
|---|---|---|
| a batch's rows | `<prefix>-<pipeline>` | the batch |
| all rows replaced or removed | `<prefix>-<pipeline>-rewrite` | none: it may be repeated |
| merged files | `<prefix>-<pipeline>-compact` | none |
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa

from cdc.errors import ChangeRefused
from cdc.evolution import operations as op
from cdc.evolution.steps import Check, KeyCheck
from cdc.evolution.table import ActualColumn
from cdc.schema import TableId, shadow_of
from connectors.paimon.library import Catalog, identifier, is_dropped, native
from connectors.paimon.options import PaimonSinkOptions
from connectors.paimon.rewrite import copy_rows
from connectors.paimon.rows import has_rows, read_rows
from connectors.paimon.rules import PaimonRules, same_layout
from connectors.paimon.tables import (
    FILL,
    SEQUENCE_BASE,
    SWAP,
    TABLE_ID,
    LakeTable,
    find_table,
    get_table,
    greatest_sequence,
)
from connectors.paimon.types import arrow_type
from connectors.shared.lake.rules import PartitionedTable, literal
from connectors.shared.lake.session import LakeSession


class PaimonSession(LakeSession):
    """An open session for schema changes."""

    def __init__(self, catalog: Catalog, options: PaimonSinkOptions, pipeline: str, user: str) -> None:
        """`user` is the commit user of the pipeline's batches."""
        skips = options.keyless == "skip"
        self._catalog = catalog
        self._rules = PaimonRules(options.table_properties(), options.partitions(), skips_keyless=skips)
        self._pipeline, self._user = pipeline, f"{user}-rewrite"

    @property
    def rules(self) -> PaimonRules:
        """The sink's rules."""
        return self._rules

    def _databases(self) -> list[str]:
        with self._catalog.guard(self._catalog.place):
            return list(self._catalog.open().list_databases())

    def _planned(self, table: TableId) -> PartitionedTable | None:
        found = find_table(self._catalog, table)
        return None if found is None else _planned(found)

    def _guard_change(self, table: TableId) -> AbstractContextManager[None]:
        return self._catalog.guard_change(str(table))

    def has_rows(self, check: Check | KeyCheck) -> bool:
        """Whether the table has rows that match the check."""
        return has_rows(self._catalog, get_table(self._catalog, check.table), check)

    def holds_rows(self, table: TableId) -> bool:
        """Whether the table has rows; reads the first column until it finds one."""
        found = get_table(self._catalog, table)
        return any(rows.num_rows for rows in read_rows(self._catalog, found, [found.columns[0].name]))

    def identity(self, table: TableId) -> str | None:
        """The table's identity, which is in its options."""
        found = find_table(self._catalog, table)
        return None if found is None else found.identity

    def wait_for_earlier(self, tables: Sequence[TableId]) -> None:
        """Complete the changes of these tables that a crash has interrupted."""
        for name in dict.fromkeys(tables):
            stored = self._catalog.stored(name)
            if stored is None:
                continue
            if is_dropped(stored):
                self._drop(name)
                continue
            table = LakeTable(name, stored)
            self._fill_columns(table)
            if SWAP in table.options:
                self._end_swap(name, TableId(name.database, table.options[SWAP].removeprefix(f"{name.database}.")))

    def create_database(self, operation: op.CreateDatabaseOp) -> None:
        """Create the database unless it exists."""
        self._catalog.open().create_database(operation.database, True)

    def create_table(self, operation: op.CreateTableOp) -> None:
        """Create the table with its options."""
        self._create(operation.new)

    def create_shadow(self, operation: op.CreateShadowOp) -> None:
        """Create a copy of the table without rows, or a table with a new schema."""
        like = operation.like
        self._create(operation.new if like is None else replace(like, id=operation.new.id))

    def drop_table(self, operation: op.DropTableOp) -> None:
        """Drop the table if it exists."""
        self._drop(operation.table)

    def drop_shadow(self, operation: op.DropShadowOp) -> None:
        """Drop the shadow table if it exists."""
        self._drop(operation.shadow)

    def drop_copy(self, operation: op.DropCopyOp) -> None:
        """Drop the copy if it exists."""
        self._drop(operation.copy)

    def truncate_table(self, operation: op.TruncateTableOp) -> None:
        """Commit a snapshot without rows."""
        _truncate(self._catalog, get_table(self._catalog, operation.table), self._user)

    def rename_table(self, operation: op.RenameTableOp) -> None:
        """Rename the table within its database."""
        self._rename(operation.table, operation.new)

    def move_table(self, operation: op.MoveTableOp) -> None:
        """Move the table to another database by copying its rows."""
        self._create(operation.new)
        self._copy_rows(operation.actual.id, operation.new.id)
        self._drop(operation.actual.id)

    def comment_table(self, operation: op.CommentTableOp) -> None:
        """Set or remove the table's comment."""
        self._alter(operation.table, [_kinds().update_comment(operation.comment or None)])

    def add_column(self, operation: op.AddColumnOp) -> None:
        """Add the column; existing rows get its default in a further snapshot."""
        table, column, after = operation.table, operation.column, operation.after
        existing = get_table(self._catalog, table)
        move = None if after is None else _move_class().after(column.name, after)
        kind = _library_type(column.type, key=False)
        changes = [_kinds().add_column(column.name, kind, column.comment or None, move)]
        fills = column.default is not None and _value(existing, column.name, column.type, column.default) is not None
        if fills and existing.library.snapshot_manager().get_latest_snapshot() is not None:
            changes.append(_kinds().set_option(FILL + column.name, str(column.default)))
        self._alter(table, changes)
        self._fill_columns(get_table(self._catalog, table))

    def alter_column(self, operation: op.AlterColumnOp) -> None:
        """Change the column to a wider type."""
        column = operation.column
        kind = _library_type(column.type, key=False)
        self._alter(operation.table, [_kinds().update_column_type(column.name, kind, True)])

    def comment_column(self, operation: op.CommentColumnOp) -> None:
        """Set the column's comment, which may be empty."""
        column = operation.column
        self._alter(operation.table, [_kinds().update_column_comment(column.name, column.comment)])

    def rename_column(self, operation: op.RenameColumnOp) -> None:
        """Rename the column; files are not affected, because they identify it by its number."""
        self._alter(operation.table, [_kinds().rename_column(operation.old_name, operation.new_name)])

    def drop_column(self, operation: op.DropColumnOp) -> None:
        """Drop the column, which is not in the key."""
        self._alter(operation.table, [_kinds().drop_column(operation.name)])

    def rebuild_table(self, operation: op.RebuildTableOp) -> None:
        """Write the rows into a copy that replaces the table; the copy is dropped when it is refused."""
        copy = operation.copy
        self._drop(copy)
        try:
            with self._guard_change(operation.table):
                self._create(replace(operation.new, id=copy))
                loose = [name for name, conversion in operation.values.items() if conversion.loose]
                self._copy_rows(operation.actual.id, copy, empty=loose)
                self._swap(copy, operation.new.id)
        except ChangeRefused:
            with suppress(ChangeRefused), self._guard_change(operation.table):
                self._drop(copy)
            raise

    def swap_shadow(self, operation: op.SwapShadowOp) -> None:
        """Replace the table by its shadow: in one snapshot if their layouts are the same, else by renaming."""
        self._swap(operation.shadow, operation.new.id)

    def _create(self, table: op.ActualTable) -> None:
        assert isinstance(table, PartitionedTable)  # the rules make no other kind
        if find_table(self._catalog, table.id) is not None:
            return
        from pypaimon.schema.data_types import DataField
        from pypaimon.schema.schema import Schema

        fields = [
            DataField(number, column.name, _field_type(table, column), column.comment or None)
            for number, column in enumerate(table.columns)
        ]
        options = {**table.properties, TABLE_ID: uuid4().hex, SEQUENCE_BASE + self._pipeline: "0"}
        options.setdefault("bucket", "1" if table.key else "-1")
        if not table.key:
            options["bucket"] = "-1"
        schema = Schema(fields, list(table.partition), list(table.key), options, table.comment or None)
        self._catalog.make_room(table.id)
        self._catalog.open().create_table(identifier(table.id), schema, False)

    def _drop(self, table: TableId) -> None:
        self._catalog.drop(table)

    def _rename(self, table: TableId, new: TableId) -> None:
        self._catalog.make_room(new)
        self._catalog.open().rename_table(identifier(table), identifier(new))
        if find_table(self._catalog, new) is None:
            reason = "the catalog has not renamed it: renaming a folder of an object store is none of its operations"
            raise ChangeRefused(reason, where=str(table), hint="`cdc resync` the table under its new name")

    def _copy_rows(self, source: TableId, target: TableId, empty: Sequence[str] = ()) -> None:
        to = get_table(self._catalog, target)
        base = to.sequence_base(self._pipeline)
        messages = copy_rows(self._catalog, get_table(self._catalog, source), to, base + 1, self._prefix, empty=empty)
        _overwrite(self._catalog, to, self._user, messages)

    def _swap(self, copy: TableId, table: TableId) -> None:
        source, to = get_table(self._catalog, copy), find_table(self._catalog, table)
        if to is not None and same_layout(_planned(source), _planned(to)):
            sequence = to.sequence_base(self._pipeline) + greatest_sequence(self._catalog, source)
            messages = copy_rows(self._catalog, source, to, sequence, self._prefix)
            _overwrite(self._catalog, to, self._user, messages)
            self._drop(copy)
            return
        self._alter(copy, [_kinds().set_option(SWAP, str(table))])
        self._drop(table)
        self._end_swap(copy, table)

    def _end_swap(self, marked: TableId, table: TableId) -> None:
        """Rename a copy to its dropped table's name, and remove its mark.

        A marked table that does not have a copy's name was swapped already, and renamed since then.
        """
        if marked in (self._rules.copy_of(table), shadow_of(table)):
            if find_table(self._catalog, table) is not None:
                return
            self._rename(marked, table)
            marked = table
        self._alter(marked, [_kinds().remove_option(SWAP)])

    @property
    def _prefix(self) -> str:
        return f"cdc-{self._pipeline}-rewrite-"

    def _alter(self, table: TableId, changes: list[Any]) -> None:
        self._catalog.open().alter_table(identifier(table), changes, False)

    def _fill_columns(self, table: LakeTable) -> None:
        """Give the rows that lack a column's default that value, in one snapshot."""
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


def _planned(table: LakeTable) -> PartitionedTable:
    comments = {field.name: field.description or "" for field in table.library.fields}
    columns = tuple(
        ActualColumn(column.name, column.type, column.nullable, None, comments[column.name]) for column in table.columns
    )
    options = {name: value for name, value in table.options.items() if not name.startswith("cdc.")}
    comment = table.library.table_schema.comment or ""
    return PartitionedTable(table.id, columns, table.key, comment, table.partition_keys, options)


def _field_type(table: PartitionedTable, column: ActualColumn[str]) -> Any:
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
    """Commit a snapshot that replaces all rows by those of these messages; may be repeated. Raises SinkError."""
    from pypaimon.write.native_commit import to_native_commit_messages

    with catalog.guard(str(table.id)):
        library = table.library.copy({"dynamic-partition-overwrite": "false"})
        builder = native(library).new_batch_write_builder()._with_commit_user(user)
        builder.with_overwrite({}).new_commit().commit(to_native_commit_messages(library, list(messages)))


def _truncate(catalog: Catalog, table: LakeTable, user: str) -> None:
    """Commit a snapshot without rows; may be repeated. Raises SinkError."""
    with catalog.guard(str(table.id)):
        native(table.library).new_batch_write_builder()._with_commit_user(user).new_commit().truncate_table()
