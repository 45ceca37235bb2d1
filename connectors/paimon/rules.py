"""The rules of Paimon's tables for the planner: types, keys, partitions, and the changes made in place. Pure.

Columns are added, dropped, renamed, and widened to a type that holds every old value, in place. The key and the types
of its columns determine the bucket of a row, so a change of those rebuilds the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from cdc.errors import ChangeRefused
from cdc.evolution.table import ActualColumn, ActualTable, same, same_names
from cdc.schema import DataType, TableId, TableSchema
from connectors.paimon.options import existing_problems, property_problems
from connectors.paimon.types import (
    BYTES,
    TEXT,
    can_be_key,
    can_be_partition,
    data_type,
    holds,
    is_text,
    paimon_type,
)
from connectors.shared.lake.rules import LakeRules, PartitionedTable, partition_columns

RESERVED = ("_KEY_", "_SEQUENCE_NUMBER", "_VALUE_KIND", "_ROW_ID", "rowkind", "_LEVEL")
"""How the names begin that Paimon reserves for itself."""


@dataclass(frozen=True)
class PaimonRules(LakeRules):
    """The rules of one catalog. Partition columns are part of the key."""

    name: ClassVar[str] = "Paimon"
    unusable_name: ClassVar[re.Pattern[str]] = re.compile(r"^\s*$|^[._]|[/\\$\x00-\x1f\x7f-\x9f]")
    moves_tables: ClassVar[bool] = True

    def check_table(self, table: TableId) -> None:
        """Refuse names that cannot be folders, and properties with which rows would not stay equal."""
        self.check_names(table)
        for remark in property_problems(self.new_properties()):
            raise ChangeRefused(f"table option {remark.key}: {remark.message}", where=str(table), hint=remark.hint)

    def check_existing(self, actual: ActualTable[str]) -> None:
        """Refuse an existing table that this sink cannot write correctly."""
        assert isinstance(actual, PartitionedTable)
        for remark in existing_problems(actual.properties, keyed=bool(actual.key)):
            raise ChangeRefused(f"its option {remark.key}: {remark.message}", where=str(actual.id), hint=remark.hint)
        _check_partition(actual)

    def check_column(self, table: TableId, name: str) -> None:
        """Refuse the names of system columns."""
        if name.upper().startswith(RESERVED) or name == "rowkind" or not name.strip():
            reason = f"column {name!r}: Paimon keeps such names for itself"
            raise ChangeRefused(reason, where=str(table), hint="rename the column with a projection")

    # types

    def column_type(self, data_type: DataType, *, key: bool) -> str:
        """The Paimon type that keeps every value, in the spelling of Paimon's schemas."""
        return paimon_type(data_type)

    def holds(self, actual: str, data_type: DataType, *, key: bool) -> bool:
        """Whether the column takes every value unchanged; in a key, the bucket must be the same too."""
        return actual == paimon_type(data_type) if key else holds(actual, paimon_type(data_type))

    def data_type(self, actual: str) -> DataType:
        """The nearest type of this tool."""
        return data_type(actual)

    def is_text(self, actual: str) -> bool:
        """Whether the type is a text of any length."""
        return is_text(actual)

    def modifies_in_place(self, table: ActualTable[str], column: ActualColumn[str], new: str) -> bool:
        """Whether the new type holds all values and readers need not convert text; never for a key column."""
        return not table.in_key(column.name) and holds(new, column.type)

    def casts_exactly(self, old: str, new: str) -> bool:
        """Whether Arrow converts every value exactly."""
        return new not in (BYTES,) and (new == TEXT or not old.startswith("ARRAY"))

    # tables

    def new_table(self, table: TableId, schema: TableSchema) -> PartitionedTable:
        """The table to create, with the partition columns in its key. Raises ChangeRefused for unfit columns."""
        partition = tuple(partition_columns(table, schema, self.new_partition(table)))
        key = schema.primary_key
        if key:
            key = (*key, *(name for name in partition if not any(same(name, part) for part in key)))
        columns = tuple(self.new_column(column, key=False) for column in schema.columns)
        new = PartitionedTable(table, columns, (), schema.comment, partition, self.new_properties())
        _check_partition(new)
        return self.with_key(new, key)

    def with_key(self, table: ActualTable[str], key: tuple[str, ...]) -> PartitionedTable:
        """The table with that key and the partition columns in it; without a key if a column cannot be in one."""
        assert isinstance(table, PartitionedTable)
        types = {column.name.casefold(): column.type for column in table.columns}
        if not all(can_be_key(types[part.casefold()]) for part in key):
            key = ()
        partition_keys = tuple(name for name in table.partition if name.casefold() in types)
        if key:
            key = (*key, *(name for name in partition_keys if not any(same(name, part) for part in key)))
        properties = dict(table.properties)
        if bool(key) != bool(table.key):  # only a table with a key has numbered buckets
            properties.pop("bucket", None)
            properties |= {name: value for name, value in self.new_properties().items() if name == "bucket"}
        return replace(table, key=key, partition=partition_keys, properties=properties)

    def renamed_column(self, table: ActualTable[str], old_name: str, new_name: str) -> PartitionedTable:
        """The table with the column renamed, also among the partition columns."""
        assert isinstance(table, PartitionedTable)
        names = tuple(new_name if same(name, old_name) else name for name in table.partition)
        return replace(table, partition=names)


def same_layout(one: PartitionedTable, other: PartitionedTable) -> bool:
    """Whether rows rewritten for one table would be in the same partitions and buckets of the other."""
    columns = [(column.name, column.type) for column in one.columns]
    same_columns = columns == [(column.name, column.type) for column in other.columns]
    same_keys = same_names(one.key, other.key) and one.partition == other.partition
    return same_columns and same_keys and one.properties.get("bucket") == other.properties.get("bucket")


def _check_partition(table: PartitionedTable) -> None:
    """Raise ChangeRefused for a partition column of a type by which rows could not be read back."""
    types = {column.name.casefold(): column.type for column in table.columns}
    for name in table.partition:
        if not can_be_partition(types[name.casefold()]):
            reason = f"partition column {name}: a table partitioned by {types[name.casefold()]} is not read back"
            hint = "partition by another column, see partition.key and partition-keys of the rules"
            raise ChangeRefused(reason, where=str(table.id), hint=hint)
