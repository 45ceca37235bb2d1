"""CREATE TABLE: read it, check it as the front end does, make the table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from cdc_standins.doris.catalog import NOW, Catalog, Column, Table
from cdc_standins.doris.engine import Engine, physical_sql, view_sql
from cdc_standins.doris.errors import sql_error
from cdc_standins.doris.types import DorisType, parse_type
from cdc_standins.load_values import convert
from cdc_standins.sql_text import Parser

_TABLE_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9\-_]*")
_COLUMN_NAME = re.compile(r'[_a-zA-Z@0-9\s/][.a-zA-Z0-9_+-/?@#$%^&*"\s,:]{0,255}', re.ASCII)
_LONGEST_TABLE_NAME = 64
_PROPERTIES = {
    "replication_num", "replication_allocation", "enable_unique_key_merge_on_write", "light_schema_change",
    "compression", "storage_format", "bloom_filter_columns",
    "store_row_column", "row_store_columns", "group_commit_interval_ms", "group_commit_data_bytes", "storage_policy",
    "disable_auto_compaction", "in_memory", "enable_single_replica_compaction", "estimate_partition_size",
    "is_being_synced", "storage_medium", "inverted_index_storage_format", "enable_mow_light_delete",
    "min_load_replica_num", "colocate_with", "enable_duplicate_without_keys_by_default",
}  # fmt: skip


@dataclass(slots=True)
class Definition:
    """A column as it is written in DDL."""

    name: str
    type: DorisType
    is_key: bool = False
    nullable: bool | None = None
    default: str | None = None
    comment: str = ""

    def column(self, uid: int, *, is_key: bool) -> Column:
        """The column it makes; checks the default. Raises SqlError."""
        check_default(self)
        return Column(self.name, self.type, uid, is_key, self.nullable is not False, self.default, self.comment)


@dataclass(slots=True)
class Statement:
    """What CREATE TABLE says."""

    name: tuple[str, ...]
    if_not_exists: bool
    columns: list[Definition] = field(default_factory=list)
    model: str = ""
    keys: list[str] = field(default_factory=list)
    comment: str = ""
    hashed_by: list[str] | None = None
    random: bool = False
    buckets: str = "10"
    properties: dict[str, str] = field(default_factory=dict)
    like: tuple[str, ...] = ()


def parse_column(parser: Parser) -> Definition:
    """One column of CREATE or ALTER. Raises Unparsable, SqlError."""
    found = Definition(parser.name(), parse_type(parser))
    while not parser.at_end:
        if parser.take("KEY"):
            found.is_key = True
        elif parser.take("NOT", "NULL"):
            found.nullable = False
        elif parser.take("NULL"):
            found.nullable = True
        elif parser.take("DEFAULT"):
            found.default = _default(parser)
        elif parser.take("COMMENT"):
            found.comment = parser.string()
        elif parser.take("AUTO_INCREMENT"):
            raise sql_error("the stand-in has no auto-increment columns")
        else:
            break
    return found


def _default(parser: Parser) -> str | None:
    if parser.take("NULL"):
        return None
    if parser.take("CURRENT_TIMESTAMP"):
        if parser.take("("):
            if not parser.sees(")"):
                parser.integer()
            parser.need(")")
        return NOW
    sign = "-" if parser.take("-") else ""
    token = parser.next()
    if token.kind == "string" and not sign:
        return token.text
    if token.kind == "number":
        return sign + token.text
    if token.kind == "word" and token.text.upper() in ("TRUE", "FALSE"):
        return token.text.lower()
    raise parser.wrong("a default value")


def check_default(column: Definition) -> None:
    """SqlError when the default is no value of the column's type."""
    kind, default = column.type, column.default
    if default is None or default == NOW:
        if default == NOW and kind.kind not in ("DATETIME", "DATE"):
            raise sql_error(
                "Types other than DATETIME and DATETIMEV2 cannot use current_timestamp as the default value"
            )
        return
    if kind.kind in ("JSON", "VARBINARY"):
        raise sql_error(f"{kind.kind.title()} type column default value just support null")
    _, wrong = convert([default.encode()], kind.loaded)
    if wrong:
        raise sql_error(f"Invalid default value for '{column.name}': {default} is no {kind}")


def parse_create(parser: Parser) -> Statement:
    """CREATE TABLE after these words. Raises Unparsable, SqlError."""
    if_not_exists = parser.take("IF", "NOT", "EXISTS")
    found = Statement(parser.dotted(), if_not_exists)
    if parser.take("LIKE"):
        found.like = parser.dotted()
        parser.end()
        return found
    parser.need("(")
    while True:
        if parser.sees("INDEX") or parser.sees("PRIMARY", "KEY"):
            raise sql_error("the stand-in has no indexes")
        found.columns.append(parse_column(parser))
        if not parser.take(","):
            break
    parser.need(")")
    if parser.take("ENGINE"):
        parser.need("=")
        if parser.name().lower() != "olap":
            raise sql_error("the stand-in has only ENGINE=OLAP")
    for model in ("UNIQUE", "DUPLICATE", "AGGREGATE", "PRIMARY"):
        if parser.take(model, "KEY"):
            found.model, found.keys = model, parser.names()
    if parser.take("COMMENT"):
        found.comment = parser.string()
    if parser.sees("AUTO", "PARTITION") or parser.sees("PARTITION", "BY"):
        raise sql_error("the stand-in has no partitions")
    if parser.take("DISTRIBUTED", "BY"):
        _distribution(parser, found)
    if parser.take("PROPERTIES"):
        found.properties = parser.properties()
    parser.end()
    return found


def _distribution(parser: Parser, found: Statement) -> None:
    if parser.take("RANDOM"):
        found.random = True
    else:
        parser.need("HASH")
        found.hashed_by = parser.names()
    if parser.take("BUCKETS"):
        found.buckets = "AUTO" if parser.take("AUTO") else str(parser.integer())


def create_table(
    engine: Engine, statement: Statement, db: str, like: Table | None = None, *, replication: int = 3
) -> None:
    """Check and make the table, or an empty one of the same definition as `like`. Raises SqlError."""
    catalog, name = engine.catalog, statement.name[-1]
    with catalog.lock:
        catalog.need_database(db)
        if catalog.find(db, name) is not None:
            if statement.if_not_exists:
                return
            raise sql_error(f"Table '{name}' already exists", 1050, "42S01")
        check_name(catalog, db, name)
        if like is None:
            table = _checked(statement, db, catalog, replication)
        else:
            table = replace(like, id=catalog.new_id(), db=db, name=name, generation=0, busy=False)
        engine.change(table, physical_sql(table), view_sql(table))


def check_name(catalog: Catalog, db: str, name: str) -> None:
    """SqlError when a table may not have this name."""
    if not _TABLE_NAME.fullmatch(name):
        raise sql_error(f"Incorrect table name '{name}'. Table name regex is '^{_TABLE_NAME.pattern}$'", 1103, "42000")
    if len(name) > _LONGEST_TABLE_NAME:
        raise sql_error(
            f"Table name length exceeds limit, the length of table name '{name}' is {len(name)} which is "
            f"greater than the configuration 'table_name_length_limit' ({_LONGEST_TABLE_NAME})."
        )
    if any(table.name.lower() == name.lower() and table.name != name for table in catalog.tables(db)):
        raise sql_error(f"the stand-in cannot hold two tables whose names differ only by case: {name}")


def _checked(statement: Statement, db: str, catalog: Catalog, replication: int) -> Table:
    columns, properties = statement.columns, statement.properties
    _check_columns(columns)
    _check_model(statement)
    _check_properties(statement, replication)
    keys = _keys(statement)
    unique = statement.model == "UNIQUE"
    hashed_by = _hashed_by(statement, keys, unique=unique)
    made = tuple(
        definition.column(uid, is_key=definition.name.lower() in {key.lower() for key in keys})
        for uid, definition in enumerate(columns)
    )
    return Table(
        catalog.new_id(), db, statement.name[-1], made, unique, tuple(hashed_by), statement.buckets, properties,
        statement.comment, next_uid=len(made),
    )  # fmt: skip


def _check_columns(columns: list[Definition]) -> None:
    seen: set[str] = set()
    for column in columns:
        lower = column.name.lower()
        if lower in seen:
            raise sql_error(f"Duplicate column name '{column.name}'", 1060, "42S21")
        seen.add(lower)
        check_column_name(column.name)


def check_column_name(name: str) -> None:
    """SqlError when a column may not have this name."""
    if name.upper().startswith("__DORIS_"):
        raise sql_error(f"Disable to create column start with __DORIS_: {name}")
    if not _COLUMN_NAME.fullmatch(name):
        raise sql_error(f"Incorrect column name '{name}'. Column regex is '^{_COLUMN_NAME.pattern}$'", 1166, "42000")
    if name.startswith(("mv_", "mva_")):
        raise sql_error(f"Incorrect column name {name}, column name can't start with 'mv_'/'mva_'")


def _check_model(statement: Statement) -> None:
    if statement.model == "AGGREGATE":
        raise sql_error("the stand-in has no aggregate tables")
    if statement.model == "PRIMARY":
        raise sql_error("mismatched input 'PRIMARY' expecting a key model of Doris")
    order = [column.name.lower() for column in statement.columns]
    for at, key in enumerate(statement.keys):
        if key.lower() not in order:
            raise sql_error(f"Key column[{key}] doesn't exist.")
        found = statement.columns[at].name if at < len(order) else ""
        if found.lower() != key.lower():
            raise sql_error(
                "Key columns should be a ordered prefix of the schema. "
                f"KeyColumns[{at}] (starts from zero) is {key}, but corresponding column is {found} "
                "in the previous columns declaration."
            )
    for column in statement.columns[: len(statement.keys)]:
        check_key_type(column.name, column.type)


def check_key_type(name: str, kind: DorisType) -> None:
    """SqlError when a column of this type cannot be a key."""
    if kind.kind == "STRING":
        raise sql_error(f"String Type should not be used in key column[{name}].")
    if kind.kind in ("FLOAT", "DOUBLE"):
        raise sql_error("Float or double can not used as a key, use decimal instead.")
    if kind.kind in ("JSON", "VARBINARY"):
        raise sql_error(f"{kind.kind} type should not be used in key column[{name}].")


def _check_properties(statement: Statement, replication: int) -> None:
    for name in statement.properties:
        if name.startswith("function_column."):
            raise sql_error("the stand-in has no sequence columns")
        if name not in _PROPERTIES and not name.startswith(("dynamic_partition.", "binlog.")):
            raise sql_error(f"Unknown properties: {{{name}={statement.properties[name]}}}")
    text = statement.properties.get("replication_num")
    if text is None and "replication_allocation" in statement.properties:
        text = statement.properties["replication_allocation"].rpartition(":")[2].strip()
    number = replication if text is None else int(text) if text.isdigit() else -1
    if number < 1:
        raise sql_error(f"Replication num should greater than 0: {text}")
    if number > 1:
        raise sql_error(
            "replication num should be less than the number of available backends. "
            f"replication num is {number}, available backend num is 1"
        )


def _keys(statement: Statement) -> list[str]:
    if statement.keys:
        return statement.keys
    if statement.properties.get("enable_duplicate_without_keys_by_default", "").lower() == "true":
        return []
    keys: list[str] = []
    for column in statement.columns:  # the first three columns at most, up to the first that cannot be a key
        if len(keys) == 3 or column.type.kind in ("STRING", "FLOAT", "DOUBLE", "JSON", "VARBINARY"):
            break
        keys.append(column.name)
        if column.type.kind == "VARCHAR":
            break
    if not keys:
        raise sql_error("The olap table first column could not be float, double, string or array, struct, map, "
                        "please use decimal or varchar instead.")  # fmt: skip
    return keys


def _hashed_by(statement: Statement, keys: list[str], *, unique: bool) -> list[str]:
    if unique and (statement.random or statement.hashed_by is None):
        raise sql_error("Create unique keys table should not contain random distribution desc")
    known = {column.name.lower(): column for column in statement.columns}
    for name in statement.hashed_by or ():
        if name.lower() not in known:
            raise sql_error(f"Distribution column({name}) doesn't exist.")
        if unique and name.lower() not in {key.lower() for key in keys}:
            raise sql_error(f"Distribution column[{name}] is not key column")
        if known[name.lower()].type.kind in ("FLOAT", "DOUBLE", "JSON"):
            raise sql_error(f"Floating point type should not be used in distribution column[{name}].")
        if known[name.lower()].type.kind == "STRING":
            raise sql_error(f"String Type should not be used in distribution column[{name}].")
    return list(statement.hashed_by or ())
