"""The rules of Iceberg tables for the planner: types, partitions, and the changes made in place. Pure.

Columns are added, dropped, renamed, and promoted as the format allows, in place. Any other change, such as that of the
key, takes a re-snapshot into a shadow table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from cdc.errors import ChangeRefused
from cdc.evolution.rules import NewColumn
from cdc.evolution.table import ActualColumn, ActualTable, same
from cdc.schema import DataType, TableId, TableSchema
from connectors.iceberg.options import property_problems
from connectors.iceberg.partitions import parse_partition
from connectors.iceberg.types import data_type, holds, iceberg_type, widens
from connectors.shared.lake.rules import LakeRules, PartitionedTable, partition_columns


@dataclass(frozen=True)
class IcebergRules(LakeRules):
    """The rules of one catalog. A table's partition is given as its partition fields."""

    name: ClassVar[str] = "Iceberg"
    unusable_name: ClassVar[re.Pattern[str]] = re.compile(r"^\.\.?$|[/?#\x00-\x1f\x7f-\x9f]")
    key_word: ClassVar[str] = "identifier fields"
    key_hint: ClassVar[str] = "set them there (in Spark ALTER TABLE ... SET IDENTIFIER FIELDS), "
    moves_tables: ClassVar[bool] = False
    rebuilds: ClassVar[bool] = False
    checks_rows: ClassVar[bool] = False
    new_column_default: ClassVar[NewColumn] = NewColumn.BACK_FILL

    def check_table(self, table: TableId) -> None:
        """Refuse names that Iceberg cannot store, and properties with which rows would not stay equal."""
        if not table.database:
            hint = "give it one with a route: `sink-table: lake.<>`"
            raise ChangeRefused("an Iceberg table is in a namespace", where=str(table), hint=hint)
        self.check_names(table)
        for remark in property_problems(self.new_properties()):
            reason = f"table property {remark.key}: {remark.message}"
            raise ChangeRefused(reason, where=str(table), hint=remark.hint)

    def check_existing(self, actual: ActualTable[str]) -> None:
        """Refuse an existing table that this sink cannot write correctly."""
        assert isinstance(actual, PartitionedTable)
        for remark in property_problems(actual.properties):
            raise ChangeRefused(f"its property {remark.key}: {remark.message}", where=str(actual.id), hint=remark.hint)
        _check_partition(actual)

    def column_type(self, data_type: DataType, *, key: bool) -> str:
        """The Iceberg type that keeps every value, in the format's spelling."""
        return iceberg_type(data_type)

    def holds(self, actual: str, data_type: DataType, *, key: bool) -> bool:
        """Whether the column takes every value unchanged."""
        return holds(actual, iceberg_type(data_type))

    def data_type(self, actual: str) -> DataType:
        """The nearest type of this tool."""
        return data_type(actual)

    def modifies_in_place(self, table: ActualTable[str], column: ActualColumn[str], new: str) -> bool:
        """Whether the format promotes the type; the source column of a partition field keeps its type."""
        assert isinstance(table, PartitionedTable)
        return widens(column.type, new) and not any(same(part.column, column.name) for part in table.partition)

    def is_fixed(self, table: ActualTable[str], name: str) -> bool:
        """Whether the column is part of the key or of the partition."""
        assert isinstance(table, PartitionedTable)
        return table.in_key(name) or any(same(part.column, name) for part in table.partition)

    def new_table(self, table: TableId, schema: TableSchema) -> PartitionedTable:
        """The table to create. Raises ChangeRefused for columns that it cannot be partitioned by."""
        fields = parse_partition(self.new_partition(table))
        names = partition_columns(table, schema, [part.column for part in fields])
        partition = tuple(replace(part, column=name) for part, name in zip(fields, names, strict=True))
        columns = tuple(self.new_column(column, key=False) for column in schema.columns)
        new = PartitionedTable(table, columns, (), schema.comment, partition, self.new_properties())
        _check_partition(new)
        return self.with_key(new, schema.primary_key)

    def with_key(self, table: ActualTable[str], key: tuple[str, ...]) -> PartitionedTable:
        """The table with that key: as identifier fields, or in a property for floating point numbers."""
        assert isinstance(table, PartitionedTable)
        return replace(table, key=key)

    def renamed_column(self, table: ActualTable[str], old_name: str, new_name: str) -> PartitionedTable:
        """The table with the column renamed, also in its partition fields."""
        assert isinstance(table, PartitionedTable)
        fields = (replace(part, column=new_name) if same(part.column, old_name) else part for part in table.partition)
        return replace(table, partition=tuple(fields))


def _check_partition(table: PartitionedTable) -> None:
    """Raise ChangeRefused for a transform that a column's type does not allow."""
    types = {column.name.casefold(): column.type for column in table.columns}
    for part in table.partition:
        kind = types.get(part.column.casefold())
        if kind is not None and not part.accepts(kind):
            hint = "partition otherwise, see partition.key and partition-keys of the rules"
            raise ChangeRefused(f"a table is not partitioned by {part} of type {kind}", where=str(table.id), hint=hint)
