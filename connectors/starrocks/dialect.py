"""StarRocks's dialect: its tables, its statements, and the changes that it makes in place. Pure: nothing is executed.

| the source's table | becomes |
|---|---|
| with a primary key | PRIMARY KEY table: key columns first, in the key's order; distributed by hash of the key |
| without | DUPLICATE KEY table: begins with the first column that StarRocks can sort by; distributed at random |

Only key columns are NOT NULL: the source has checked the others, a zero date of a NOT NULL column arrives as NULL, and
deletes need no values for nullable columns. StarRocks cannot change a key in place, nor the type of a key column
(except for a longer VARCHAR): then the table is copied into a shadow table, and the two swap their names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cdc.errors import ChangeRefused
from cdc.evolution.table import ActualColumn, ActualTable, same
from cdc.schema import Column, CreateTable, DataType, TableId
from connectors.shared.sql.text import quoted, text_literal
from connectors.shared.streamload.sql_types import WHOLE, SqlType, data_type
from connectors.shared.streamload.table_dialect import TableDialect
from connectors.starrocks.catalog import StarRocksTable
from connectors.starrocks.options import KEYED_PROPERTIES
from connectors.starrocks.types import LONG_TEXT, SECONDS_DIGITS, TypeRules, default_text

NOW = "CURRENT_TIMESTAMP"
_NOW = re.compile(r"(CURRENT_TIMESTAMP|NOW|LOCALTIME|LOCALTIMESTAMP)(\(\d*\))?", re.IGNORECASE)
_RESERVED = ("__op", "__row")
_SORTABLE = frozenset({*WHOLE, "BOOLEAN", "DECIMAL", "DATE", "DATETIME", "CHAR", "VARCHAR"})


@dataclass(frozen=True)
class StarRocksDialect(TableDialect):
    """The dialect, with the options about tables.

    Attributes:
        buckets: the number of buckets of a table; None lets the server choose.
        properties: properties of CREATE TABLE, such as ("replication_num", "1").
        zone: the time zone that instants are written in.
    """

    types: TypeRules = field(default_factory=TypeRules)
    buckets: int | None = None
    properties: tuple[tuple[str, str], ...] = ()
    zone: str = "UTC"
    skips_keyless: bool = False

    name = "StarRocks"
    table_type = StarRocksTable
    hidden_table_hint = "if it is there, GRANT SELECT on it to the user, who cannot see it"
    all_in_jobs = True

    def with_options(self, change: CreateTable) -> StarRocksDialect:
        """The dialect with the change's options as further properties, which take precedence."""
        return replace(self, properties=tuple({**dict(self.properties), **dict(change.options)}.items()))

    def check_existing(self, actual: ActualTable[SqlType]) -> None:
        """Refuse tables of other models, because those take no deletes."""
        model = actual.foreign_model if isinstance(actual, StarRocksTable) else ""
        if model:
            reason = f"exists as a {model} KEY table, which cannot take deletes"
            hint = "drop it in StarRocks, or route to another table"
            raise ChangeRefused(reason, where=str(actual.id), hint=hint)

    def check_table(self, table: TableId) -> None:
        """Refuse names that a load cannot state in an HTTP header."""
        for name in (table.database, table.table):
            if name != name.strip() or not {"\r", "\n"}.isdisjoint(name):
                reason = f"a load cannot tell a name with a line end, or with spaces around it: {name!r}"
                raise ChangeRefused(reason, where=str(table), hint="give the table another name with a route")

    def check_column(self, table: TableId, name: str) -> None:
        """Refuse the names of StarRocks's hidden columns."""
        super().check_column(table, name)
        if name.casefold() in _RESERVED:
            reason = f"column {name}: the name is reserved by StarRocks"
            raise ChangeRefused(reason, where=str(table), hint="rename the column in the source, or exclude the table")

    # types

    def column_type(self, data_type: DataType, *, key: bool) -> SqlType:
        """The StarRocks type that keeps every value of the column."""
        return self.types.column_type(data_type, key=key)

    def holds(self, actual: SqlType, data_type: DataType, *, key: bool) -> bool:
        """Whether the column takes every value unchanged; texts that are too long are found value by value."""
        return self.types.holds(actual, data_type, key=key)

    def data_type(self, actual: SqlType) -> DataType:
        """The nearest type of this tool."""
        return data_type(actual, digits=SECONDS_DIGITS)

    def modifies_in_place(self, table: ActualTable[SqlType], column: ActualColumn[SqlType], new: SqlType) -> bool:
        """Whether MODIFY COLUMN makes the change; for a key column it only makes text longer."""
        return _modifies(column.type, new) and (new.is_text or not table.in_key(column.name))

    def casts_exactly(self, old: SqlType, new: SqlType) -> bool:
        """Whether CAST keeps every value that the source's column can have after the change."""
        if old == new or _modifies(old, new):
            return True
        if old.name in WHOLE:
            return new.name in (*WHOLE, "DECIMAL")
        return (old.name, new.name) in {("DECIMAL", "DECIMAL"), ("DATETIME", "DATE"), ("DOUBLE", "FLOAT")}

    def is_fixed(self, table: ActualTable[SqlType], name: str) -> bool:
        """Whether the column cannot be altered: key columns of any model, and the first one, which sorts the table."""
        sorted_by = table.sorted_by if isinstance(table, StarRocksTable) else ()
        return any(same(part, name) for part in (*table.key, *sorted_by, table.columns[0].name))

    # tables

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[SqlType]:
        """The column, with its default where that is a constant of the type or the current time."""
        sql_type = self.types.column_type(column.type, key=key)
        default = None if key else default_text(column, sql_type, self.zone)
        if not key and default is None and column.default is not None and sql_type.name == "DATETIME":
            default = NOW if _NOW.fullmatch(column.default) else None
        return ActualColumn(column.name, sql_type, not key, default, column.comment)

    def added_column(self, column: Column) -> ActualColumn[SqlType]:
        """The column without a default of the current time: existing rows would get another time than in the source."""
        new = self.new_column(column, key=False)
        return replace(new, default=None) if new.default == NOW else new

    def with_key(self, table: ActualTable[SqlType], key: tuple[str, ...]) -> StarRocksTable:
        """The table with these key columns first. Without a key, the first sortable column comes first.

        Raises ChangeRefused when there is no such column.
        """
        columns = {
            column.name: _as_key(column)
            if column.name in key
            else replace(column, nullable=True)
            if table.in_key(column.name)
            else column
            for column in table.columns
        }
        sortable = (name for name, column in columns.items() if column.type.name in _SORTABLE)
        first = key or tuple(name for name in [next(sortable, None)] if name is not None)
        if not first:
            reason = "StarRocks needs a column to sort a table without a key by, and this one has none of such a type"
            hint = "give the table a primary key, or leave it out with tables.exclude"
            raise ChangeRefused(reason, where=str(table.id), hint=hint)
        ordered = (*(columns.pop(name) for name in first), *columns.values())
        return StarRocksTable(table.id, ordered, key, table.comment, sorted_by=first)

    def cast(self, old: ActualColumn[SqlType], new: ActualColumn[SqlType], before: DataType | None = None) -> str:
        """The cast between the two types; bytes become hexadecimal digits."""
        if old.type.name == "VARBINARY" and old.type != new.type:
            return f"hex({quoted(old.name)})"
        return super().cast(old, new, before)

    # statements

    def create_table(self, table: ActualTable[SqlType]) -> Sequence[str]:
        """CREATE TABLE IF NOT EXISTS."""
        columns = ", ".join(_definition(column) for column in table.columns)
        keys = ", ".join(quoted(part) for part in table.key)
        model = f"PRIMARY KEY ({keys})" if keys else f"DUPLICATE KEY ({quoted(table.columns[0].name)})"
        parts = [f"CREATE TABLE IF NOT EXISTS {self.table_name(table.id)} ({columns})", model]
        if table.comment:
            parts.append(f"COMMENT {text_literal(table.comment)}")
        parts.append(f"DISTRIBUTED BY {f'HASH ({keys})' if keys else 'RANDOM'}")
        if self.buckets is not None:
            parts.append(f"BUCKETS {self.buckets}")
        fitting = [(name, value) for name, value in self.properties if table.key or not _needs_key(name)]
        if fitting:
            pairs = (f"{text_literal(name)} = {text_literal(value)}" for name, value in fitting)
            parts.append(f"PROPERTIES ({', '.join(pairs)})")
        return [" ".join(parts)]

    def comment_table(self, table: ActualTable[SqlType], comment: str) -> str:
        """ALTER TABLE that sets the comment."""
        return f"ALTER TABLE {self.table_name(table.id)} COMMENT = {text_literal(comment)}"

    def add_column(
        self, table: ActualTable[SqlType], column: ActualColumn[SqlType], after: str | None
    ) -> Sequence[str]:
        """ADD COLUMN at the end, wherever the column is in the source."""
        return [f"ALTER TABLE {self.table_name(table.id)} ADD COLUMN {_definition(column)}"]

    def modify_column(self, table: ActualTable[SqlType], column: ActualColumn[SqlType], value: str) -> str:
        """MODIFY COLUMN with the whole definition: default and nullability have to be repeated as they are."""
        return f"ALTER TABLE {self.table_name(table.id)} MODIFY COLUMN {_definition(column)}"

    def comment_column(self, table: ActualTable[SqlType], column: ActualColumn[SqlType]) -> str:
        """MODIFY COLUMN with the whole definition, because StarRocks cannot set the comment alone."""
        return self.modify_column(table, column, "")

    def swap_shadow(self, copy: TableId, table: ActualTable[SqlType]) -> Sequence[str]:
        """SWAP the two names in one step, then drop the old table, which has the copy's name by then."""
        swap = f"ALTER TABLE {self.table_name(table.id)} SWAP WITH {quoted(copy.table)}"
        return [swap, self.drop_copy(copy)]


def _modifies(old: SqlType, new: SqlType) -> bool:
    """Whether MODIFY COLUMN makes the change to a value column and keeps every value."""
    if old.name in WHOLE and new.name in WHOLE:
        return WHOLE.index(new.name) > WHOLE.index(old.name)
    if old.name == new.name == "VARCHAR":
        return (new.length or 0) > (old.length or 0)
    if old.name == new.name == "DECIMAL":
        return new.holds_decimal(old)
    if new.name == "VARCHAR":
        return old.name in (*WHOLE, "DECIMAL", "CHAR")
    return (old.name, new.name) in {("FLOAT", "DOUBLE"), ("DATE", "DATETIME")}


def _as_key(column: ActualColumn[SqlType]) -> ActualColumn[SqlType]:
    """The column as part of a primary key: a type that StarRocks allows there, and NOT NULL."""
    return replace(column, type=_key_type(column.type), nullable=False, default=None)


def _key_type(sql_type: SqlType) -> SqlType:
    if sql_type.name == "DECIMAL":
        return SqlType("VARCHAR", (sql_type.length or 0) + (3 if sql_type.scale else 1))
    if sql_type.name in ("FLOAT", "DOUBLE"):
        return SqlType("VARCHAR", 32)
    if sql_type.name == "CHAR":
        return SqlType("VARCHAR", sql_type.length)
    return LONG_TEXT if sql_type.name == "VARBINARY" else sql_type


def _needs_key(property_name: str) -> bool:
    return property_name.strip().lower().startswith(KEYED_PROPERTIES)


def _definition(column: ActualColumn[SqlType]) -> str:
    """The definition of a column, as in CREATE TABLE, ADD COLUMN and MODIFY COLUMN."""
    parts = [quoted(column.name), str(column.type), "NULL" if column.nullable else "NOT NULL"]
    if column.default is not None:
        now = column.type.name == "DATETIME" and _NOW.fullmatch(column.default)
        parts.append(f"DEFAULT {NOW if now else text_literal(column.default)}")
    if column.comment:
        parts.append(f"COMMENT {text_literal(column.comment)}")
    return " ".join(parts)
