"""The possible forms of Iceberg tables, for the planner. Pure.

In place: columns added, dropped, renamed, promoted as the format allows. Anything else, a change of the key among it,
is a re-snapshot into a shadow table. Columns but those of the key take NULL: rows come whole from the source, where a
zero date of a NOT NULL column arrives as NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from cdc.errors import ChangeRefused
from cdc.evolution.rules import NewColumn, TableRules
from cdc.evolution.table import ActualColumn, ActualTable, same
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from connectors.iceberg.options import property_problems
from connectors.iceberg.partitions import PartitionField, parsed
from connectors.iceberg.types import data_type, holds, iceberg_type, widens
from connectors.shared.lake.defaults import stored_default


@dataclass(frozen=True)
class IcebergTable(ActualTable[str]):
    """A table of the lake with its partition fields and the properties that were chosen for it."""

    partition: tuple[PartitionField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class IcebergRules(TableRules[str]):
    """The rules for one catalog.

    Args:
        properties: of new tables.
        partitions: partition fields by table, as the option has them.
        change_properties, change_partitions: those of the table that is created now.
    """

    properties: Mapping[str, str]
    partitions: Mapping[TableId, tuple[str, ...]]
    change_properties: tuple[tuple[str, str], ...] = ()
    change_partitions: tuple[str, ...] = ()

    name: ClassVar[str] = "Iceberg"
    key_word: ClassVar[str] = "identifier fields"
    moves_tables: ClassVar[bool] = False
    rebuilds: ClassVar[bool] = False
    checks_rows: ClassVar[bool] = False
    new_column_default: ClassVar[NewColumn] = NewColumn.BACK_FILL

    def with_options(self, change: CreateTable) -> Self:
        """A rule's `table-options` and `partition-keys` go before those of the sink."""
        return replace(self, change_properties=change.options, change_partitions=change.partition_keys)

    def check_table(self, table: TableId, schema: TableSchema) -> None:
        """Properties under which rows would not stay equal."""
        if not table.database:
            hint = "give it one with a route: `sink-table: lake.<>`"
            raise ChangeRefused("an Iceberg table is in a namespace", where=str(table), hint=hint)
        for remark in property_problems(self._properties()):
            reason = f"table property {remark.key}: {remark.message}"
            raise ChangeRefused(reason, where=str(table), hint=remark.hint)

    def check_existing(self, actual: ActualTable[str]) -> None:
        """A table of somebody else has to be one that is written right."""
        assert isinstance(actual, IcebergTable)
        for remark in property_problems(actual.properties):
            raise ChangeRefused(f"its property {remark.key}: {remark.message}", where=str(actual.id), hint=remark.hint)
        _check_partition(actual)

    def column_type(self, data_type: DataType, *, key: bool) -> str:
        """The type in the format's spelling."""
        return iceberg_type(data_type)

    def holds(self, actual: str, data_type: DataType, *, key: bool) -> bool:
        """Every value unchanged."""
        return holds(actual, iceberg_type(data_type))

    def data_type(self, actual: str) -> DataType:
        """The nearest type of the engine."""
        return data_type(actual)

    def in_place(self, table: ActualTable[str], column: ActualColumn[str], new: str) -> bool:
        """True where the format promotes the type; a partition's source column keeps its type."""
        assert isinstance(table, IcebergTable)
        return widens(column.type, new) and not any(same(part.column, column.name) for part in table.partition)

    def is_fixed(self, table: ActualTable[str], name: str) -> bool:
        """Columns of the key and of partitions."""
        assert isinstance(table, IcebergTable)
        return table.in_key(name) or any(same(part.column, name) for part in table.partition)

    def new_table(self, table: TableId, schema: TableSchema) -> IcebergTable:
        """Raises ChangeRefused for columns that it cannot be partitioned by."""
        partition = self._partition(table, schema)
        columns = tuple(self.new_column(column, key=False) for column in schema.columns)
        made = IcebergTable(table, columns, (), schema.comment, partition, self._properties())
        _check_partition(made)
        return self.with_key(made, schema.primary_key)

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[str]:
        """Without NOT NULL and default."""
        return ActualColumn(column.name, iceberg_type(column.type), comment=column.comment)

    def added_column(self, column: Column) -> ActualColumn[str]:
        """With the default that rows of before get."""
        return replace(self.new_column(column, key=False), default=stored_default(column))

    def with_key(self, table: ActualTable[str], key: tuple[str, ...]) -> IcebergTable:
        """The key, as identifier fields or, of floating point numbers, in a property."""
        assert isinstance(table, IcebergTable)
        return replace(table, key=key)

    def renamed_column(self, table: ActualTable[str], old_name: str, new_name: str) -> IcebergTable:
        """Partition fields name their columns, too."""
        assert isinstance(table, IcebergTable)
        fields = (replace(part, column=new_name) if same(part.column, old_name) else part for part in table.partition)
        return replace(table, partition=tuple(fields))

    def schema(self, table: ActualTable[str]) -> TableSchema:
        """Key columns take no NULL."""
        found = super().schema(table)
        columns = (replace(column, nullable=not table.in_key(column.name)) for column in found.columns)
        return replace(found, columns=tuple(columns))

    def _properties(self) -> dict[str, str]:
        return {**self.properties, **dict(self.change_properties)}

    def _partition(self, table: TableId, schema: TableSchema) -> tuple[PartitionField, ...]:
        fields = parsed(self.change_partitions or self.partitions.get(table, ()))
        names = {column.name.casefold(): column.name for column in schema.columns}
        missing = [part.column for part in fields if part.column.casefold() not in names]
        if missing:
            reason = f"there is no column {', '.join(missing)} to partition by"
            raise ChangeRefused(reason, where=str(table), hint="see partition.key, and partition-keys of the rules")
        return tuple(replace(part, column=names[part.column.casefold()]) for part in fields)


def _check_partition(table: IcebergTable) -> None:
    """Raise ChangeRefused for a transform that a column's type does not have."""
    types = {column.name.casefold(): column.type for column in table.columns}
    for part in table.partition:
        kind = types.get(part.column.casefold())
        if kind is not None and not part.takes(kind):
            hint = "partition otherwise, see partition.key and partition-keys of the rules"
            raise ChangeRefused(f"a table is not partitioned by {part} of type {kind}", where=str(table.id), hint=hint)
