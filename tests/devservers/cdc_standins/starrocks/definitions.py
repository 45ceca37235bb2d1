"""CREATE TABLE and column definitions: the grammar, and the checks that need no other table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdc_standins.load_values import convert
from cdc_standins.sql_text import Parser
from cdc_standins.starrocks.errors import analyzing, refused
from cdc_standins.starrocks.schema import NOW, Column, Table
from cdc_standins.starrocks.types import KEY_TYPES, SORT_TYPES, TEXT, ColumnType, column_type

LONGEST_NAME = 1024
RESERVED = ("__op", "__row")
_NO_TYPES = ("NOT", "NULL", "DEFAULT", "KEY", "COMMENT", "COLUMN")
_NO_DEFAULT = ("JSON", "VARBINARY")
_PROPERTIES = frozenset(
    {
        "replication_num", "enable_persistent_index", "persistent_index_type", "fast_schema_evolution", "compression",
        "replicated_storage", "bucket_size", "storage_medium", "in_memory", "write_quorum", "colocate_with",
        "storage_format", "mutable_bucket_num",
    }
)  # fmt: skip
_COMPRESSIONS = ("LZ4", "ZSTD", "ZLIB", "SNAPPY", "LZ4_FRAME")
_BOOLEANS = ("enable_persistent_index", "fast_schema_evolution", "replicated_storage", "in_memory")


@dataclass(frozen=True, slots=True)
class Distribution:
    """DISTRIBUTED BY: no columns means RANDOM; `buckets` 0 leaves the number to the server."""

    columns: tuple[str, ...]
    buckets: int = 0


def read_type(source: Parser) -> ColumnType:
    """`VARCHAR(10)`, `DECIMAL(10, 2)`, `INT`."""
    if source.peek().text.upper() in _NO_TYPES:
        raise source.wrong("a type")
    word = source.name()
    parameters: list[int] = []
    if source.take("("):
        parameters.append(source.integer())
        while source.take(","):
            parameters.append(source.integer())
        source.need(")")
    return column_type(word, tuple(parameters))


def read_column(source: Parser) -> Column:
    """`name TYPE [KEY] [NULL | NOT NULL] [DEFAULT "v" | DEFAULT CURRENT_TIMESTAMP | DEFAULT NULL] [COMMENT "c"]`."""
    name = source.name()
    kind = read_type(source)
    key = source.take("KEY")
    not_null = source.take("NOT", "NULL")
    null = not not_null and source.take("NULL")
    default = _read_default(source)
    comment = source.string() if source.take("COMMENT") else ""
    column = Column(name, kind, not not_null, default, comment, key)
    if key and null:
        raise analyzing(f"primary key column[{name}] cannot be nullable")
    check_column(column)
    return column


def check_column(column: Column) -> None:
    """What holds for a column of any table. Raises SqlError."""
    if not column.name or len(column.name) > LONGEST_NAME or column.name != column.name.strip():
        raise analyzing(f"Incorrect column name '{column.name}'")
    if column.default is not None:
        _check_default(column)


def _read_default(source: Parser) -> str | None:
    if not source.take("DEFAULT"):
        return None
    if source.take("NULL"):
        return None
    if source.take("CURRENT_TIMESTAMP"):
        if source.take("("):
            source.need(")")
        return NOW
    return source.string()  # a bare number is a syntax error


def _check_default(column: Column) -> None:
    wrong = f"Invalid default value for '{column.name}'"
    if column.default == NOW:
        if column.type.name != "DATETIME":
            raise analyzing(f"{wrong}: Default function CURRENT_TIMESTAMP for type {column.type} is not supported")
        return
    if column.type.name in _NO_DEFAULT:
        raise analyzing(f"{wrong}: {column.type.name} columns can only have NULL as default")
    if convert([str(column.default).encode()], column.type.loaded)[1]:
        reason = "too long" if column.type.name in TEXT else f"'{column.default}' is no {column.type}"
        raise analyzing(f"{wrong}: {reason}")


def read_create(source: Parser, database: str, name: str, *, backends: int) -> Table:
    """What follows the name in CREATE TABLE. Raises SqlError, or Unparsable."""
    source.need("(")
    columns = [read_column(source)]
    while source.take(","):
        columns.append(read_column(source))
    source.need(")")
    if source.take("ENGINE"):
        source.need("=")
        engine = source.name()
        if engine.lower() != "olap":
            raise analyzing(f"the stand-in knows only ENGINE=OLAP, not {engine}")
    primary, keys = _read_keys(source)
    comment = source.string() if source.take("COMMENT") else ""
    distribution = _read_distribution(source)
    if source.take("ORDER", "BY"):
        source.names()
    properties = source.properties() if source.take("PROPERTIES") else {}
    source.end()
    _check_names(columns, primary=primary)
    columns = _keyed(columns, keys, primary=primary)
    distribution = _distributed(distribution, columns, primary=primary)
    _check_properties(properties, backends)
    return Table(
        0, database, name, tuple(columns), primary, distribution.columns, distribution.buckets, properties, comment
    )


def _read_keys(source: Parser) -> tuple[bool, list[str]]:
    for word in ("UNIQUE", "AGGREGATE"):
        if source.sees(word, "KEY"):
            raise analyzing(f"the stand-in does not know {word} KEY tables")
    if source.take("PRIMARY", "KEY"):
        return True, source.names()
    return False, source.names() if source.take("DUPLICATE", "KEY") else []


def _read_distribution(source: Parser) -> Distribution | None:
    if source.sees("PARTITION", "BY"):
        raise analyzing("the stand-in does not know PARTITION BY")
    if not source.take("DISTRIBUTED", "BY"):
        return None
    if source.take("RANDOM"):
        columns: list[str] = []
    else:
        source.need("HASH")
        columns = source.names()
    buckets = source.integer() if source.take("BUCKETS") else None
    if buckets == 0:
        raise analyzing("Number of hash distribution is zero.")
    return Distribution(tuple(columns), buckets or 0)


def _check_names(columns: Sequence[Column], *, primary: bool) -> None:
    seen = set()
    for column in columns:
        if column.name.lower() in seen:
            raise analyzing(f"Duplicate column name '{column.name}'")
        seen.add(column.name.lower())
        check_reserved(column.name, primary=primary)


def check_reserved(name: str, *, primary: bool) -> None:
    """Names that loads use for themselves. Raises SqlError."""
    if primary and name.lower() in RESERVED:
        raise analyzing(f"Column name '{name}' is reserved for primary key table")


def _keyed(columns: Sequence[Column], keys: Sequence[str], *, primary: bool) -> list[Column]:
    """The columns with their keys marked; without keys those of a DUPLICATE KEY table are chosen by the server."""
    keys = keys or _sort_prefix(columns)
    by_name = {column.name.lower(): column for column in columns}
    for position, key in enumerate(keys):
        column = by_name.get(key.lower())
        if column is None:
            raise analyzing(f"Key column({key}) doesn't exist.")
        if position >= len(columns) or columns[position] is not column:
            raise analyzing(
                "Key columns should be a ordered prefix of the schema. "
                f"KeyColumns[{position}] (starts from zero) is {key}, but corresponding column is "
                f"{columns[position].name if position < len(columns) else 'none'} in the previous columns declaration."
            )
        _check_key(column, primary=primary)
    marked = [replace(column, key=position < len(keys)) for position, column in enumerate(columns)]
    return [replace(column, nullable=False) if primary and column.key else column for column in marked]


def _check_key(column: Column, *, primary: bool) -> None:
    if primary and column.type.name not in KEY_TYPES:
        raise analyzing(f"primary key column[{column.name}] type not supported: {str(column.type).upper()}")
    if column.type.name not in SORT_TYPES:
        raise analyzing(f"Invalid data type of key column '{column.name}': '{column.type.name}'")


def _sort_prefix(columns: Sequence[Column]) -> list[str]:
    chosen: list[str] = []
    for column in columns[:3]:
        if column.type.name not in SORT_TYPES:
            break
        chosen.append(column.name)
        if column.type.name in TEXT:
            break
    if not chosen:
        raise analyzing(f"Data type of first column cannot be {column.type.name}")
    return chosen


def _distributed(given: Distribution | None, columns: Sequence[Column], *, primary: bool) -> Distribution:
    keys = tuple(column.name for column in columns if column.key)
    if given is None:
        return Distribution(keys if primary else ())
    if primary and not given.columns:
        raise analyzing("PRIMARY KEY must use hash distribution")
    by_name = {column.name.lower(): column for column in columns}
    for name in given.columns:
        column = by_name.get(name.lower())
        if column is None:
            raise analyzing(f"Distribution column({name}) doesn't exist.")
        if primary and not column.key:
            raise analyzing(f"The distribution column[{name}] is not key column")
        if column.type.name not in SORT_TYPES:
            raise analyzing(f"{column.type.name} column can not be distribution column")
    return given


def _check_properties(properties: dict[str, str], backends: int) -> None:
    unknown = {name: value for name, value in properties.items() if name not in _PROPERTIES}
    if unknown:
        raise refused(f"Unknown properties: {unknown}")
    for name in _BOOLEANS:
        if properties.get(name, "true").lower() not in ("true", "false"):
            raise analyzing(f"Invalid {name} value: {properties[name]}. It must be true or false")
    compression = properties.get("compression", "LZ4").partition("(")[0].upper()
    if compression not in _COMPRESSIONS:
        raise analyzing(f"unknown compression type: {compression}")
    replicas = properties.get("replication_num", "1")
    if not replicas.isdigit() or int(replicas) < 1:
        raise analyzing(f"Invalid replication_num: {replicas}")
    if int(replicas) > backends:
        raise analyzing(
            f"Table replication num should be less than of equal to the number of available BE nodes. You can change "
            f"this default by setting the replication_num table properties. Current alive backend is {backends}."
        )
