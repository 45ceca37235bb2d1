"""Schemas and schema changes as JSON objects, and back. Pure; used by state files and by the `values` connector.

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
            {"change": "copy.table", "table": ..., "schema": {...}}
            {"change": "table.copied", "table": ...}

Keys with their default value (nullable true, no default, no comment, no type or character set of the source, last
position) are left out. A table id is `db.table`, or `{"database": ..., "table": ...}` when the database name has a dot
in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cdc.schema import (
    LAST,
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CopyDropped,
    CopyTable,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    Position,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableCopied,
    TableId,
    TableSchema,
    TruncateTable,
)

Json = dict[str, Any]


def table_to_json(table: TableId) -> str | Json:
    """`db.table`, or an object when that text would be read back as another id."""
    text = str(table)
    return text if TableId.parse(text) == table else {"database": table.database, "table": table.table}


def table_from_json(value: object) -> TableId:
    """The id that `table_to_json` wrote. Raises ValueError."""
    if isinstance(value, str):
        return TableId.parse(value)
    if isinstance(value, Mapping):
        return TableId(_text(value, "database"), _text(value, "table"))
    raise ValueError(f"a table id is text such as shop.orders, got {value!r}")


def column_to_json(column: Column) -> Json:
    """A column as an object."""
    value: Json = {"name": column.name, "type": str(column.type)}
    if not column.nullable:
        value["nullable"] = False
    if column.default is not None:
        value["default"] = column.default
    if column.comment:
        value["comment"] = column.comment
    if column.source_type:
        value["source_type"] = column.source_type
    if column.charset:
        value["charset"] = column.charset
    return value


def column_from_json(value: object) -> Column:
    """The column that `column_to_json` wrote. Raises ValueError with the reason."""
    fields = _fields(value, "a column", {"name", "type", "nullable", "default", "comment", "source_type", "charset"})
    nullable, default = fields.get("nullable", True), fields.get("default")
    if not isinstance(nullable, bool):
        raise ValueError(f"nullable must be true or false, got {nullable!r}")
    if default is not None and not isinstance(default, str):
        raise ValueError(f"default must be text, got {default!r}")
    data_type = DataType.parse(_text(fields, "type"))
    comment, source_type, charset = (_text(fields, key, "") for key in ("comment", "source_type", "charset"))
    return Column(_text(fields, "name"), data_type, nullable, default, comment, source_type, charset)


def schema_to_json(schema: TableSchema) -> Json:
    """A table schema as an object."""
    value: Json = {"columns": [column_to_json(column) for column in schema.columns]}
    if schema.primary_key:
        value["primary_key"] = list(schema.primary_key)
    if schema.comment:
        value["comment"] = schema.comment
    return value


def schema_from_json(value: object) -> TableSchema:
    """The schema that `schema_to_json` wrote. Raises ValueError with the reason."""
    fields = _fields(value, "a schema", {"columns", "primary_key", "comment"})
    columns = fields.get("columns")
    if not isinstance(columns, list):
        raise ValueError("a schema needs a list of columns")
    names = tuple(column_from_json(column) for column in columns)
    return TableSchema(names, _names(fields), _text(fields, "comment", ""))


def change_to_json(change: SchemaChange) -> Json:
    """A schema change as an object; `change` names its kind."""
    value: Json = {"change": _NAMES[type(change)], "table": table_to_json(change.table)}
    match change:
        case CreateTable(schema=schema, options=options, partition_keys=partition_keys):
            value["schema"] = schema_to_json(schema)
            if options:
                value["options"] = dict(options)
            if partition_keys:
                value["partition_keys"] = list(partition_keys)
        case AddColumn(column=column, position=position):
            value["column"] = column_to_json(column)
            if position != LAST:
                value["position"] = "first" if position.first else {"after": position.after}
        case AlterColumnType(column=column, old=old):
            value["column"] = column_to_json(column)
            if old is not None:
                value["old"] = column_to_json(old)
        case RenameColumn(old_name=old_name, new_name=new_name):
            value |= {"old_name": old_name, "new_name": new_name}
        case DropColumn(name=name):
            value["name"] = name
        case AlterPrimaryKey(primary_key=key):
            value["primary_key"] = list(key)
        case RenameTable(new_table=new_table):
            value["new_table"] = table_to_json(new_table)
        case AlterTableComment(comment=comment):
            value["comment"] = comment
        case CopyTable(created=created):
            if created is not None:
                value |= {**change_to_json(created), "change": value["change"]}
        case TruncateTable() | DropTable() | TableCopied() | CopyDropped():
            pass
    return value


def change_name(change: SchemaChange) -> str:
    """What a change is called in files and messages, such as `add.column`."""
    return _NAMES[type(change)]


CHANGE_WORDS = ("add", "alter", "create", "drop", "rename", "truncate", "column", "table")
"""Parts of those names that stand for all changes that have them, in filters."""


def change_from_json(value: object) -> SchemaChange:
    """The change that `change_to_json` wrote. Raises ValueError with the reason."""
    if not isinstance(value, Mapping):
        raise ValueError(f"a schema change is an object, got {value!r}")
    name = value.get("change")
    if name not in _READERS:
        raise ValueError(f"unknown schema change {name!r}; known: {', '.join(_READERS)}")
    keys, read = _READERS[name]
    fields = _fields(value, str(name), {"change", "table", *keys})
    return read(table_from_json(fields.get("table")), fields)


_NAMES: dict[type[SchemaChange], str] = {
    CreateTable: "create.table",
    AddColumn: "add.column",
    AlterColumnType: "alter.column.type",
    RenameColumn: "rename.column",
    DropColumn: "drop.column",
    AlterPrimaryKey: "alter.primary.key",
    RenameTable: "rename.table",
    TruncateTable: "truncate.table",
    DropTable: "drop.table",
    AlterTableComment: "alter.table.comment",
    CopyTable: "copy.table",
    TableCopied: "table.copied",
    CopyDropped: "copy.dropped",
}


def _create_table(table: TableId, fields: Json) -> CreateTable:
    options = fields.get("options", {})
    if not isinstance(options, Mapping) or not all(isinstance(text, str) for text in options.values()):
        raise ValueError(f"options are an object of texts, got {options!r}")
    partition_keys = _names(fields, "partition_keys")
    return CreateTable(table, schema_from_json(fields.get("schema")), tuple(options.items()), partition_keys)


def _add_column(table: TableId, fields: Json) -> SchemaChange:
    return AddColumn(table, column_from_json(fields.get("column")), _position(fields.get("position")))


def _copy_table(table: TableId, fields: Json) -> SchemaChange:
    if fields.get("schema") is None:
        return CopyTable(table)
    created = _create_table(table, fields)
    return CopyTable(table, created.schema, created.options, created.partition_keys)


def _alter_column(table: TableId, fields: Json) -> SchemaChange:
    old = fields.get("old")
    column = column_from_json(fields.get("column"))
    return AlterColumnType(table, column, None if old is None else column_from_json(old))


CHANGE_NAMES = tuple(name for kind, name in _NAMES.items() if kind not in (CopyTable, TableCopied, CopyDropped))
"""What the changes of a source's tables are called."""

_READERS: dict[str, tuple[tuple[str, ...], Callable[[TableId, Json], SchemaChange]]] = {
    "create.table": (("schema", "options", "partition_keys"), _create_table),
    "add.column": (("column", "position"), _add_column),
    "alter.column.type": (("column", "old"), _alter_column),
    "rename.column": (
        ("old_name", "new_name"),
        lambda table, f: RenameColumn(table, _text(f, "old_name"), _text(f, "new_name")),
    ),
    "drop.column": (("name",), lambda table, f: DropColumn(table, _text(f, "name"))),
    "alter.primary.key": (("primary_key",), lambda table, f: AlterPrimaryKey(table, _names(f))),
    "rename.table": (("new_table",), lambda table, f: RenameTable(table, table_from_json(f.get("new_table")))),
    "truncate.table": ((), lambda table, _: TruncateTable(table)),
    "drop.table": ((), lambda table, _: DropTable(table)),
    "alter.table.comment": (("comment",), lambda table, f: AlterTableComment(table, _text(f, "comment", ""))),
    "copy.table": (("schema", "options", "partition_keys"), _copy_table),
    "table.copied": ((), lambda table, _: TableCopied(table)),
    "copy.dropped": ((), lambda table, _: CopyDropped(table)),
}


def _position(value: object) -> Position:
    if value is None:
        return LAST
    if value == "first":
        return Position(first=True)
    if isinstance(value, Mapping):
        return Position(after=_text(_fields(value, "a position", {"after"}), "after"))
    raise ValueError(f'a position is "first" or {{"after": column}}, got {value!r}')


def _fields(value: object, what: str, known: set[str]) -> Json:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is an object, got {value!r}")
    unknown = [key for key in value if key not in known]
    if unknown:
        raise ValueError(f"{what} has no key {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return dict(value)


def _names(fields: Mapping[str, Any], key: str = "primary_key") -> tuple[str, ...]:
    names = fields.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} must be a list of column names, got {names!r}")
    return tuple(names)


def _text(fields: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text, got {value!r}")
    return value
