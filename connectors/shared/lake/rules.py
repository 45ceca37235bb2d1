"""Planned tables of a lake: options and partitions of new ones, columns, defaults. Pure.

All columns except those of the key are nullable: rows come whole from the source, where a zero date of a NOT NULL
column arrives as NULL.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import ChangeRefused
from cdc.evolution.rules import TableRules
from cdc.evolution.table import ActualColumn, ActualTable
from cdc.schema import Column, CreateTable, Kind, TableId, TableSchema

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartitionedTable(ActualTable[str]):
    """A table of the lake with its partition columns, or fields, and its properties."""

    partition: tuple[Any, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LakeRules(TableRules[str]):
    """The rules for one catalog.

    Class attributes:
        unusable_name: matches names of databases and tables whose files would be written or looked for elsewhere.

    Args:
        properties: of new tables.
        partitions: partition keys of new tables, as in the option.
        change_properties, change_partitions: those of the table being created.
        skips_keyless: see `TableRules`.
    """

    unusable_name: ClassVar[re.Pattern[str]]

    properties: Mapping[str, str]
    partitions: Mapping[TableId, tuple[str, ...]]
    change_properties: tuple[tuple[str, str], ...] = ()
    change_partitions: tuple[str, ...] = ()
    skips_keyless: bool = False

    def check_names(self, table: TableId) -> None:
        """Raise ChangeRefused for names of tables that the catalog or its files cannot have."""
        for part in (table.database, table.table):
            if self.unusable_name.search(part):
                reason = f"{part!r} cannot be a name in {self.name}, which finds a table's files by it"
                raise ChangeRefused(reason, where=str(table), hint="give the table another name with a route")

    def with_options(self, change: CreateTable) -> Self:
        """Return rules in which a rule's `table-options` and `partition-keys` override those of the sink."""
        return replace(self, change_properties=change.options, change_partitions=change.partition_keys)

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[str]:
        """Return a column without NOT NULL and default."""
        return ActualColumn(column.name, self.column_type(column.type, key=key), comment=column.comment)

    def added_column(self, column: Column) -> ActualColumn[str]:
        """Return a column with the default of existing rows."""
        return replace(self.new_column(column, key=False), default=stored_default(column))

    def schema(self, table: ActualTable[str]) -> TableSchema:
        """Return the table's schema; key columns are not nullable."""
        found = super().schema(table)
        columns = (replace(column, nullable=not table.in_key(column.name)) for column in found.columns)
        return replace(found, columns=tuple(columns))

    def new_properties(self) -> dict[str, str]:
        """Return the properties of the table being created."""
        return {**self.properties, **dict(self.change_properties)}

    def new_partition(self, table: TableId) -> tuple[str, ...]:
        """Return the partition columns, or fields, of the table being created."""
        return self.change_partitions or self.partitions.get(TableId.parse(str(table)), ())  # parsed like the option


def partition_columns(table: TableId, schema: TableSchema, wanted: Sequence[str]) -> list[str]:
    """Return the columns of these names, as spelled in the schema. Raises ChangeRefused for a missing one."""
    names = {column.name.casefold(): column.name for column in schema.columns}
    missing = [name for name in wanted if name.casefold() not in names]
    if missing:
        reason = f"there is no column {', '.join(missing)} to partition by"
        raise ChangeRefused(reason, where=str(table), hint="see partition.key, and partition-keys of the rules")
    return [names[name.casefold()] for name in wanted]


def stored_default(column: Column) -> str | None:
    """Return the default of a column in the spelling of its rows: a TIME has six fractional digits, or none."""
    text = column.default
    if text is None or column.type.kind is not Kind.TIME:
        return text
    return re.sub(r"\.(\d+)$", lambda found: f".{found[1]:0<6}" if found[1].strip("0") else "", text)


def literal(default: str, kind: pa.DataType, column: str, table: TableId) -> pa.Scalar | None:
    """Return a default as a value of the column's type; None for one that is not a constant, such as CURRENT_TIMESTAMP.

    A moment is in UTC. None, with a warning, for a constant that the type cannot hold.
    """
    text: Any = default
    if default[:2].lower() == "b'" and default.endswith("'"):
        text = str(int(default[2:-1] or "0", 2))
    if default.upper().startswith(("CURRENT_", "NOW(", "LOCALTIME", "(", "UUID(")):
        return None
    if pa.types.is_boolean(kind):
        text = {"1": "true", "0": "false"}.get(str(text), text)
    if pa.types.is_binary(kind):
        text = bytes.fromhex(default[2:]) if default[:2].lower() == "0x" else default.encode()
        return pa.scalar(text, kind)
    try:
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return pc.assume_timezone(pa.array([text]).cast(pa.timestamp(kind.unit)), kind.tz)[0]
        return pa.array([text]).cast(kind)[0]
    except pa.ArrowException as error:
        text = "%s: existing rows get NULL in %s: its default %r is not of its type: %s"
        log.warning(text, table, column, default, error)
        return None
