"""Checks that announced rows fit the known definition: columns, types, sizes, signs, names. Pure."""

from __future__ import annotations

from collections.abc import Callable

from cdc.errors import SchemaUnknown
from connectors.mysql.rows import table_map as codes
from connectors.mysql.rows.table_map import TableMapEvent, signedness_without_years
from connectors.mysql.table import GEOMETRIES, MySqlColumn, MySqlTable

_BLOBS = frozenset({"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob", "json"})
_VARYING = frozenset({"varchar", "varbinary", "vector"})
_TYPES: dict[int, frozenset[str]] = {
    codes.TINY: frozenset({"tinyint"}),
    codes.SHORT: frozenset({"smallint"}),
    codes.INT24: frozenset({"mediumint"}),
    codes.LONG: frozenset({"int"}),
    codes.LONGLONG: frozenset({"bigint"}),
    codes.FLOAT: frozenset({"float"}),
    codes.DOUBLE: frozenset({"double"}),
    codes.NEWDECIMAL: frozenset({"decimal"}),
    codes.YEAR: frozenset({"year"}),
    codes.DATE: frozenset({"date"}),
    codes.NEWDATE: frozenset({"date"}),
    codes.TIME_OLD: frozenset({"time"}),
    codes.TIME2: frozenset({"time"}),
    codes.DATETIME_OLD: frozenset({"datetime"}),
    codes.DATETIME2: frozenset({"datetime"}),
    codes.TIMESTAMP_OLD: frozenset({"timestamp"}),
    codes.TIMESTAMP2: frozenset({"timestamp"}),
    codes.BIT: frozenset({"bit"}),
    codes.VARCHAR: _VARYING,
    codes.VAR_STRING: _VARYING,
    codes.VARCHAR_COMPRESSED: frozenset({"varchar", "varbinary"}),
    codes.STRING: frozenset({"char", "binary", "uuid", "inet4", "inet6"}),
    codes.ENUM: frozenset({"enum"}),
    codes.SET: frozenset({"set"}),
    codes.TINY_BLOB: _BLOBS,
    codes.MEDIUM_BLOB: _BLOBS,
    codes.LONG_BLOB: _BLOBS,
    codes.BLOB: _BLOBS,
    codes.BLOB_COMPRESSED: _BLOBS,
    codes.JSON: frozenset({"json"}),
    codes.GEOMETRY: frozenset(GEOMETRIES),
    codes.VECTOR: frozenset({"vector"}),
}
_LENGTH_FIELDS = {"tinyblob": 1, "tinytext": 1, "blob": 2, "text": 2, "mediumblob": 3, "mediumtext": 3}
_INTEGERS = frozenset({codes.TINY, codes.SHORT, codes.INT24, codes.LONG, codes.LONGLONG})
_STRINGS = {"uuid": 16, "inet6": 16, "inet4": 4}
_WIDTHS: dict[int, tuple[int, ...]] = {
    codes.ENUM: (1, 2),
    codes.SET: (1, 2, 3, 4, 8),
    **dict.fromkeys((codes.JSON, codes.GEOMETRY, codes.VECTOR, codes.BLOB_COMPRESSED), (1, 2, 3, 4)),
}
"""Sizes of the value, or of its length field, that a TABLE_MAP may announce."""
OTHER_DEFINITION = (
    "the definition kept for this table is not the one the log was written with; leave it out with tables.exclude "
    "until the log is read to its end, then take it in again, or start with a new state directory"
)


HASH = "DB_ROW_HASH_"
"""Name prefix of MariaDB's hidden columns for long unique keys; the log has names only with full metadata."""
IMPLICIT_KEY = "__#alibaba_rds_row_id#__"
"""Name of the hidden BIGINT that Alibaba Cloud's RDS and PolarDB log at the end of rows of a table without a key."""
_IMPLICIT_KEY_HINT = (
    "on Alibaba Cloud's RDS and PolarDB, rows of a table without a primary key have a hidden column: first give it a "
    f"key, or set binlog_row_metadata=FULL; then, as on other servers: {OTHER_DEFINITION}"
)


def hidden_columns(found: TableMapEvent, columns: int, *, mariadb: bool = True) -> int:
    """Return the number of hidden columns after the first `columns` of a table; 0 when they cannot be hidden ones.

    MariaDB keeps, and logs, a BIGINT with a hash for each unique key that is too long for an index (`UNIQUE (a_text)`).
    An `IMPLICIT_KEY` is known by its name only.
    """
    types, names = found.types[columns:], found.names[columns:]
    hashes = mariadb and all(name.startswith(HASH) for name in names)
    hidden = all(code == codes.LONGLONG for code in types) and (hashes or names == (IMPLICIT_KEY,))
    return len(types) if hidden else 0


def check_definition(table: MySqlTable, found: TableMapEvent, columns: int, where: str) -> None:
    """Raise SchemaUnknown when announced rows of `columns` columns have another definition."""
    if columns != len(table.columns):
        reason = f"rows have {columns} columns, the known definition has {len(table.columns)}"
        more = columns == len(table.columns) + 1 and found.types[-1] == codes.LONGLONG and not found.names
        hint = _IMPLICIT_KEY_HINT if more and not table.primary_key else OTHER_DEFINITION
        raise SchemaUnknown(reason, where=where, hint=hint)
    for index, column in enumerate(table.columns):
        reason = _mismatch(column, found, index)
        if reason:
            message = f"column {index + 1}, {column.name} {column.type}: {reason}"
            raise SchemaUnknown(message, where=where, hint=OTHER_DEFINITION)


def _mismatch(column: MySqlColumn, found: TableMapEvent, index: int) -> str:
    """Return why the column cannot be the announced one, empty when it can."""
    code, metadata = found.types[index], found.metadata[index]
    if column.type not in _TYPES.get(code, frozenset()) and code != codes.TYPED_ARRAY:
        return f"rows have type code {code} there"
    if code in _METADATA_CHECKS and (reason := _METADATA_CHECKS[code](column, metadata)):
        return reason
    if code in _WIDTHS and metadata not in _WIDTHS[code]:
        return f"rows have {metadata} bytes there, which no server writes"
    unsigned = found.unsigned[index]
    differs = code in _INTEGERS and unsigned is not None and unsigned != column.unsigned
    if differs and signedness_without_years(found)[index] != column.unsigned:
        return f"rows are {'unsigned' if unsigned else 'signed'} there, the definition says otherwise"
    if found.names and found.names[index].casefold() != column.name.casefold():
        return f"rows name it {found.names[index]}"
    return ""


def _decimal_mismatch(column: MySqlColumn, metadata: int) -> str:
    digits, scale = 10 if column.length is None else column.length, column.scale or 0
    if metadata == digits << 8 | scale:
        return ""
    return f"rows have DECIMAL({metadata >> 8}, {metadata & 255}) there"


def _fraction_mismatch(column: MySqlColumn, metadata: int) -> str:
    digits = column.length or 0
    return "" if metadata == digits else f"rows have {metadata} fractional digits there, the definition {digits}"


def _bit_mismatch(column: MySqlColumn, metadata: int) -> str:
    bits = column.length or 1
    return "" if metadata == bits else f"rows have BIT({metadata}) there, the definition BIT({bits})"


def _blob_mismatch(column: MySqlColumn, metadata: int) -> str:
    expected = _LENGTH_FIELDS.get(column.type, 4)
    return "" if metadata == expected else f"rows have a {metadata}-byte length field there"


def _string_mismatch(column: MySqlColumn, metadata: int) -> str:
    length = _STRINGS.get(column.type, 1 if column.length is None else column.length)
    return "" if column.type == "char" or metadata == length else f"rows have {metadata} bytes there"


_METADATA_CHECKS: dict[int, Callable[[MySqlColumn, int], str]] = {
    codes.NEWDECIMAL: _decimal_mismatch,
    **dict.fromkeys((codes.TIME2, codes.DATETIME2, codes.TIMESTAMP2), _fraction_mismatch),
    codes.BIT: _bit_mismatch,
    codes.BLOB: _blob_mismatch,
    codes.STRING: _string_mismatch,
}
