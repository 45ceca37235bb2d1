"""Carry out schema changes with Iceberg's catalog. Runs in the driver.

A shadow table is in the folder of its table, and replaces it in one commit of the table: the shadow table's schema and
partition spec become current, and its files replace all others. The table keeps its name and its UUID.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from typing import Any

from cdc.evolution import operations as op
from cdc.evolution.table import ActualColumn
from cdc.schema import TableId
from connectors.iceberg.expired import ExpiredFiles
from connectors.iceberg.library import Catalog, delete_quietly, identifier
from connectors.iceberg.partitions import PartitionField
from connectors.iceberg.rewrite import live_rows, rewrite_files
from connectors.iceberg.row_positions import SnapshotFiles
from connectors.iceberg.rules import IcebergRules
from connectors.iceberg.snapshots import SnapshotChange, describing_files, live_entries, publish
from connectors.iceberg.tables import BATCH, KEY, LakeTable, batch_summary, find_table, get_table
from connectors.iceberg.types import VECTOR, arrow_type, can_identify
from connectors.shared.lake.rules import PartitionedTable, literal
from connectors.shared.lake.session import LakeSession

COMMENT = "comment"


class IcebergSession(LakeSession):
    """An open session for schema changes."""

    def __init__(self, catalog: Catalog, rules: IcebergRules, pipeline: str, expired: ExpiredFiles) -> None:
        self._catalog, self._rules, self._pipeline, self._expired = catalog, rules, pipeline, expired

    @property
    def rules(self) -> IcebergRules:
        """The sink's rules."""
        return self._rules

    def _databases(self) -> list[str]:
        if not self._catalog.exists:
            return []
        with self._catalog.guard(self._catalog.place):
            return [".".join(name) for name in self._catalog.open().list_namespaces()]

    def _planned(self, table: TableId) -> PartitionedTable | None:
        found = find_table(self._catalog, table)
        return None if found is None else _planned(found)

    def _guard_change(self, table: TableId) -> AbstractContextManager[None]:
        return self._catalog.guard_change(str(table))

    def holds_rows(self, table: TableId) -> bool:
        """Whether the table has rows; reads file by file until it finds one."""
        found = get_table(self._catalog, table)
        with self._catalog.guard(str(table)):
            files = SnapshotFiles.of(found)
            return any(rows.num_rows for file in files.data.values() for rows in live_rows(found, files, file))

    def identity(self, table: TableId) -> str | None:
        """The table's UUID."""
        found = find_table(self._catalog, table)
        return None if found is None else found.identity

    def create_database(self, operation: op.CreateDatabaseOp) -> None:
        """Create the namespace unless it exists."""
        self._catalog.open().create_namespace_if_not_exists(operation.database)

    def create_table(self, operation: op.CreateTableOp) -> None:
        """Create the table with its partition spec and properties."""
        self._create(operation.new, None)

    def create_shadow(self, operation: op.CreateShadowOp) -> None:
        """Create the shadow table in the folder of the table that it is to replace."""
        like = operation.like
        new = operation.new if like is None else replace(like, id=operation.new.id)
        table = find_table(self._catalog, operation.table)
        location = None if table is None else str(table.metadata.location)
        self._create(new, location)

    def drop_table(self, operation: op.DropTableOp) -> None:
        """Drop the table and its files."""
        self._drop(operation.table)

    def drop_shadow(self, operation: op.DropShadowOp) -> None:
        """Drop the shadow table and its files."""
        self._drop(operation.shadow)

    def truncate_table(self, operation: op.TruncateTableOp) -> None:
        """Commit a snapshot without files."""
        table = get_table(self._catalog, operation.table)
        if table.head is not None:
            publish(self._catalog, table, SnapshotChange("delete", replaces_all=True, summary=self._complete(table)))

    def _complete(self, table: LakeTable) -> dict[str, str]:
        """The summary of a snapshot that depends on no earlier rows, also where a rollback has removed some."""
        return batch_summary(self._pipeline, table.batch(self._pipeline))

    def rename_table(self, operation: op.RenameTableOp) -> None:
        """Rename the table within its namespace."""
        self._catalog.open().rename_table(identifier(operation.table), identifier(operation.new))

    def comment_table(self, operation: op.CommentTableOp) -> None:
        """Set the table property `comment`."""
        table = get_table(self._catalog, operation.table).library
        with table.transaction() as transaction:
            if operation.comment:
                transaction.set_properties({COMMENT: operation.comment})
            elif COMMENT in table.properties:
                transaction.remove_properties(COMMENT)

    def add_column(self, operation: op.AddColumnOp) -> None:
        """Add the column at its position; existing rows have NULL in it."""
        column = operation.column
        with get_table(self._catalog, operation.table).library.update_schema() as update:
            update.add_column(_path(column.name), _library_type(column.type), column.comment or None)
            if operation.after is not None:
                update.move_after(_path(column.name), _path(operation.after))

    def fill_column(self, operation: op.FillColumnOp) -> None:
        """Rewrite all rows with the default in one snapshot, because version 2 of the format has no defaults."""
        table, column = get_table(self._catalog, operation.table), operation.column
        kind = arrow_type(column.type)
        if table.head is None or column.default is None or kind is None:
            return
        value = literal(column.default, kind, column.name, table.id)
        if value is not None:
            prefix = f"{table.file_prefix(self._pipeline)}-fill-h{table.head}"
            snapshot = SnapshotFiles.of(table)
            files = rewrite_files(table, snapshot, snapshot.data.values(), prefix, {column.name: value})
            publish(self._catalog, table, SnapshotChange("overwrite", files, replaces_all=True))

    def alter_column(self, operation: op.AlterColumnOp) -> None:
        """Promote the column's type."""
        column = operation.column
        with get_table(self._catalog, operation.table).library.update_schema() as update:
            update.update_column(_path(column.name), field_type=_library_type(column.type))

    def comment_column(self, operation: op.CommentColumnOp) -> None:
        """Set the doc of the column's field."""
        column = operation.column
        with get_table(self._catalog, operation.table).library.update_schema() as update:
            update.update_column(_path(column.name), doc=column.comment)

    def rename_column(self, operation: op.RenameColumnOp) -> None:
        """Rename the column; files are not affected, because they identify it by its id."""
        with get_table(self._catalog, operation.table).library.update_schema() as update:
            update.rename_column(_path(operation.old_name), operation.new_name)

    def drop_column(self, operation: op.DropColumnOp) -> None:
        """Drop the column; its values stay in the files until those are rewritten."""
        with get_table(self._catalog, operation.table).library.update_schema() as update:
            update.delete_column(_path(operation.name))

    def swap_shadow(self, operation: op.SwapShadowOp) -> None:
        """Replace the table's content in one commit, then remove the shadow table's entry from the catalog."""
        shadow, table = get_table(self._catalog, operation.shadow), find_table(self._catalog, operation.table)
        catalog = self._catalog.open()
        if table is None:
            catalog.rename_table(identifier(operation.shadow), identifier(operation.table))
            return
        updates = _definition(shadow, table)
        files = [_with_spec(entry.data_file, _spec_id(table, updates)) for entry in live_entries(shadow)]
        properties = {name: text for name, text in shadow.metadata.properties.items() if not name.startswith(BATCH)}
        if KEY in table.metadata.properties:
            properties.setdefault(KEY, "")
        change = SnapshotChange(
            "overwrite",
            [file for file in files if int(file.content) == 0],
            [file for file in files if int(file.content) == 1],
            replaces_all=True,
            properties=properties,
            summary=self._complete(table),
            updates=updates,
        )
        publish(self._catalog, table, change)
        remaining = describing_files(shadow)
        self._expired.remove(shadow, all_at_once=True)
        catalog.drop_table(identifier(operation.shadow))
        for path in remaining:
            delete_quietly(table.library.io, path)

    def _create(self, table: op.ActualTable, location: str | None) -> None:
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

        assert isinstance(table, PartitionedTable)  # the rules make no other kind
        if find_table(self._catalog, table.id) is not None:
            return
        schema, key = _library_schema(table)
        properties = {**table.properties, **({COMMENT: table.comment} if table.comment else {}), **key}
        self._catalog.open().create_table(
            identifier(table.id),
            schema,
            location=location,
            partition_spec=_library_spec(table, schema) if table.partition else UNPARTITIONED_PARTITION_SPEC,
            properties=properties,
        )

    def _drop(self, table: TableId) -> None:
        found = find_table(self._catalog, table)
        if found is not None:
            self._expired.remove(found, all_at_once=True)
            self._catalog.open().purge_table(identifier(table))


def _path(name: str) -> tuple[str, ...]:
    """The library's path of a column; the name may contain a dot."""
    return (name,)


def _planned(table: LakeTable) -> PartitionedTable:
    docs = {field.name: field.doc or "" for field in table.library.schema().fields}
    columns = tuple(
        ActualColumn(column.name, column.type, column.nullable, None, docs[column.name]) for column in table.columns
    )
    schema = table.library.schema()
    partition = tuple(
        PartitionField(schema.find_column_name(field.source_id), str(field.transform))
        for field in table.library.spec().fields
    )
    properties = {name: text for name, text in table.metadata.properties.items() if not name.startswith("cdc.")}
    comment = properties.pop(COMMENT, "")
    return PartitionedTable(table.id, columns, table.key, comment, partition, properties)


def _library_schema(table: PartitionedTable) -> tuple[Any, dict[str, str]]:
    """The library's schema, and the property for a key whose columns cannot be identifier fields."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    fields, element = [], len(table.columns) + 1
    for number, column in enumerate(table.columns, 1):
        kind = _library_type(column.type, element)
        element += column.type == VECTOR
        required = table.in_key(column.name)
        fields.append(NestedField(number, column.name, kind, required=required, doc=column.comment or None))
    keys = [field.field_id for field in fields if table.in_key(field.name)]
    if all(can_identify(column.type) for column in table.columns if table.in_key(column.name)):
        return Schema(*fields, identifier_field_ids=keys), {}
    return Schema(*fields), {KEY: ",".join(map(str, keys))}


def _library_spec(table: PartitionedTable, schema: Any) -> Any:
    from pyiceberg.partitioning import PartitionField as LibraryField
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.transforms import parse_transform

    numbers = {field.name.casefold(): field.field_id for field in schema.fields}
    return PartitionSpec(*(
        LibraryField(numbers[part.column.casefold()], 1000 + index, parse_transform(part.transform), part.name)
        for index, part in enumerate(table.partition)
    ))  # fmt: skip


def _library_type(text: str, element_id: int = -1) -> Any:
    from pyiceberg import types

    if text == VECTOR:
        return types.ListType(element_id, types.FloatType(), element_required=False)
    if text.startswith("decimal("):
        precision, scale = text[8:-1].split(",")
        return types.DecimalType(int(precision), int(scale))
    return {
        "boolean": types.BooleanType, "int": types.IntegerType, "long": types.LongType, "float": types.FloatType,
        "double": types.DoubleType, "date": types.DateType, "timestamp": types.TimestampType,
        "timestamptz": types.TimestamptzType, "string": types.StringType, "binary": types.BinaryType,
    }[text]()  # fmt: skip


def _definition(shadow: LakeTable, table: LakeTable) -> list[Any]:
    """The updates that give a table the schema and partition spec of its shadow table, including the ids."""
    from pyiceberg.table.update import (
        AddPartitionSpecUpdate,
        AddSchemaUpdate,
        SetCurrentSchemaUpdate,
        SetDefaultSpecUpdate,
    )

    schema, spec = shadow.library.schema(), shadow.library.spec()
    updates: list[Any] = []
    if schema != table.library.schema() or _docs(shadow) != _docs(table):
        number = max(each.schema_id for each in table.metadata.schemas) + 1
        updates += [
            AddSchemaUpdate(schema=schema.model_copy(update={"schema_id": number})),
            SetCurrentSchemaUpdate(schema_id=-1),
        ]
    if spec.fields != table.library.spec().fields:
        number = max(each.spec_id for each in table.metadata.partition_specs) + 1
        updates += [
            AddPartitionSpecUpdate(spec=spec.model_copy(update={"spec_id": number})),
            SetDefaultSpecUpdate(spec_id=-1),
        ]
    return updates


def _spec_id(table: LakeTable, updates: Sequence[Any]) -> int:
    """The id of the partition spec that is current after the updates."""
    added = [update.spec.spec_id for update in updates if hasattr(update, "spec")]
    return int(added[0]) if added else int(table.metadata.default_spec_id)


def _with_spec(file: Any, spec_id: int) -> Any:
    found = copy(file)
    found.spec_id = spec_id
    return found


def _docs(table: LakeTable) -> list[str | None]:
    return [field.doc for field in table.library.schema().fields]
