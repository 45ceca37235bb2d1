"""Changes of Paimon's tables in place, and the operations that carry a change out. Pure, nothing is executed here.

An operation is its own text for `cdc plan`, in the words of Spark's SQL; `connectors.paimon.schemas` carries it out.
In place: columns added, dropped, renamed, moved to a type that holds every value of the old one. Types of
key columns and the key itself decide the bucket of a row, so such a table is recreated. Columns but those of the key
take NULL: rows come whole from the source, where a zero date of a NOT NULL column arrives as NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from cdc.errors import ChangeRefused
from cdc.evolution.dialect import Dialect
from cdc.evolution.table import ActualColumn, ActualTable, same, same_names
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from connectors.paimon.options import property_problems
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
from connectors.shared.lake.defaults import stored_default
from connectors.shared.lake.keys import quoted

RESERVED = ("_KEY_", "_SEQUENCE_NUMBER", "_VALUE_KIND", "_ROW_ID", "rowkind", "_LEVEL")
"""Beginnings of names that Paimon keeps for itself."""


class PaimonStep(str):
    """A step of a change: its text, and what is done with which values."""

    __slots__ = ("kind", "values")
    kind: str
    values: dict[str, Any]

    def __new__(cls, text: str, kind: str, **values: Any) -> Self:
        """`kind` is a method of `connectors.paimon.schemas.PaimonSchemas`, `values` are its arguments."""
        made = super().__new__(cls, text)
        made.kind, made.values = kind, values
        return made


@dataclass(frozen=True)
class PaimonTable(ActualTable[str]):
    """A table of the lake. `options` are those that were chosen for it, `partition_keys` are part of the key."""

    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PaimonDialect(Dialect[str]):
    """The dialect for one catalog.

    Args:
        properties: of new tables.
        partitions: partition columns by table.
        change_options, change_partitions: those of the table that is created now.
    """

    properties: Mapping[str, str]
    partitions: Mapping[TableId, tuple[str, ...]]
    change_options: tuple[tuple[str, str], ...] = ()
    change_partitions: tuple[str, ...] = ()

    name = "Paimon"
    moves_tables = True

    def with_options(self, change: CreateTable) -> Self:
        """A rule's `table-options` and `partition-keys` go before those of the sink."""
        return replace(self, change_options=change.options, change_partitions=change.partition_keys)

    def quoted(self, name: str) -> str:
        """In double quotes: conditions are looked at with DuckDB."""
        return quoted(name)

    def literal(self, text: str) -> str:
        """In single quotes."""
        return "'" + text.replace("'", "''") + "'"

    def check_table(self, table: TableId, schema: TableSchema) -> None:
        """Names are folders."""
        for part in (table.database, table.table):
            if not part or "/" in part or part.startswith((".", "_")) or "$" in part:
                reason = f"{part!r} cannot be a name in Paimon"
                raise ChangeRefused(reason, where=str(table), hint="give the table another name with a route")
        for remark in property_problems(dict(self._options())):
            raise ChangeRefused(f"table option {remark.key}: {remark.message}", where=str(table), hint=remark.hint)

    def check_existing(self, actual: ActualTable[str]) -> None:
        """A table of somebody else has to be one that is written right."""
        assert isinstance(actual, PaimonTable)
        for remark in property_problems(actual.options, keyed=bool(actual.key)):
            raise ChangeRefused(f"its option {remark.key}: {remark.message}", where=str(actual.id), hint=remark.hint)
        _check_partition(actual)

    def check_column(self, table: TableId, name: str) -> None:
        """Names of system columns."""
        if name.upper().startswith(RESERVED) or name == "rowkind" or not name.strip():
            reason = f"column {name!r}: Paimon keeps such names for itself"
            raise ChangeRefused(reason, where=str(table), hint="rename the column with a projection")

    # types

    def column_type(self, data_type: DataType, *, key: bool) -> str:
        """The type in the spelling of Paimon's schemas."""
        return paimon_type(data_type)

    def holds(self, actual: str, data_type: DataType, *, key: bool) -> bool:
        """Every value unchanged; in a key, the bucket too."""
        return actual == paimon_type(data_type) if key else holds(actual, paimon_type(data_type))

    def data_type(self, actual: str) -> DataType:
        """The nearest type of the engine."""
        return data_type(actual)

    def is_text(self, actual: str) -> bool:
        """STRING has any length."""
        return is_text(actual)

    def in_place(self, table: ActualTable[str], column: ActualColumn[str], new: str) -> bool:
        """To a type that holds all values, where readers convert no text; not in a key."""
        return not table.in_key(column.name) and holds(new, column.type)

    def by_copy(self, old: str, new: str) -> bool:
        """Arrow converts what is certain."""
        return new not in (BYTES,) and (new == TEXT or not old.startswith("ARRAY"))

    # tables

    def new_table(self, table: TableId, schema: TableSchema) -> PaimonTable:
        """With the partition columns in its key. Raises ChangeRefused for columns that it cannot be partitioned by."""
        partition = self._partition(table, schema)
        key = schema.primary_key
        if key:
            key = (*key, *(name for name in partition if not any(same(name, part) for part in key)))
        columns = tuple(self.new_column(column, key=False) for column in schema.columns)
        made = PaimonTable(table, columns, (), schema.comment, partition, dict(self._options()))
        _check_partition(made)
        return self.with_key(made, key)

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[str]:
        """Without NOT NULL and default."""
        return ActualColumn(column.name, paimon_type(column.type), comment=column.comment)

    def added_column(self, column: Column) -> ActualColumn[str]:
        """With what rows that are there get."""
        return replace(self.new_column(column, key=False), default=stored_default(column))

    def with_key(self, table: ActualTable[str], key: tuple[str, ...]) -> PaimonTable:
        """The key, or none where a part of it cannot be one; partition columns stay where the key has them."""
        assert isinstance(table, PaimonTable)
        types = {column.name.casefold(): column.type for column in table.columns}
        if not all(can_be_key(types[part.casefold()]) for part in key):
            key = ()
        there = tuple(name for name in table.partition_keys if name.casefold() in types)
        if key:
            key = (*key, *(name for name in there if not any(same(name, part) for part in key)))
        return replace(table, key=key, partition_keys=there)

    def renamed_column(self, table: ActualTable[str], old_name: str, new_name: str) -> PaimonTable:
        """Partitions are named by columns too."""
        assert isinstance(table, PaimonTable)
        names = tuple(new_name if same(name, old_name) else name for name in table.partition_keys)
        return replace(table, partition_keys=names)

    def schema(self, table: ActualTable[str]) -> TableSchema:
        """Key columns take no NULL."""
        found = super().schema(table)
        columns = (replace(column, nullable=not table.in_key(column.name)) for column in found.columns)
        return replace(found, columns=tuple(columns))

    def _options(self) -> dict[str, str]:
        return {**self.properties, **dict(self.change_options)}

    def _partition(self, table: TableId, schema: TableSchema) -> tuple[str, ...]:
        wanted = self.change_partitions or self.partitions.get(table, ())
        names = {column.name.casefold(): column.name for column in schema.columns}
        missing = [name for name in wanted if name.casefold() not in names]
        if missing:
            reason = f"there is no column {', '.join(missing)} to partition by"
            raise ChangeRefused(reason, where=str(table), hint="see partition.key, and partition-keys of the rules")
        return tuple(names[name.casefold()] for name in wanted)

    # operations

    def create_database(self, database: str) -> str:
        """When there is none."""
        return PaimonStep(super().create_database(database), "create_database", name=database)

    def create_table(self, table: ActualTable[str]) -> Sequence[str]:
        """With its options."""
        assert isinstance(table, PaimonTable)
        parts = [f"{self.quoted(column.name)} {column.type}" for column in table.columns]
        parts += [f"PRIMARY KEY ({', '.join(map(self.quoted, table.key))})"] if table.key else []
        text = f"CREATE TABLE {self.table_name(table.id)} ({', '.join(parts)})"
        if table.partition_keys:
            text += f" PARTITIONED BY ({', '.join(map(self.quoted, table.partition_keys))})"
        if table.options:
            text += f" WITH ({', '.join(f'{name}={value}' for name, value in sorted(table.options.items()))})"
        return [PaimonStep(text, "create_table", table=table)]

    def drop_table(self, table: TableId) -> str:
        """When there is one."""
        return PaimonStep(super().drop_table(table), "drop_table", table=table)

    def truncate_table(self, table: TableId) -> str:
        """One snapshot without rows."""
        return PaimonStep(super().truncate_table(table), "truncate_table", table=table)

    def rename_table(self, table: TableId, new_name: str) -> str:
        """Inside of its database."""
        new = TableId(table.database, new_name)
        return PaimonStep(super().rename_table(table, new_name), "rename_table", table=table, new=new)

    def comment_table(self, table: ActualTable[str], comment: str) -> str:
        """Another comment, or none."""
        text = super().comment_table(table, comment)
        return PaimonStep(text, "comment_table", table=table.id, comment=comment)

    def add_column(self, table: ActualTable[str], column: ActualColumn[str], after: str | None) -> Sequence[str]:
        """Rows that are there get the default in a snapshot behind it."""
        text = f"ALTER TABLE {self.table_name(table.id)} ADD COLUMN {self.quoted(column.name)} {column.type}"
        text += "" if column.default is None else f" DEFAULT {self.literal(column.default)}"
        text += "" if after is None else f" AFTER {self.quoted(after)}"
        return [PaimonStep(text, "add_column", table=table.id, column=column, after=after)]

    def modify_column(self, table: ActualTable[str], column: ActualColumn[str], value: str) -> str:
        """Another type in place."""
        text = f"ALTER TABLE {self.table_name(table.id)} ALTER COLUMN {self.quoted(column.name)} TYPE {column.type}"
        return PaimonStep(text, "modify_column", table=table.id, name=column.name, new_type=column.type)

    def comment_column(self, table: ActualTable[str], column: ActualColumn[str]) -> str:
        """Another comment, or none."""
        text = super().comment_column(table, column)
        return PaimonStep(text, "comment_column", table=table.id, name=column.name, comment=column.comment)

    def rename_column(self, table: TableId, old_name: str, new_name: str) -> str:
        """Another name."""
        text = super().rename_column(table, old_name, new_name)
        return PaimonStep(text, "rename_column", table=table, old_name=old_name, new_name=new_name)

    def drop_column(self, table: TableId, name: str) -> str:
        """One that is not in the key."""
        return PaimonStep(super().drop_column(table, name), "drop_column", table=table, name=name)

    def copy_rows(
        self, source: TableId, target: TableId, values: Iterable[tuple[str, str]], loose: Sequence[str] = ()
    ) -> str:
        """Columns keep their names; Arrow converts their values. Loose ones are NULL until the re-snapshot."""
        text = super().copy_rows(source, target, values)
        return PaimonStep(text, "copy_rows", source=source, target=target, empty=tuple(loose))

    def swap_shadow(self, copy: TableId, table: ActualTable[str]) -> Sequence[str]:
        """Swap the shadow table in: one snapshot of the table where both are alike, else by its name."""
        text = f"INSERT OVERWRITE {self.table_name(table.id)} FROM {self.table_name(copy)}"
        return [PaimonStep(text, "swap_shadow", copy=copy, table=table.id)]


def same_layout(one: PaimonTable, other: PaimonTable) -> bool:
    """Whether rows of one table, rewritten, are rows of the other, in the same places."""
    columns = [(column.name, column.type) for column in one.columns]
    same_columns = columns == [(column.name, column.type) for column in other.columns]
    same_keys = same_names(one.key, other.key) and one.partition_keys == other.partition_keys
    return same_columns and same_keys and one.options.get("bucket") == other.options.get("bucket")


def _check_partition(table: PaimonTable) -> None:
    """Raise ChangeRefused for a partition column of a type that rows would not be read back by."""
    types = {column.name.casefold(): column.type for column in table.columns}
    for name in table.partition_keys:
        if not can_be_partition(types[name.casefold()]):
            reason = f"partition column {name}: a table partitioned by {types[name.casefold()]} is not read back"
            hint = "partition by another column, see partition.key and partition-keys of the rules"
            raise ChangeRefused(reason, where=str(table.id), hint=hint)
