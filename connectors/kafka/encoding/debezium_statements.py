"""Messages about statements, as in Debezium's schema change topic, and about truncated tables, as in its row topics."""

from __future__ import annotations

from typing import Any

from cdc.schema import Column, TableId, TableSchema
from connectors.kafka.encoding.debezium import column_schemas, envelope_schema, source_schema
from connectors.kafka.encoding.layout import Naming
from connectors.kafka.encoding.mysql_types import MySqlType, mysql_type, parts_of
from connectors.kafka.encoding.table_changes import TableChange
from connectors.kafka.modes import EncodingModes
from connectors.shared.sql.text import quoted

Schema = dict[str, Any]

_JDBC = {
    "tinyint": 5, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "decimal": 3, "float": 6, "double": 8,
    "bit": -7, "year": 4, "date": 91, "time": 92, "datetime": 93, "timestamp": 2014, "char": 1, "varchar": 12,
    "tinytext": 12, "text": 12, "mediumtext": 12, "longtext": 12, "binary": -2, "varbinary": -3, "tinyblob": 2004,
    "blob": 2004, "mediumblob": 2004, "longblob": 2004, "enum": 1, "set": 1,
}  # fmt: skip
_OTHER = 1111
_TYPES = {"CREATE": "CREATE", "ALTER": "ALTER", "RENAME": "ALTER", "DROP": "DROP"}


def key(change: TableChange, *, with_schema: bool) -> dict[str, Any]:
    """The key of a message, which is the database."""
    return _with_schema({"databaseName": change.table.database}, _KEY, with_schema=with_schema)


def message(change: TableChange, naming: Naming, now_ms: int, *, with_schema: bool) -> dict[str, Any] | None:
    """The message about one table of a statement; None for a TRUNCATE, which Debezium reports only as `op: t`."""
    if change.emptied:
        return None
    table = None if change.after is None else _table(change.after)
    name = f'"{change.table.database}"."{change.table.table}"'
    message = {
        "source": _source(change, naming, now_ms), "ts_ms": now_ms, "databaseName": change.table.database,
        "schemaName": None, "ddl": _ddl(change), "tableChanges": [
            {"type": _TYPES[change.kind], "id": name, "table": table}
        ],
    }  # fmt: skip
    return _with_schema(message, _VALUE, with_schema=with_schema)


def truncated(change: TableChange, naming: Naming, now_ms: int, modes: EncodingModes | None) -> dict[str, Any]:
    """The message that all rows of a table are deleted; with Connect's schema if there are `modes` for it."""
    message = {
        "before": None, "after": None, "source": _source(change, naming, now_ms), "transaction": None, "op": "t",
        "ts_ms": now_ms, "ts_us": now_ms * 1000, "ts_ns": now_ms * 1_000_000,
    }  # fmt: skip
    if modes is None or change.after is None:
        return message
    full = f"{naming.name}.{change.table}"
    return _with_schema(message, envelope_schema(full, column_schemas(change.after, modes)), with_schema=True)


def _source(change: TableChange, naming: Naming, now_ms: int) -> dict[str, Any]:
    """The log position of the statement; a change without a statement looks like a table found by a snapshot."""
    found = change.statement
    ts_ms = now_ms if found is None else found.ts_ms
    return {
        "version": naming.version, "connector": "mysql", "name": naming.name, "ts_ms": ts_ms,
        "snapshot": "true" if found is None else "false", "db": change.table.database, "sequence": None,
        "ts_us": ts_ms * 1000, "ts_ns": ts_ms * 1_000_000, "table": change.table.table,
        "server_id": 0 if found is None else found.server_id, "gtid": (found.gtid or None) if found else None,
        "file": "" if found is None else found.file, "pos": 0 if found is None else found.begin, "row": 0,
        "thread": None, "query": None,
    }  # fmt: skip


def _ddl(change: TableChange) -> str | None:
    """The statement's text; a made-up one for a single table of several, or for a change without a statement."""
    if change.kind == "DROP":
        return f"DROP TABLE {_table_name(change.table)}"
    if change.statement is not None:
        if change.kind == "RENAME" and "," in change.statement.sql:
            return f"RENAME TABLE {_table_name(change.old_table)} TO {_table_name(change.table)}"
        return change.statement.sql
    return None if change.before is not None or change.after is None else _create(change.table, change.after)


def _table_name(table: TableId) -> str:
    return quoted(*filter(None, (table.database, table.table)))


def _create(table: TableId, schema: TableSchema) -> str:
    lines = [
        f"{quoted(column.name)} {mysql_type(column)}{'' if column.nullable else ' NOT NULL'}"
        for column in schema.columns
    ]
    if schema.primary_key:
        lines.append(f"PRIMARY KEY ({','.join(map(quoted, schema.primary_key))})")
    return f"CREATE TABLE {_table_name(table)} (\n  " + ",\n  ".join(lines) + "\n)"


def _table(schema: TableSchema) -> dict[str, Any]:
    columns = [_column(column, position) for position, column in enumerate(schema.columns, 1)]
    return {
        "defaultCharsetName": None, "primaryKeyColumnNames": list(schema.primary_key), "columns": columns,
        "comment": schema.comment or None,
    }  # fmt: skip


def _column(column: Column, place: int) -> dict[str, Any]:
    found = parts_of(column)
    name = found.name.upper() + (" UNSIGNED" if found.unsigned else "")
    return {
        "name": column.name, "jdbcType": _JDBC.get(found.name, _OTHER), "nativeType": None, "typeName": name,
        "typeExpression": name, "charsetName": column.charset or None, "length": _length(found),
        "scale": found.numbers[1] if len(found.numbers) > 1 else None, "position": place, "optional": column.nullable,
        "autoIncremented": False, "generated": False, "comment": column.comment or None,
        "defaultValueExpression": column.default, "enumValues": [_label(label) for label in found.labels] or None,
    }  # fmt: skip


def _label(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _length(found: MySqlType) -> int | None:
    """The length of a column as Debezium counts it: 1 for ENUM; for SET, its labels with commas between them."""
    if found.name == "enum":
        return 1
    if found.name == "set":
        return max(0, 2 * len(found.labels) - 1)
    return found.numbers[0] if found.numbers else None


def _with_schema(payload: dict[str, Any], schema: Schema, *, with_schema: bool) -> dict[str, Any]:
    return {"schema": schema, "payload": payload} if with_schema else payload


def _field(kind: str, name: str, *, optional: bool = True, **more: Any) -> Schema:
    return {"type": kind, **more, "optional": optional, "field": name}


def _struct(name: str, *fields: Schema, optional: bool = False) -> Schema:
    return {"type": "struct", "fields": list(fields), "optional": optional, "name": name, "version": 1}


def _list(name: str, items: Schema, *, optional: bool) -> Schema:
    return {"type": "array", "items": items, "optional": optional, "field": name}


_TEXT: Schema = {"type": "string", "optional": False}
_COLUMN = _struct(
    "io.debezium.connector.schema.Column",
    _field("string", "name", optional=False), _field("int32", "jdbcType", optional=False),
    _field("int32", "nativeType"), _field("string", "typeName", optional=False), _field("string", "typeExpression"),
    _field("string", "charsetName"), _field("int32", "length"), _field("int32", "scale"),
    _field("int32", "position", optional=False), _field("boolean", "optional"), _field("boolean", "autoIncremented"),
    _field("boolean", "generated"), _field("string", "comment"), _field("string", "defaultValueExpression"),
    _list("enumValues", _TEXT, optional=True),
)  # fmt: skip
_TABLE = _struct(
    "io.debezium.connector.schema.Table",
    _field("string", "defaultCharsetName"), _list("primaryKeyColumnNames", _TEXT, optional=True),
    _list("columns", _COLUMN, optional=False), _field("string", "comment"), optional=True,
)  # fmt: skip
_CHANGE = _struct(
    "io.debezium.connector.schema.Change",
    _field("string", "type", optional=False), _field("string", "id", optional=False), {**_TABLE, "field": "table"},
)  # fmt: skip
_VALUE = _struct(
    "io.debezium.connector.mysql.SchemaChangeValue",
    source_schema(), _field("int64", "ts_ms", optional=False), _field("string", "databaseName"),
    _field("string", "schemaName"), _field("string", "ddl"), _list("tableChanges", _CHANGE, optional=False),
)  # fmt: skip
_KEY = _struct("io.debezium.connector.mysql.SchemaChangeKey", _field("string", "databaseName", optional=False))
