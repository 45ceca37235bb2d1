"""The SQL of sink tables in MySQL, MariaDB and OceanBase. Pure, nothing is executed here.

Everything is altered in place: the server converts values as the source's server does, in strict mode, so a value that
does not fit refuses the change. OceanBase carries the same statements out, some of them by copying the table itself.
"""

from __future__ import annotations

import hashlib
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
from connectors.mysql.server.column_type import parse_column_type
from connectors.mysql.sink.types import (
    Flavor,
    ServerType,
    column_type,
    has_labels_alike,
    holds,
    is_key_type,
    respelled,
    server_type,
    shared_key_type,
)
from connectors.shared.sql.text import quoted, text_literal

_KEY_COLLATION: dict[str, str] = {
    "mysql": "utf8mb4_0900_bin",
    "mariadb": "utf8mb4_nopad_bin",
    "oceanbase": "utf8mb4_bin",
}
"""Compares code by code, and trailing spaces too where the server can: keys that differ in the source differ here."""
_LONGEST_NAME = 64
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_BITS = re.compile(r"[bB]'([01]*)'")
_HEX = re.compile(r"0[xX]((?:[0-9A-Fa-f]{2})*)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
_SPAN = re.compile(r"-?\d{1,3}:\d\d(?::\d\d(?:\.\d{1,6})?)?")
_NUMERIC = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year"})
_PLAIN_TEXT = frozenset({"char", "varchar", "enum", "set", "uuid", "inet4", "inet6"})
_TEXTS = frozenset({"tinytext", "text", "mediumtext", "longtext"})
"""Types with a default that is an expression, since MySQL 8.0.13 and MariaDB 10.2; others and OceanBase refuse it."""
_NO_DEFAULT = _TEXTS | {"tinyblob", "blob", "mediumblob", "longblob", "json", "geometry"}
_MOST = 65_535
_OF_TEXT = 12
"""What a text or a blob takes of a row, at most; numbers and times take no more, but for a DECIMAL."""
_OUTSIDE = {"varchar": "text", "varbinary": "blob"}


@dataclass(frozen=True)
class ServerTable(ActualTable[ServerType]):
    """A table that exists.

    Attributes:
        unique: columns of its unique keys besides the primary key, one tuple for each.
        generated: columns that the server computes, which are not written.
        engine: the storage engine, where that has no transactions.
    """

    unique: tuple[tuple[str, ...], ...] = ()
    generated: tuple[str, ...] = ()
    engine: str = ""

    def check(self) -> None:
        """Raise ChangeRefused where a batch could not be undone."""
        if self.engine:
            name = quoted(self.id.database, self.id.table)
            raise ChangeRefused(
                f"its engine {self.engine} has no transactions: a batch could be in it by half",
                where=str(self.id),
                hint=f"run on the server: ALTER TABLE {name} ENGINE = InnoDB",
            )


@dataclass(frozen=True)
class ServerDialect(Dialect[ServerType]):
    """The dialect of one server. `own_database`: where this tool keeps its own table."""

    flavor: Flavor
    own_database: str
    names_ignore_case: bool = False

    name = "the sink's server"
    moves_tables = True
    native_bytes = False

    @property
    def ignore_case(self) -> bool:  # type: ignore[override]
        """Whether names ignore case, by lower_case_table_names."""
        return self.names_ignore_case

    def quoted(self, name: str) -> str:
        """In backquotes."""
        return quoted(name)

    def literal(self, text: str) -> str:
        """With backslash escapes."""
        return text_literal(text)

    def check_table(self, table: TableId) -> None:
        """A database is needed, not the tool's own, and names that are not too long."""
        if not table.database:
            hint = "give it one with a route, such as sink-table: ods.<>"
            raise ChangeRefused("the table has no database", where=str(table), hint=hint)
        if table.database.casefold() == self.own_database.casefold():
            reason = f"the database {self.own_database} holds this tool's own records"
            raise ChangeRefused(reason, where=str(table), hint="give the table another database with a route")
        for name in (table.database, table.table):
            self.check_column(table, name)

    def check_column(self, table: TableId, name: str) -> None:
        """Names that are not too long."""
        if len(name) > _LONGEST_NAME or name.endswith(" "):
            reason = f"no name may have more than {_LONGEST_NAME} characters or end with a space: {name!r}"
            raise ChangeRefused(reason, where=str(table), hint="give it another name with a route or a rule")

    def check_existing(self, actual: ActualTable[ServerType]) -> None:
        """The engine has transactions."""
        assert isinstance(actual, ServerTable)
        actual.check()

    # types

    def column_type(self, data_type: DataType, *, key: bool) -> ServerType:
        """The type for any source."""
        return server_type(data_type, key_parts=int(key), flavor=self.flavor)

    def holds(self, actual: ServerType, data_type: DataType, *, key: bool) -> bool:
        """Every value unchanged."""
        return holds(actual, data_type) or (key and is_key_type(actual, data_type))

    def data_type(self, actual: ServerType) -> DataType:
        """One to one."""
        return actual.data_type

    def stays(self, actual: ServerType, new: DataType, old: DataType | None, *, key: bool) -> bool:
        """Where it is of that type, whatever its collation, or holds it: the same type, or text of a long row."""
        alike = old is not None and (old == new or (not key and stays_outside(actual, (old.kind, new.kind))))
        if alike and holds(actual, new):
            return True
        return actual.text == self.column_type(new, key=key).text or (key and is_key_type(actual, new))

    def respelled(self, actual: ServerType, column: Column, *, key: bool) -> ServerType | None:
        """Room for what the source's type takes besides: labels of an ENUM, longer texts, larger numbers."""
        found = respelled(actual, column_type(column, key_parts=int(key), flavor=self.flavor))
        return None if found is None else self.altered_type(actual, found)

    def altered_type(self, old: ServerType, new: ServerType) -> ServerType:
        """With the collation that the column has, where that tells the labels apart."""
        return self._labelled(replace(new, collation=old.collation)) if new.is_characters else new

    def in_place(self, table: ActualTable[ServerType], column: ActualColumn[ServerType], new: ServerType) -> bool:
        """But for bits that become bytes: MODIFY makes the digits of their number of them."""
        return not _bits_to_bytes(column.type, new)

    def cast(self, old: ActualColumn[ServerType], new: ActualColumn[ServerType], before: DataType | None = None) -> str:
        """The bytes of bits, which a CAST makes the same digits of; a text's collation is that of its column."""
        if not _bits_to_bytes(old.type, new.type):
            return quoted(old.name) if old.type.text == new.type.text else super().cast(old, new, before)
        digits = 2 * (old.type.data_type.length or 1)
        return f"UNHEX(LPAD(HEX({quoted(old.name)}), {digits}, '0'))"

    def loose_cast(self, old: ActualColumn[ServerType], new: ActualColumn[ServerType]) -> str:
        """No value: a CAST has other names of types than a column."""
        return "NULL"

    # tables

    def new_table(self, table: TableId, schema: TableSchema) -> ActualTable[ServerType]:
        """With the key when the server can index it whole."""
        columns = tuple(self.new_column(column, key=column.name in schema.primary_key) for column in schema.columns)
        unbounded = [
            column for column in columns if column.name in schema.primary_key and self._unbounded(schema, column)
        ]
        if unbounded:
            parts = len(schema.primary_key)
            columns = tuple(
                replace(column, type=self._keyed(schema.column(column.name), parts)) if column in unbounded else column
                for column in columns
            )
        free = [column for column in columns if column.name not in schema.primary_key]
        keyed = ServerTable(table, self._short(columns, free), schema.primary_key, schema.comment)
        return self.with_key(keyed, schema.primary_key)

    def new_column(self, column: Column, *, key: bool) -> ActualColumn[ServerType]:
        """The column in the source's type. Only key columns are NOT NULL: the source may stop seeing to the others."""
        found = column_type(column, key_parts=0, flavor=self.flavor)
        found = self._keyed(column, 1) if key else self._labelled(found)
        return ActualColumn(column.name, found, not key, column.default, column.comment)

    def with_key(self, table: ActualTable[ServerType], key: tuple[str, ...]) -> ActualTable[ServerType]:
        """The key, or none where a column of it cannot be indexed whole. A column that leaves the key takes NULL."""
        parts = frozenset(part.casefold() for part in key)
        indexable = {column.name.casefold() for column in table.columns if column.type.can_be_key}
        if not parts <= indexable:
            key, parts = (), frozenset()
        columns = tuple(self._with_part(table, column, column.name.casefold() in parts) for column in table.columns)
        return replace(table, columns=columns, key=key)

    def _with_part(
        self, table: ActualTable[ServerType], column: ActualColumn[ServerType], is_part: bool
    ) -> ActualColumn[ServerType]:
        """A column as it is once it is a part of the table's new key, or is none."""
        if table.in_key(column.name):
            return replace(column, nullable=not is_part)
        if is_part:
            return replace(column, type=self._compared_exactly(column.type), nullable=False)
        return column

    def _keyed(self, column: Column, parts: int) -> ServerType:
        return self._compared_exactly(column_type(column, key_parts=parts, flavor=self.flavor))

    def _compared_exactly(self, found: ServerType) -> ServerType:
        return replace(found, collation=_KEY_COLLATION[self.flavor]) if found.is_characters else found

    def _labelled(self, found: ServerType) -> ServerType:
        return replace(found, collation=_KEY_COLLATION[self.flavor]) if has_labels_alike(found) else found

    def _short(
        self, columns: Sequence[ActualColumn[ServerType]], changeable: Sequence[ActualColumn[ServerType]]
    ) -> tuple[ActualColumn[ServerType], ...]:
        """The columns, so that a row of them is no longer than the server takes; OceanBase takes more."""
        return tuple(columns) if self.flavor == "oceanbase" else shortened(columns, changeable)

    def _unbounded(self, schema: TableSchema, column: ActualColumn[ServerType]) -> bool:
        return schema.column(column.name).type.kind in (Kind.STRING, Kind.JSON, Kind.BYTES)

    # statements

    def create_database(self, database: str) -> str:
        """Text is utf8mb4."""
        return f"CREATE DATABASE IF NOT EXISTS {quoted(database)} CHARACTER SET utf8mb4"

    def create_table(self, table: ActualTable[ServerType]) -> Sequence[str]:
        """One statement."""
        parts = [self._definition(column) for column in table.columns]
        if table.key:
            parts.append(f"PRIMARY KEY ({', '.join(quoted(part) for part in table.key)})")
        comment = f" COMMENT = {text_literal(table.comment)}" if table.comment else ""
        return [f"CREATE TABLE {self.table_name(table.id)} ({', '.join(parts)}) DEFAULT CHARSET = utf8mb4{comment}"]

    def create_like(self, table: ActualTable[ServerType], new: TableId) -> Sequence[str]:
        """With indexes and options."""
        return [f"CREATE TABLE {self.table_name(new)} LIKE {self.table_name(table.id)}"]

    def rename_table(self, table: TableId, new_name: str) -> str:
        """Inside of its database."""
        return f"RENAME TABLE {self.table_name(table)} TO {self.table_name(TableId(table.database, new_name))}"

    def move_table(self, table: ActualTable[ServerType], new: ActualTable[ServerType]) -> Sequence[str]:
        """With indexes and options. A table with triggers is refused by the server."""
        return [f"RENAME TABLE {self.table_name(table.id)} TO {self.table_name(new.id)}"]

    def rebuild_table(self, operation: op.RebuildTableOp) -> Iterator[Statement]:
        """One ALTER for another key, which leaves all else that the table has; a copy for values that change."""
        old, new = operation.actual, operation.new
        if operation.values or self.flavor == "oceanbase":
            yield from super().rebuild_table(operation)
            return
        assert isinstance(old, ServerTable)
        parts = ["DROP PRIMARY KEY"] if old.key else []
        parts += [f"DROP COLUMN {quoted(column.name)}" for column in old.columns if new.column(column.name) is None]
        # A column of a key may be numbered by the server, which it cannot be outside of one or behind the first place.
        parts += [
            f"MODIFY COLUMN {self._definition(column)}"
            for column in new.columns
            if (old.in_key(column.name) or new.in_key(column.name)) and column.name not in old.generated
        ]
        if new.key:
            parts.append(f"ADD PRIMARY KEY ({', '.join(quoted(part) for part in new.key)})")
        yield Statement(operation.table, f"ALTER TABLE {self.table_name(old.id)} {', '.join(parts)}")

    def comment_table(self, table: ActualTable[ServerType], comment: str) -> str:
        """Another comment, or none."""
        return f"ALTER TABLE {self.table_name(table.id)} COMMENT = {text_literal(comment)}"

    def add_column(
        self, table: ActualTable[ServerType], column: ActualColumn[ServerType], after: str | None
    ) -> Sequence[str]:
        """At its place; rows that are there get the default."""
        place = f" AFTER {quoted(after)}" if after else ""
        (*_, added) = self._short((*table.columns, column), [column] if column.default is None else [])
        default = ""
        if column.default is not None and added.type.name in _TEXTS:
            default = f" DEFAULT ({text_literal(column.default)})"
        return [f"ALTER TABLE {self.table_name(table.id)} ADD COLUMN {self._definition(added)}{default}{place}"]

    def modify_column(self, table: ActualTable[ServerType], column: ActualColumn[ServerType], value: str) -> str:
        """The server converts, as the source's does."""
        if table.in_key(column.name):
            kind = shared_key_type(column.type, len(table.key))
            column = replace(column, type=kind if kind.collation else self._compared_exactly(kind))
        others = [other for other in table.columns if not same(other.name, column.name)]
        (*_, changed) = self._short((*others, column), [] if table.in_key(column.name) else [column])
        return f"ALTER TABLE {self.table_name(table.id)} MODIFY COLUMN {self._definition(changed)}"

    def comment_column(self, table: ActualTable[ServerType], column: ActualColumn[ServerType]) -> str:
        """Part of the definition."""
        return self.modify_column(table, column, "")

    def swap_shadow(self, copy: TableId, table: ActualTable[ServerType]) -> Sequence[str]:
        """Both names change in one step, then the old rows go."""
        name, old = self.table_name(table.id), self.table_name(self._replaced(table.id))
        return [
            f"DROP TABLE IF EXISTS {old}",
            f"RENAME TABLE {name} TO {old}, {self.table_name(copy)} TO {name}",
            f"DROP TABLE IF EXISTS {old}",
        ]

    def _replaced(self, table: TableId) -> TableId:
        return TableId(table.database, f"{self.copy_of(table).table}_old")

    def copy_of(self, table: TableId) -> TableId:
        """A name that fits, however long the table's is."""
        digest = hashlib.sha256(str(table).encode()).hexdigest()[:12]
        return TableId(table.database, f"cdc_rebuild_{digest}")

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
    """`DEFAULT 7`, or nothing where the text is no constant of the type or the type takes no default.

    Every row comes whole from the source, so a default matters only for rows that are there when a column is added.
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


def shortened(
    columns: Sequence[ActualColumn[ServerType]], changeable: Sequence[ActualColumn[ServerType]]
) -> tuple[ActualColumn[ServerType], ...]:
    """The columns, the longest `changeable` ones as TEXT or BLOB where a row of all would be too long for a server.

    A VARCHAR of another character set takes up to four times as many bytes in utf8mb4, so a table that the source has
    may be too long here; a TEXT takes next to nothing of the row.
    """
    found = list(columns)
    lengths = [_length(column.type) for column in found]
    places = [place for place, column in enumerate(found) if column in changeable and column.type.name in _OUTSIDE]
    for place in sorted(places, key=lambda place: -lengths[place]):
        if sum(lengths) <= _MOST:
            break
        own = ServerType(_OUTSIDE[found[place].type.name], found[place].type.collation)
        found[place], lengths[place] = replace(found[place], type=own, default=None), _OF_TEXT
    return tuple(found)


def stays_outside(actual: ServerType, kinds: tuple[Kind, Kind]) -> bool:
    """Whether a column that was made a text stays one, when its type in the source was and is a VARCHAR."""
    texts = {"text": Kind.VARCHAR, "blob": Kind.VARBINARY}
    return kinds == (texts.get(actual.text), texts.get(actual.text))


def _length(kind: ServerType) -> int:
    parsed = parse_column_type(kind.text)
    length = parsed.length or 1
    if parsed.type in ("varchar", "char"):
        return 4 * length + 2
    if parsed.type in ("varbinary", "binary"):
        return length + 2
    return 30 if parsed.type == "decimal" else _OF_TEXT
