"""DuckDB's dialect: types and statements. Pure, nothing is executed here.

Changes that DuckDB cannot make in place rebuild the table: changing the type of a key column, dropping one, changing
the key, moving a table to another schema. Columns have no NOT NULL and no default: every row comes whole from the
source, which has enforced both, and a zero date of a NOT NULL column arrives as NULL. New columns go last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdc.errors import ChangeRefused
from cdc.evolution.dialect import Dialect
from cdc.evolution.table import ActualColumn, ActualTable, same
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from connectors.duckdb.database import FullNames, quoted
from connectors.duckdb.types import TEXT, can_be_key, data_type, default_literal, duckdb_type, holds, text_literal

OWN_SCHEMA = "_cdc"
RESERVED_PREFIX = "__cdc_"


@dataclass(frozen=True)
class DuckDbDialect(Dialect[str]):
    """The dialect for one file. A column's default is a complete SQL expression here."""

    names: FullNames

    name = "DuckDB"
    ignore_case = True
    transactional = True
    moves_tables = True

    def quoted(self, name: str) -> str:
        """Quote an identifier with double quotes."""
        return quoted(name)

    def literal(self, text: str) -> str:
        """Quote text with single quotes."""
        return text_literal(text)

    def table_name(self, table: TableId) -> str:
        """Return the full name, including the catalog."""
        return self.names.table(table)

    def copy_of(self, table: TableId) -> TableId:
        """Return the same name for every table, as it does not outlive its transaction."""
        return TableId(table.database, f"{RESERVED_PREFIX}rebuild")

    def check_table(self, table: TableId) -> None:
        """Refuse tables in the tool's own schema."""
        if same(table.database, OWN_SCHEMA):
            reason = f"the schema {OWN_SCHEMA} holds this tool's own records"
            raise ChangeRefused(reason, where=str(table), hint="give the table another database with a route")

    def check_column(self, table: TableId, name: str) -> None:
        """Refuse column names reserved for the loader."""
        if name.casefold().startswith(RESERVED_PREFIX):
            reason = f"column {name}: names that start with {RESERVED_PREFIX} are used while loading"
            raise ChangeRefused(reason, where=str(table), hint="rename the column in the source")

    # types

    def column_type(self, data_type: DataType, *, key: bool) -> str:
        """Return the type in DuckDB's own spelling."""
        return duckdb_type(data_type)

    def holds(self, actual: str, data_type: DataType, *, key: bool) -> bool:
        """Return whether the column stores every value unchanged."""
        return holds(actual, duckdb_type(data_type))

    def data_type(self, actual: str) -> DataType:
        """Return the nearest type of this tool."""
        return data_type(actual)

    def is_text(self, actual: str) -> bool:
        """VARCHAR of any length."""
        return actual == TEXT

    def modifies_in_place(self, table: ActualTable[str], column: ActualColumn[str], new: str) -> bool:
        """Any column but key columns can be changed in place."""
        return not table.in_key(column.name)

    def spells(self, data_type: DataType) -> bool:
        """Nearly every type has a text form."""
        return spelled("", data_type) is not None

    # tables

    def is_fixed(self, table: ActualTable[str], name: str) -> bool:
        """DuckDB cannot drop a column that precedes a key column."""
        place = next((index for index, column in enumerate(table.columns) if same(column.name, name)), 0)
        return any(table.in_key(column.name) for column in table.columns[place:])

    def new_table(self, table: TableId, schema: TableSchema) -> ActualTable[str]:
        """Return a new table; without the key if DuckDB cannot index one of its columns."""
        columns = tuple(self.new_column(column, key=False) for column in schema.columns)
        return self.with_key(ActualTable(table, columns, (), schema.comment), schema.primary_key)

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[str]:
        """Return a column without NOT NULL and default."""
        return ActualColumn(column.name, duckdb_type(column.type), comment=column.comment)

    def added_column(self, column: Column) -> ActualColumn[str]:
        """Return a column whose default fills the existing rows."""
        return replace(self.new_column(column, key=False), default=default_literal(column))

    def with_key(self, table: ActualTable[str], key: tuple[str, ...]) -> ActualTable[str]:
        """Set the key if DuckDB can index all of its columns, else none."""
        types = {column.name.casefold(): column.type for column in table.columns}
        return replace(table, key=key if all(can_be_key(types[part.casefold()]) for part in key) else ())

    def schema(self, table: ActualTable[str]) -> TableSchema:
        """Return the table's schema; key columns are not nullable."""
        found = super().schema(table)
        columns = (replace(column, nullable=not table.in_key(column.name)) for column in found.columns)
        return replace(found, columns=tuple(columns))

    def cast(self, old: ActualColumn[str], new: ActualColumn[str], before: DataType | None = None) -> str:
        """Convert a value; text gets this tool's spelling."""
        text = spelled(quoted(old.name), before) if before is not None and new.type == TEXT != old.type else None
        return text or super().cast(old, new)

    def loose_cast(self, old: ActualColumn[str], new: ActualColumn[str]) -> str:
        """Return the value as DuckDB itself converts it."""
        return f"TRY_CAST({quoted(old.name)} AS {new.type})"

    # statements

    def create_database(self, database: str) -> str:
        """Return the statement that creates a schema in the file."""
        return f"CREATE SCHEMA {self.names.schema(database)}"

    def create_table(self, table: ActualTable[str]) -> Sequence[str]:
        """Return CREATE TABLE, followed by one statement per comment."""
        parts = [f"{quoted(column.name)} {column.type}" for column in table.columns]
        if table.key:
            parts.append(f"PRIMARY KEY ({', '.join(quoted(part) for part in table.key)})")
        create = f"CREATE TABLE {self.table_name(table.id)} ({', '.join(parts)})"
        return [create, *self._comments(table)]

    def add_column(self, table: ActualTable[str], column: ActualColumn[str], after: str | None) -> Sequence[str]:
        """ADD COLUMN; the default applies only to existing rows, as later rows bring their own value."""
        name = self.table_name(table.id)
        added = f"ALTER TABLE {name} ADD COLUMN {quoted(column.name)} {column.type}"
        statements = [added]
        if column.default is not None:
            drop = f"ALTER TABLE {name} ALTER COLUMN {quoted(column.name)} DROP DEFAULT"
            statements = [f"{added} DEFAULT {column.default}", drop]
        return [*statements, self.comment_column(table, column)] if column.comment else statements

    def modify_column(self, table: ActualTable[str], column: ActualColumn[str], value: str) -> str:
        """ALTER COLUMN TYPE, with the expression that converts the values."""
        name = self.table_name(table.id)
        return f"ALTER TABLE {name} ALTER COLUMN {quoted(column.name)} TYPE {column.type} USING {value}"

    def swap_shadow(self, copy: TableId, table: ActualTable[str]) -> Sequence[str]:
        """Drop the old table and rename the copy."""
        return [self.drop_table(table.id), self.rename_table(copy, table.id.table)]

    def _comments(self, table: ActualTable[str]) -> list[str]:
        commented = [self.comment_column(table, column) for column in table.columns if column.comment]
        return [*([self.comment_table(table, table.comment)] if table.comment else []), *commented]


def spelled(expression: str, data_type: DataType) -> str | None:
    """Return SQL for the text of a value of this type; None where DuckDB's spelling differs.

    The SQL fails for doubles that Arrow writes with an exponent.
    """
    text = f"CAST({expression} AS VARCHAR)"
    match data_type.kind:
        case Kind.DECIMAL:  # DuckDB omits the zero before the point of a DECIMAL(30, 30)
            return f"regexp_replace({text}, '^(-?)\\.', '\\10.')"
        case Kind.DOUBLE:
            size, whole = f"abs({expression})", f"regexp_replace({text}, '\\.0$', '')"
            reason = "error('DOUBLE values below 0.0001 or from 1e10 on have more than one text')"
            return f"CASE WHEN {size} >= 1e10 OR ({size} < 0.0001 AND {size} <> 0) THEN {reason} ELSE {whole} END"
        case Kind.TIMESTAMP:
            return _without_zeros(f"strftime({expression}, '%Y-%m-%dT%H:%M:%S.%f')")
        case Kind.TIMESTAMP_LTZ:
            moment = f"strftime(timezone('UTC', {expression}), '%Y-%m-%dT%H:%M:%S.%f')"
            return f"{_without_zeros(moment)} || 'Z'"
        case Kind.TIME:
            return _without_zeros(text)
        case Kind.BINARY | Kind.VARBINARY | Kind.BYTES | Kind.GEOMETRY:
            return f"base64({expression})"
        case Kind.FLOAT | Kind.VECTOR:
            return None  # DuckDB writes other digits
        case _:
            return text


def _without_zeros(text: str) -> str:
    """Remove trailing zeros of a time's fraction."""
    return f"regexp_replace(regexp_replace({text}, '(\\.\\d*[1-9])0+$', '\\1'), '\\.0+$', '')"
