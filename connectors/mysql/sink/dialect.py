"""The SQL of sink tables in MySQL, MariaDB and OceanBase. Pure, nothing is executed here.

Tables are altered in place: the server converts values as the source's server does, in strict mode, so a value that
does not fit refuses the change. OceanBase runs the same statements, some of them by copying the table itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cdc.errors import ChangeRefused
from cdc.evolution import operations as op
from cdc.evolution.dialect import Dialect
from cdc.evolution.steps import Statement
from cdc.evolution.table import ActualColumn, ActualTable, same
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.types.kinds import BLOBS
from connectors.mysql.sink.row_length import shortened, stays_outside
from connectors.mysql.sink.types import (
    Flavor,
    ServerType,
    column_type,
    has_ambiguous_labels,
    holds,
    is_key_type,
    respelled,
    server_type,
    shared_key_type,
)
from connectors.shared.sql.text import quoted, text_literal

_LONGEST_NAME = 64
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_BITS = re.compile(r"[bB]'([01]*)'")
_HEX = re.compile(r"0[xX]((?:[0-9A-Fa-f]{2})*)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
_SPAN = re.compile(r"-?\d{1,3}:\d\d(?::\d\d(?:\.\d{1,6})?)?")
_NUMERIC = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year"})
_PLAIN_TEXT = frozenset({"char", "varchar", "enum", "set", "uuid", "inet4", "inet6"})
_TEXTS = frozenset({"tinytext", "text", "mediumtext", "longtext"})
"""Types whose default is an expression, since MySQL 8.0.13 and MariaDB 10.2; older servers and OceanBase refuse it."""
_NO_DEFAULT = _TEXTS | {"tinyblob", "blob", "mediumblob", "longblob", "json", "geometry"}


@dataclass(frozen=True)
class ServerTable(ActualTable[ServerType]):
    """An existing table.

    Attributes:
        unique: columns of each unique key besides the primary key.
        generated: columns computed by the server, which are not written.
        engine: the storage engine if it has no transactions.
    """

    unique: tuple[tuple[str, ...], ...] = ()
    generated: tuple[str, ...] = ()
    engine: str = ""

    def check(self) -> None:
        """Raise ChangeRefused for a table in which a batch could not be rolled back."""
        if self.engine:
            name = quoted(self.id.database, self.id.table)
            raise ChangeRefused(
                f"its engine {self.engine} has no transactions: a batch could be in it by half",
                where=str(self.id),
                hint=f"run on the server: ALTER TABLE {name} ENGINE = InnoDB",
            )


@dataclass(frozen=True)
class ServerDialect(Dialect[ServerType]):
    """The dialect of one server. `own_database`: the database of this tool's own table."""

    flavor: Flavor
    own_database: str
    key_collation: str
    names_ignore_case: bool = False

    name = "the sink's server"
    moves_tables = True
    native_bytes = False

    @property
    def ignore_case(self) -> bool:  # type: ignore[override]
        """Whether names ignore case, by lower_case_table_names."""
        return self.names_ignore_case

    def quoted(self, name: str) -> str:
        """Quote an identifier with backquotes."""
        return quoted(name)

    def literal(self, text: str) -> str:
        """Quote text with backslash escapes."""
        return text_literal(text)

    def check_table(self, table: TableId) -> None:
        """Refuse tables without a database, in the tool's own database, or with a name that is too long."""
        if not table.database:
            hint = "give it one with a route, such as sink-table: ods.<>"
            raise ChangeRefused("the table has no database", where=str(table), hint=hint)
        if table.database.casefold() == self.own_database.casefold():
            reason = f"the database {self.own_database} holds this tool's own records"
            raise ChangeRefused(reason, where=str(table), hint="give the table another database with a route")
        for name in (table.database, table.table):
            self.check_column(table, name)

    def check_column(self, table: TableId, name: str) -> None:
        """Refuse names that are too long or end with a space."""
        if len(name) > _LONGEST_NAME or name.endswith(" "):
            reason = f"no name may have more than {_LONGEST_NAME} characters or end with a space: {name!r}"
            raise ChangeRefused(reason, where=str(table), hint="give it another name with a route or a rule")

    def check_existing(self, actual: ActualTable[ServerType]) -> None:
        """Refuse tables whose engine has no transactions."""
        assert isinstance(actual, ServerTable)
        actual.check()

    def remark_on_existing(self, actual: ActualTable[ServerType], wanted: ActualTable[ServerType]) -> str:
        """Name key columns whose collation treats different texts as equal, and columns that the server computes."""
        assert isinstance(actual, ServerTable)
        remarks = []
        keys = [column for column in actual.columns if actual.in_key(column.name) and column.type.equates_texts]
        if named := ", ".join(f"{column.name} ({column.type.collation})" for column in keys):
            remark = f"texts that a collation treats as equal, such as a and A, are one key of this table: {named}. If "
            remark += f"the source has both, one row replaces the other; {self.key_collation} would tell them "
            remarks.append(f"{remark}apart")
        if named := ", ".join(name for name in actual.generated if wanted.column(name) is not None):
            remark = f"generated columns of this table are computed here, not written: {named}. If the source computes "
            remarks.append(f"{remark}or stores other values there, then or later, they differ")
        return "; ".join(remarks)

    # types

    def column_type(self, data_type: DataType, *, key: bool) -> ServerType:
        """Return the type of a column, for any source."""
        return server_type(data_type, key_parts=int(key), flavor=self.flavor)

    def holds(self, actual: ServerType, data_type: DataType, *, key: bool) -> bool:
        """Return whether the column stores every value unchanged."""
        return holds(actual, data_type) or (key and is_key_type(actual, data_type))

    def data_type(self, actual: ServerType) -> DataType:
        """Return the column's type of this tool."""
        return actual.data_type

    def stays(self, actual: ServerType, new: DataType, old: DataType | None, *, key: bool) -> bool:
        """Return whether the column keeps its type: it has the new one in any collation, or is text of a long row."""
        alike = old is not None and (old == new or (not key and stays_outside(actual, (old.kind, new.kind))))
        if alike and holds(actual, new):
            return True
        return actual.text == self.column_type(new, key=key).text or (key and is_key_type(actual, new))

    def respelled(self, actual: ServerType, column: Column, *, key: bool) -> ServerType | None:
        """Return a wider type for more values of the source's type: ENUM labels, longer texts, larger numbers."""
        found = respelled(actual, column_type(column, key_parts=int(key), flavor=self.flavor))
        return None if found is None else self._collated(found, actual)

    def altered_type(self, old: ServerType, column: Column, *, key: bool) -> ServerType:
        """Return the source's own type if it is of the same name or a BIT, whose bits are a number and no BINARY."""
        own = column_type(column, key_parts=int(key), flavor=self.flavor)
        return self._collated(own if own.name in (old.name, "bit") else self.column_type(column.type, key=key), old)

    def _collated(self, new: ServerType, old: ServerType) -> ServerType:
        """Keep the column's collation, unless it treats two labels as equal."""
        return self._labelled(replace(new, collation=old.collation)) if new.is_characters else new

    def modifies_in_place(
        self, table: ActualTable[ServerType], column: ActualColumn[ServerType], new: ServerType
    ) -> bool:
        """Return whether MODIFY can make the change.

        Not for bits to bytes, as it would write a number's digits, and in OceanBase not for JSON to text (error 1235).
        """
        from_json = self.flavor == "oceanbase" and column.type.name == "json" and new.is_characters
        return not (from_json or _bits_to_bytes(column.type, new))

    def cast(self, old: ActualColumn[ServerType], new: ActualColumn[ServerType], before: DataType | None = None) -> str:
        """Convert a value; bits become bytes, where a CAST would write digits. Text gets its column's collation."""
        if old.type.name == "json" and new.type.is_characters:
            return f"CAST({quoted(old.name)} AS CHAR)"
        if not _bits_to_bytes(old.type, new.type):
            return quoted(old.name) if old.type.text == new.type.text else super().cast(old, new, before)
        digits = 2 * (old.type.data_type.length or 1)
        return f"UNHEX(LPAD(HEX({quoted(old.name)}), {digits}, '0'))"

    def loose_cast(self, old: ActualColumn[ServerType], new: ActualColumn[ServerType]) -> str:
        """NULL: type names in a CAST differ from those of columns."""
        return "NULL"

    # tables

    def new_table(self, table: TableId, schema: TableSchema) -> ActualTable[ServerType]:
        """Return a new table; with the key if the server can index it whole."""
        columns = tuple(self._new_column(column, schema) for column in schema.columns)
        free = [column for column in columns if column.name not in schema.primary_key]
        keyed = ServerTable(table, self._short(columns, free), schema.primary_key, schema.comment)
        return self.with_key(keyed, schema.primary_key)

    def _new_column(self, column: Column, schema: TableSchema) -> ActualColumn[ServerType]:
        """Return a column of a new table; a key column of unlimited length shares the key's room with the others."""
        key = column.name in schema.primary_key
        new = self.new_column(column, key=key)
        if not key or column.type.kind not in (Kind.STRING, Kind.JSON, Kind.BYTES):
            return new
        return replace(new, type=self._keyed(column, len(schema.primary_key)))

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[ServerType]:
        """Return the column in the source's type. Only key columns are NOT NULL: the source may drop other ones."""
        found = column_type(column, key_parts=0, flavor=self.flavor)
        found = self._keyed(column, 1) if key else self._labelled(found)
        return ActualColumn(column.name, found, not key, column.default, column.comment)

    def with_key(self, table: ActualTable[ServerType], key: tuple[str, ...]) -> ActualTable[ServerType]:
        """Set the key, or none if the server cannot index one of its columns. Columns that leave it become nullable."""
        parts = frozenset(part.casefold() for part in key)
        indexable = {column.name.casefold() for column in table.columns if column.type.can_be_key}
        if not parts <= indexable:
            key, parts = (), frozenset()
        columns = tuple(self._with_part(table, column, column.name.casefold() in parts) for column in table.columns)
        return replace(table, columns=columns, key=key)

    def _with_part(
        self, table: ActualTable[ServerType], column: ActualColumn[ServerType], is_part: bool
    ) -> ActualColumn[ServerType]:
        """Return the column as a part of the table's new key, or outside of it."""
        if table.in_key(column.name):
            return replace(column, nullable=not is_part)
        if is_part:
            return replace(column, type=self._compared_exactly(column.type), nullable=False)
        return column

    def _keyed(self, column: Column, parts: int) -> ServerType:
        return self._compared_exactly(column_type(column, key_parts=parts, flavor=self.flavor))

    def _compared_exactly(self, found: ServerType) -> ServerType:
        return replace(found, collation=self.key_collation) if found.is_characters else found

    def _labelled(self, found: ServerType) -> ServerType:
        return replace(found, collation=self.key_collation) if has_ambiguous_labels(found) else found

    def _short(
        self, columns: Sequence[ActualColumn[ServerType]], changeable: Sequence[ActualColumn[ServerType]]
    ) -> tuple[ActualColumn[ServerType], ...]:
        """Shorten columns so that a row fits the server's limit; OceanBase allows longer rows."""
        return tuple(columns) if self.flavor == "oceanbase" else shortened(columns, changeable)

    # statements

    def create_database(self, database: str) -> str:
        """CREATE DATABASE with utf8mb4 text."""
        return f"CREATE DATABASE IF NOT EXISTS {quoted(database)} CHARACTER SET utf8mb4"

    def create_table(self, table: ActualTable[ServerType]) -> Sequence[str]:
        """CREATE TABLE, in one statement."""
        parts = [self._definition(column) for column in table.columns]
        if table.key:
            parts.append(f"PRIMARY KEY ({', '.join(quoted(part) for part in table.key)})")
        comment = f" COMMENT = {text_literal(table.comment)}" if table.comment else ""
        return [f"CREATE TABLE {self.table_name(table.id)} ({', '.join(parts)}) DEFAULT CHARSET = utf8mb4{comment}"]

    def create_like(self, table: ActualTable[ServerType], new: TableId) -> Sequence[str]:
        """Create a table like another, with its indexes and options."""
        return [f"CREATE TABLE {self.table_name(new)} LIKE {self.table_name(table.id)}"]

    def rename_table(self, table: TableId, new_name: str) -> str:
        """Rename a table within its database."""
        return f"RENAME TABLE {self.table_name(table)} TO {self.table_name(TableId(table.database, new_name))}"

    def move_table(self, table: ActualTable[ServerType], new: ActualTable[ServerType]) -> Sequence[str]:
        """Move a table with its indexes and options. The server refuses to move one with triggers."""
        return [f"RENAME TABLE {self.table_name(table.id)} TO {self.table_name(new.id)}"]

    def rebuild_table(self, operation: op.RebuildTableOp) -> Iterator[Statement]:
        """Change the key with one ALTER, which keeps everything else of the table; copy the table if values change."""
        old, new = operation.actual, operation.new
        if operation.values or self.flavor == "oceanbase":
            yield from super().rebuild_table(operation)
            return
        assert isinstance(old, ServerTable)
        parts = ["DROP PRIMARY KEY"] if old.key else []
        parts += [f"DROP COLUMN {quoted(column.name)}" for column in old.columns if new.column(column.name) is None]
        # A key column may be AUTO_INCREMENT, which is not allowed outside of a key or after its first column.
        parts += [
            f"MODIFY COLUMN {self._definition(column)}"
            for column in new.columns
            if (old.in_key(column.name) or new.in_key(column.name)) and column.name not in old.generated
        ]
        if new.key:
            parts.append(f"ADD PRIMARY KEY ({', '.join(quoted(part) for part in new.key)})")
        yield Statement(operation.table, f"ALTER TABLE {self.table_name(old.id)} {', '.join(parts)}")

    def comment_table(self, table: ActualTable[ServerType], comment: str) -> str:
        """Change or remove the table's comment."""
        return f"ALTER TABLE {self.table_name(table.id)} COMMENT = {text_literal(comment)}"

    def add_column(
        self, table: ActualTable[ServerType], column: ActualColumn[ServerType], after: str | None
    ) -> Sequence[str]:
        """Add a column at its place; existing rows get the default."""
        place = f" AFTER {quoted(after)}" if after else ""
        (*_, added) = self._short((*table.columns, column), [column] if column.default is None else [])
        default = ""
        if column.default is not None and added.type.name in _TEXTS:
            default = f" DEFAULT ({text_literal(column.default)})"
        return [f"ALTER TABLE {self.table_name(table.id)} ADD COLUMN {self._definition(added)}{default}{place}"]

    def modify_column(self, table: ActualTable[ServerType], column: ActualColumn[ServerType], value: str) -> str:
        """Change a column; the server converts its values."""
        if table.in_key(column.name):
            kind = shared_key_type(column.type, len(table.key))
            column = replace(column, type=kind if kind.collation else self._compared_exactly(kind))
        others = [other for other in table.columns if not same(other.name, column.name)]
        (*_, changed) = self._short((*others, column), [] if table.in_key(column.name) else [column])
        return f"ALTER TABLE {self.table_name(table.id)} MODIFY COLUMN {self._definition(changed)}"

    def comment_column(self, table: ActualTable[ServerType], column: ActualColumn[ServerType]) -> str:
        """Change the comment, as a part of the column's definition."""
        return self.modify_column(table, column, "")

    def swap_shadow(self, copy: TableId, table: ActualTable[ServerType]) -> Sequence[str]:
        """Swap both names in one step, then drop the old rows."""
        name, old = self.table_name(table.id), self.table_name(self._replaced(table.id))
        return [
            f"DROP TABLE IF EXISTS {old}",
            f"RENAME TABLE {name} TO {old}, {self.table_name(copy)} TO {name}",
            f"DROP TABLE IF EXISTS {old}",
        ]

    def _replaced(self, table: TableId) -> TableId:
        return TableId(table.database, f"{self.copy_of(table).table}_old")

    def _definition(self, column: ActualColumn[ServerType]) -> str:
        parts = [quoted(column.name), column.type.text]
        if column.type.collation:
            charset = column.type.collation.partition("_")[0]
            parts.append(f"CHARACTER SET {charset} COLLATE {column.type.collation}")
        parts.append("NULL" if column.nullable else "NOT NULL")
        if default := default_clause(column):
            parts.append(default)
        if column.comment:
            parts.append(f"COMMENT {text_literal(column.comment)}")
        return " ".join(parts)


def _bits_to_bytes(old: ServerType, new: ServerType) -> bool:
    return old.name == "bit" != new.name and new.data_type.kind in BLOBS


def default_clause(column: ActualColumn[ServerType]) -> str:
    """Return `DEFAULT 7`, or nothing if the text is not a constant of the type or the type takes no default.

    Every row comes whole from the source, so a default only matters for existing rows when a column is added.
    """
    text = column.default
    name = column.type.name
    if text is None or name in _NO_DEFAULT:
        return ""
    if name == "bit":
        if bits := _BITS.fullmatch(text):
            return f"DEFAULT b'{bits[1]}'"
        return f"DEFAULT {text}" if text.isdigit() else ""
    if name in _NUMERIC:
        return f"DEFAULT {text}" if _NUMBER.fullmatch(text) else ""
    if name in ("binary", "varbinary"):
        value = bytes.fromhex(found[1]) if (found := _HEX.fullmatch(text)) else text.encode()
        return f"DEFAULT x'{value.hex()}'"
    if name in ("date", "datetime", "timestamp"):
        return f"DEFAULT {text_literal(text)}" if _MOMENT.fullmatch(text) and text[:4] != "0000" else ""
    if name == "time":
        return f"DEFAULT {text_literal(text)}" if _SPAN.fullmatch(text) else ""
    return f"DEFAULT {text_literal(text)}" if name in _PLAIN_TEXT else ""
