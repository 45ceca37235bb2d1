"""Conversion of schemas and schema changes to JSON and back. Pure; for state files and the `values` connector.

    schema  {"columns": [{"name": "id", "type": "INT", "nullable": false, "default": "0", "comment": "...",
                          "source_type": "char(2)", "charset": "latin1"}],
             "primary_key": ["id"], "comment": "..."}
    change  {"change": "create.table", "table": "shop.orders", "schema": {...}}
            {"change": "add.column", "table": ..., "column": {...}, "position": "first" | {"after": "id"}}
            {"change": "alter.column.type", "table": ..., "column": {...}, "old": {...}}
            {"change": "rename.column", "table": ..., "old_name": "a", "new_name": "b"}
            {"change": "drop.column", "table": ..., "name": "a"}
            {"change": "alter.primary.key", "table": ..., "primary_key": ["id"]}
            {"change": "rename.table", "table": ..., "new_table": "shop.invoices"}
            {"change": "truncate.table" | "drop.table", "table": ...}
            {"change": "alter.table.comment", "table": ..., "comment": "..."}
            {"change": "create.shadow", "table": ..., "schema": {...}}
            {"change": "swap.shadow", "table": ...}

Keys with their default value (nullable true, no default, no comment, no type or character set of the source, last
position) are omitted. A table id is `db.table`, or `{"database": ..., "table": ...}` when the database name has a dot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cdc.schema import (
    LAST,
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropColumn,
    DropShadow,
    DropTable,
    Position,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)

Json = dict[str, Any]
_COLUMN_TEXTS = ("comment", "source_type", "charset")


def table_to_json(table: TableId) -> str | Json:
    """Return `db.table`, or an object when that text would be read back as another id."""
    text = str(table)
    return text if TableId.parse(text) == table else {"database": table.database, "table": table.table}


def table_from_json(value: object) -> TableId:
    """Read the id that `table_to_json` wrote. Raises ValueError."""
    if isinstance(value, str):
        return TableId.parse(value)
    if isinstance(value, Mapping):
        return TableId(_text(value, "database"), _text(value, "table"))
    raise ValueError(f"a table id is text such as shop.orders, got {value!r}")


def column_to_json(column: Column) -> Json:
    """Convert a column to an object."""
    value: Json = {"name": column.name, "type": str(column.type)}
    if not column.nullable:
        value["nullable"] = False
    if column.default is not None:
        value["default"] = column.default
    return value | {name: text for name in _COLUMN_TEXTS if (text := getattr(column, name))}


def column_from_json(value: object) -> Column:
    """Read the column that `column_to_json` wrote. Raises ValueError with the reason."""
    fields = _fields(value, "a column", {"name", "type", "nullable", "default", *_COLUMN_TEXTS})
    nullable, default = fields.get("nullable", True), fields.get("default")
    if not isinstance(nullable, bool):
        raise ValueError(f"nullable must be true or false, got {nullable!r}")
    if default is not None and not isinstance(default, str):
        raise ValueError(f"default must be text, got {default!r}")
    data_type = DataType.parse(_text(fields, "type"))
    return Column(
        _text(fields, "name"), data_type, nullable, default, *(_text(fields, key, "") for key in _COLUMN_TEXTS)
    )


def schema_to_json(schema: TableSchema) -> Json:
    """Convert a table schema to an object."""
    value: Json = {"columns": [column_to_json(column) for column in schema.columns]}
    if schema.primary_key:
        value["primary_key"] = list(schema.primary_key)
    if schema.comment:
        value["comment"] = schema.comment
    return value


def schema_from_json(value: object) -> TableSchema:
    """Read the schema that `schema_to_json` wrote. Raises ValueError with the reason."""
    fields = _fields(value, "a schema", {"columns", "primary_key", "comment"})
    columns = fields.get("columns")
    if not isinstance(columns, list):
        raise ValueError("a schema needs a list of columns")
    names = tuple(column_from_json(column) for column in columns)
    return TableSchema(names, _names(fields), _text(fields, "comment", ""))


def change_to_json(change: SchemaChange) -> Json:
    """Convert a schema change to an object; `change` names its kind."""
    name, parts = _KINDS[type(change)]
    values = {key: part.write(getattr(change, key)) for key, part in parts.items()}
    fields = {key: value for key, value in values.items() if value is not None}
    return {"change": name, "table": table_to_json(change.table), **fields}


def change_name(change: SchemaChange) -> str:
    """Return the name of a change in filters and messages, such as `add.column`."""
    return _KINDS[RenameColumn if isinstance(change, RenameColumns) else type(change)][0]


CHANGE_WORDS = ("add", "alter", "create", "drop", "rename", "truncate", "column", "table", "all")
"""Words that filters accept for all changes with that word in their name; `all` means every change."""


def change_from_json(value: object) -> SchemaChange:
    """Read the change that `change_to_json` wrote. Raises ValueError with the reason."""
    if not isinstance(value, Mapping):
        raise ValueError(f"a schema change is an object, got {value!r}")
    name = value.get("change")
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ValueError(f"unknown schema change {name!r}; known: {', '.join(_BY_NAME)}")
    kind, parts = _BY_NAME[name]
    fields = _fields(value, str(name), {"change", "table", *parts})
    table = table_from_json(fields.get("table"))
    found: SchemaChange = kind(table, **{key: part.read(fields, key) for key, part in parts.items()})
    return found


def _position(value: object) -> Position:
    if value is None:
        return LAST
    if value == "first":
        return Position(first=True)
    if isinstance(value, Mapping):
        return Position(after=_text(_fields(value, "a position", {"after"}), "after"))
    raise ValueError(f'a position is "first" or {{"after": column}}, got {value!r}')


def _fields(value: object, kind: str, known: set[str]) -> Json:
    if not isinstance(value, Mapping):
        raise ValueError(f"{kind} is an object, got {value!r}")
    unknown = [key for key in value if key not in known]
    if unknown:
        raise ValueError(f"{kind} has no key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return dict(value)


def _names(fields: Mapping[str, Any], key: str = "primary_key") -> tuple[str, ...]:
    names = fields.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} must be a list of column names, got {names!r}")
    return tuple(names)


def _pairs(fields: Mapping[str, Any], key: str) -> tuple[tuple[str, str], ...]:
    found = fields.get(key)
    good = isinstance(found, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(name, str) for name in pair) for pair in found
    )
    if not good:
        raise ValueError(f"{key} must be a list of pairs of old and new names, got {found!r}")
    return tuple((old, new) for old, new in found or ())


def _text(fields: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text, got {value!r}")
    return value


def _options(fields: Json, key: str) -> tuple[tuple[str, str], ...]:
    options = fields.get(key, {})
    if not isinstance(options, Mapping) or not all(isinstance(text, str) for text in options.values()):
        raise ValueError(f"{key} are an object of texts, got {options!r}")
    return tuple(options.items())


@dataclass(frozen=True, slots=True)
class _Member:
    """Writer of one member of a change's object (None: omitted), and its reader from the object by key."""

    write: Callable[[Any], object]
    read: Callable[[Json, str], Any]


def _optional(part: _Member) -> _Member:
    return _Member(
        lambda value: None if value is None else part.write(value),
        lambda fields, key: None if fields.get(key) is None else part.read(fields, key),
    )


_TEXT = _Member(str, _text)
_COLUMN = _Member(column_to_json, lambda fields, key: column_from_json(fields.get(key)))
_SCHEMA = _Member(schema_to_json, lambda fields, key: schema_from_json(fields.get(key)))
_OPTIONS = _Member(lambda pairs: dict(pairs) or None, _options)
_PARTITIONS = _Member(lambda names: list(names) or None, _names)
_PAIRS = _Member(lambda pairs: [list(pair) for pair in pairs], _pairs)
_POSITION = _Member(
    lambda position: None if position == LAST else "first" if position.first else {"after": position.after},
    lambda fields, key: _position(fields.get(key)),
)

_KINDS: dict[type[Any], tuple[str, dict[str, _Member]]] = {
    CreateTable: ("create.table", {"schema": _SCHEMA, "options": _OPTIONS, "partition_keys": _PARTITIONS}),
    AddColumn: ("add.column", {"column": _COLUMN, "position": _POSITION}),
    AlterColumnType: ("alter.column.type", {"column": _COLUMN, "old": _optional(_COLUMN)}),
    RenameColumn: ("rename.column", {"old_name": _TEXT, "new_name": _TEXT}),
    RenameColumns: ("rename.columns", {"names": _PAIRS}),
    DropColumn: ("drop.column", {"name": _TEXT}),
    AlterPrimaryKey: ("alter.primary.key", {"primary_key": _Member(list, _names)}),
    RenameTable: (
        "rename.table",
        {"new_table": _Member(table_to_json, lambda fields, key: table_from_json(fields.get(key)))},
    ),
    TruncateTable: ("truncate.table", {}),
    DropTable: ("drop.table", {}),
    AlterTableComment: ("alter.table.comment", {"comment": _Member(str, lambda fields, key: _text(fields, key, ""))}),
    CreateShadow: ("create.shadow", {"schema": _optional(_SCHEMA), "options": _OPTIONS, "partition_keys": _PARTITIONS}),
    SwapShadow: ("swap.shadow", {"schema": _optional(_SCHEMA)}),
    DropShadow: ("drop.shadow", {}),
}
_BY_NAME = {name: (kind, parts) for kind, (name, parts) in _KINDS.items()}

_NOT_NAMED = (RenameColumns, CreateShadow, SwapShadow, DropShadow)
CHANGE_NAMES = tuple(name for kind, (name, _) in _KINDS.items() if kind not in _NOT_NAMED)
"""The names of the changes of a source's tables."""
