"""Doris's dialect: its tables, its statements, and the changes that it makes in place. Pure: nothing is executed.

Changes that Doris cannot make in place (another key, types that MODIFY refuses) are made in a copy of the table, which
then replaces it. All columns are nullable, key columns included: a zero date of a NOT NULL column arrives as NULL.
Defaults only fill existing rows when a column is added. Rows come complete from the source, so later changes of a
default are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cdc.errors import ChangeRefused
from cdc.evolution.table import ActualColumn, ActualTable, same
from cdc.schema import Column, CreateTable, DataType, TableId
from connectors.doris.catalog import DUPLICATE, UNIQUE, DorisTable
from connectors.doris.options import KEYED_PROPERTIES, KEYLESS_PROPERTIES
from connectors.doris.types import LONGEST_VARCHAR, column_type, default_text, holds, is_plain, text_width
from connectors.shared.sql.text import quoted, text_literal
from connectors.shared.streamload.sql_types import WHOLE, SqlType, data_type
from connectors.shared.streamload.table_dialect import TableDialect

OWN_PROPERTIES = {
    UNIQUE: {"enable_unique_key_merge_on_write": "true", "light_schema_change": "true"},
    # Otherwise Doris would sort a DUPLICATE table by its first columns, and those could not be dropped.
    DUPLICATE: {"enable_duplicate_without_keys_by_default": "true", "light_schema_change": "true"},
}
_RESERVED = "__doris_"


@dataclass(frozen=True)
class DorisDialect(TableDialect):
    """The dialect, with the options about tables: properties of new ones, and the time zone of instants."""

    properties: Mapping[str, str]
    zone: str = "UTC"
    skips_keyless: bool = False

    name = "Doris"
    table_type = DorisTable
    key_word = "unique key"
    hidden_table_hint = "if it is there, GRANT SELECT_PRIV on it to the user, who cannot see it"
    native_bytes = False

    def with_options(self, change: CreateTable) -> DorisDialect:
        """The dialect with the change's options as further properties, which take precedence."""
        return replace(self, properties={**self.properties, **dict(change.options)})

    def check_column(self, table: TableId, name: str) -> None:
        """Refuse the names of Doris's hidden columns."""
        super().check_column(table, name)
        if name.casefold().startswith(_RESERVED):
            reason = f"column {name}: names that start with __DORIS_ are Doris' own"
            raise ChangeRefused(reason, where=str(table), hint="rename the column in the source")

    # types

    def column_type(self, data_type: DataType, *, key: bool) -> SqlType:
        """The Doris type that keeps every value of the column."""
        return column_type(data_type, key=key)

    def holds(self, actual: SqlType, data_type: DataType, *, key: bool) -> bool:
        """Whether the column takes every value unchanged; texts that are too long are found value by value."""
        return holds(actual, data_type, key=key)

    def data_type(self, actual: SqlType) -> DataType:
        """The nearest type of this tool."""
        return data_type(actual)

    def modifies_in_place(self, table: ActualTable[SqlType], column: ActualColumn[SqlType], new: SqlType) -> bool:
        """Whether MODIFY COLUMN makes the change; it never does for columns that rows are distributed by."""
        return _modifies(column.type, new) and not self.is_fixed(table, column.name)

    def altered_type(self, old: SqlType, column: Column, *, key: bool) -> SqlType:
        """The new type: MODIFY COLUMN from a number to text needs room for the longest number of the old type."""
        new, number = self.column_type(column.type, key=key), old.name in (*WHOLE, "DECIMAL")
        return (
            SqlType("VARCHAR", text_width(old)) if number and new.is_text and new.max_bytes < text_width(old) else new
        )

    def casts_exactly(self, old: SqlType, new: SqlType) -> bool:
        """Whether CAST keeps every value that the source's column can have after the change."""
        if old == new or _modifies(old, new):
            return True
        if old.name in (*WHOLE, "BOOLEAN"):
            return new.name in (*WHOLE, "DECIMAL")
        return old.is_text and new.is_text

    def is_fixed(self, table: ActualTable[SqlType], name: str) -> bool:
        """Whether the column cannot be altered: key columns, and those that rows are distributed by."""
        distribution = table.distribution if isinstance(table, DorisTable) else ()
        return any(same(part, name) for part in (*table.key, *distribution))

    # tables

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[SqlType]:
        """The column, nullable, with its default where that is a constant of the type."""
        new = column_type(column.type, key=key)
        default = None if key else default_text(column, new, self.zone)
        return ActualColumn(column.name, new, True, default, column.comment)

    def with_key(self, table: ActualTable[SqlType], key: tuple[str, ...]) -> DorisTable:
        """A new table with that key: UNIQUE, or DUPLICATE and unsorted when the key is empty."""
        columns = {
            column.name: replace(column, type=_key_type(column.type)) if column.name in key else column
            for column in table.columns
        }
        ordered = (*(columns.pop(name) for name in key), *columns.values())
        model = UNIQUE if key else DUPLICATE
        return DorisTable(table.id, ordered, key, table.comment, model, sorted_by=key, distribution=key)

    def renamed_column(self, table: ActualTable[SqlType], old_name: str, new_name: str) -> ActualTable[SqlType]:
        """The table with the column renamed, also among the columns that sort and distribute the rows."""
        if not isinstance(table, DorisTable):
            return table
        sorted_by, hashed = (
            tuple(new_name if same(part, old_name) else part for part in names)
            for names in (table.sorted_by, table.distribution)
        )
        return replace(table, sorted_by=sorted_by, distribution=hashed)

    # statements

    def create_table(self, table: ActualTable[SqlType]) -> Sequence[str]:
        """CREATE TABLE: UNIQUE KEY with merge on write when there is a key. The options' properties win over ours."""
        columns = ", ".join(_definition(column) for column in table.columns)
        parts = [f"CREATE TABLE {self.table_name(table.id)} ({columns})"]
        key = ", ".join(quoted(name) for name in table.key)
        if table.key:
            parts.append(f"UNIQUE KEY({key})")
        if table.comment:
            parts.append(f"COMMENT {text_literal(table.comment)}")
        parts.append(f"DISTRIBUTED BY {f'HASH({key})' if table.key else 'RANDOM'} BUCKETS AUTO")
        chosen = {**OWN_PROPERTIES[UNIQUE if table.key else DUPLICATE], **self._fitting(keyed=bool(table.key))}
        listed = ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in chosen.items())
        return [f"{' '.join(parts)} PROPERTIES ({listed})"]

    def _fitting(self, *, keyed: bool) -> dict[str, str]:
        """The options' properties that fit the model; Doris refuses a table with a property of the other model."""
        others = KEYLESS_PROPERTIES if keyed else KEYED_PROPERTIES
        return {name: value for name, value in self.properties.items() if not name.strip().lower().startswith(others)}

    def drop_copy(self, copy: TableId) -> str:
        """DROP TABLE that bypasses the recycle bin."""
        return f"{self.drop_table(copy)} FORCE"

    def comment_table(self, table: ActualTable[SqlType], comment: str) -> str:
        """ALTER TABLE that sets the comment."""
        return f"ALTER TABLE {self.table_name(table.id)} MODIFY COMMENT {text_literal(comment)}"

    def add_column(
        self, table: ActualTable[SqlType], column: ActualColumn[SqlType], after: str | None
    ) -> Sequence[str]:
        """ADD COLUMN, after another column or last."""
        position = f" AFTER {quoted(after)}" if after is not None else ""
        return [f"ALTER TABLE {self.table_name(table.id)} ADD COLUMN {_definition(column)}{position}"]

    def modify_column(self, table: ActualTable[SqlType], column: ActualColumn[SqlType], value: str) -> str:
        """MODIFY COLUMN with the whole definition: default, nullability and KEY have to be repeated as they are."""
        key = isinstance(table, DorisTable) and any(same(part, column.name) for part in table.sorted_by)
        return f"ALTER TABLE {self.table_name(table.id)} MODIFY COLUMN {_definition(column, key=key)}"

    def comment_column(self, table: ActualTable[SqlType], column: ActualColumn[SqlType]) -> str:
        """MODIFY COLUMN with the comment alone, which rewrites no data."""
        named = f"{quoted(column.name)} COMMENT {text_literal(column.comment)}"
        return f"ALTER TABLE {self.table_name(table.id)} MODIFY COLUMN {named}"

    def rename_column(self, table: TableId, old_name: str, new_name: str) -> str:
        """RENAME COLUMN, which Doris writes without TO."""
        return f"ALTER TABLE {self.table_name(table)} RENAME COLUMN {quoted(old_name)} {quoted(new_name)}"

    def swap_shadow(self, copy: TableId, table: ActualTable[SqlType]) -> Sequence[str]:
        """REPLACE the table by its copy in one step, which also drops the old table."""
        replaced = f"REPLACE WITH TABLE {quoted(copy.table)} PROPERTIES ('swap' = 'false')"
        return [f"ALTER TABLE {self.table_name(table.id)} {replaced}"]


def _modifies(old: SqlType, new: SqlType) -> bool:
    """Whether MODIFY COLUMN makes the change and keeps every value.

    See the matrix in Doris's `ColumnType`, and its `SchemaChangeHandler`.
    """
    if old.name in WHOLE and new.name in WHOLE:
        return WHOLE.index(new.name) > WHOLE.index(old.name)
    if old.name in WHOLE:
        return new.name == "DOUBLE" or new.is_text
    if old.name in ("CHAR", "VARCHAR"):
        return new.is_text and new.max_bytes > old.max_bytes
    if old.name == "DECIMAL":
        return (new.name == "DECIMAL" and new.holds_decimal(old)) or new.is_text
    if old.name == new.name == "DATETIME":
        return (new.length or 0) > (old.length or 0)
    return (old.name, new.name) in {("FLOAT", "DOUBLE"), ("DATE", "DATETIME"), ("JSON", "STRING")}


def _key_type(actual: SqlType) -> SqlType:
    """The type of a column once it becomes part of a key."""
    if actual.name == "STRING":
        return SqlType("VARCHAR", LONGEST_VARCHAR)
    return SqlType("VARCHAR", 32) if actual.name in ("FLOAT", "DOUBLE") else actual


def _constant(text: str) -> str:
    """The constant of a DEFAULT. A quote in it is not escaped, because newer releases would keep the backslash."""
    return f'"{text}"' if "'" in text and is_plain(text) else text_literal(text)


def _definition(column: ActualColumn[SqlType], *, key: bool = False) -> str:
    """A column as in CREATE, ADD and MODIFY; `key` adds the word KEY, which MODIFY of a key column needs."""
    text = f"{quoted(column.name)} {column.type}"
    if key:
        text += " KEY"
    text += " NULL" if column.nullable else " NOT NULL"
    if column.default is not None:
        # CURRENT_TIMESTAMP is an expression, so it gets no quotes.
        now = column.type.name == "DATETIME" and column.default.upper().startswith("CURRENT_TIMESTAMP")
        text += f" DEFAULT {column.default if now else _constant(column.default)}"
    if column.comment:
        text += f" COMMENT {text_literal(column.comment)}"
    return text
