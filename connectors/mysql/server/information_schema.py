"""Reads the current table definitions of the server, in a few queries however many tables there are.

Sources: MySQL manual "INFORMATION_SCHEMA COLUMNS Table", MariaDB "Information Schema COLUMNS Table". The differences
between the two (defaults, hidden columns of system-versioned tables) are resolved in this file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence

import pymysql

from cdc.errors import SchemaUnknown, SourceError
from cdc.schema import TableId
from connectors.mysql.ddl.defaults import bytes_text, is_bytes
from connectors.mysql.ddl.delta import Mark
from connectors.mysql.ddl.versions import with_versions
from connectors.mysql.server.column_type import parse_column_type, unescape
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import Row, is_mariadb, query, version_number, where_of
from connectors.mysql.table import SYSTEM_DATABASES, MySqlColumn, MySqlTable
from connectors.shared.sql.text import quoted

_DATABASES_ONE_BY_ONE = 50
NOT_CAPTURED = ", ".join(f"'{name}'" for name in sorted(SYSTEM_DATABASES))
"""The system databases as a list in SQL."""
_VERSIONED = "SYSTEM VERSIONED"

_TABLES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION, TABLE_COMMENT FROM information_schema.TABLES "
    f"WHERE TABLE_TYPE IN ('BASE TABLE', '{_VERSIONED}') AND TABLE_SCHEMA NOT IN ({NOT_CAPTURED})"
)
_NAMES = _TABLES.replace(", TABLE_TYPE, TABLE_COLLATION, TABLE_COMMENT", "")
_COLUMNS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, IS_NULLABLE, "
    "CAST(COLUMN_DEFAULT AS BINARY), COLUMN_COMMENT, EXTRA, ORDINAL_POSITION, GENERATION_EXPRESSION "
    "FROM information_schema.COLUMNS WHERE "
)
_KEYS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, SEQ_IN_INDEX FROM information_schema.STATISTICS "
    "WHERE INDEX_NAME = 'PRIMARY' AND "
)
_ESTIMATE = (
    "SELECT TABLE_ROWS, AVG_ROW_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)
_HEX = re.compile(r"0x(?:[0-9A-Fa-f]{2})*")
_DIGITS = re.compile(r"x'((?:[0-9A-Fa-f]{2})*)'")
_GENERATED = re.compile(r"\b(?:VIRTUAL|STORED|PERSISTENT) GENERATED\b|\b(?:VIRTUAL|PERSISTENT)\b", re.IGNORECASE)
_LITERAL = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?|0x[0-9A-Fa-f]*|b'[01]*'|x'[0-9A-Fa-f]*'")

_COLLATION = 3
"""The place in a row of `_TABLES`; it is NULL where the server could not open the table."""
_NOT_FOUND = frozenset({1044, 1049, 1142, 1143, 1146})
"""Errors about a table that does not exist, or not for this account."""

FEW = 20
"""Number of tables that are queried one by one."""


def table_ids(connection: MySqlConnection) -> tuple[TableId, ...]:
    """Return every table visible to the account, sorted; no views, sequences or system databases."""
    return tuple(sorted(TableId(str(row[0]), str(row[1])) for row in query(connection, _NAMES, slow=True)))


def read_databases(connection: MySqlConnection) -> dict[str, str]:
    """Return the default character set of each database, used for later tables without one. Driver."""
    rows = query(
        connection, "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME FROM information_schema.SCHEMATA", slow=True
    )
    return {str(name): _modern(str(charset)) for name, charset in rows if str(name) not in SYSTEM_DATABASES}


def read_no_tables(connection: MySqlConnection, views: Callable[[TableId], bool]) -> dict[TableId, Mark]:
    """Return names that are not tables: the requested views, and MariaDB's sequences, whose state is logged as rows.

    Driver.
    """
    rows = query(
        connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES "
        f"WHERE TABLE_TYPE IN ('SEQUENCE', 'VIEW') AND TABLE_SCHEMA NOT IN ({NOT_CAPTURED})",
        slow=True,
    )
    found = sorted((TableId(str(row[0]), str(row[1])), str(row[2])) for row in rows)
    kinds: tuple[tuple[TableId, Mark], ...] = tuple(
        (name, "sequence" if kind == "SEQUENCE" else "view") for name, kind in found
    )
    return {name: mark for name, mark in kinds if mark == "sequence" or views(name)}


def read_tables(connection: MySqlConnection, captures: Callable[[TableId], bool]) -> dict[TableId, MySqlTable]:
    """Return the definitions of the captured tables, sorted by name. Driver.

    Invisible columns and MySQL's generated invisible primary key are included, since logged rows have them. MariaDB's
    JSON is LONGTEXT, as in the server. A MariaDB table with system versioning has its two row columns, even if they are
    not declared, and its key ends with the second: the log contains every version of a row. Raises SchemaUnknown for a
    definition that is not understood.
    """
    _show_generated_keys(connection)
    rows = {TableId(str(row[0]), str(row[1])): row for row in query(connection, _TABLES, slow=True)}
    chosen = {table: row for table, row in rows.items() if captures(table)}
    databases = sorted({table.database for table in chosen})
    mariadb, select = _columns_as_shown(connection)
    columns = _by_table(rows_of_databases(connection, select, databases), chosen, order=9)
    keys = _by_table(rows_of_databases(connection, _KEYS, databases), chosen, order=3)
    where = where_of(connection)
    found = {
        table: _table(table, row, columns[table], keys.get(table, ()), mariadb=mariadb, where=where)
        for table, row in chosen.items()
        if columns.get(table) and row[_COLLATION]
    }
    if hidden := chosen.keys() - found.keys():  # dropped between the queries, or not to be opened
        one = table_reader(connection)
        found |= {table: definition for table in hidden if (definition := one(table)) is not None}
    return dict(sorted(found.items()))


def estimated_size(connection: MySqlConnection, table: TableId) -> tuple[int, int]:
    """Return the estimated rows of a table and bytes per row; zeros when the server does not know the table."""
    found = query(connection, _ESTIMATE, (table.database, table.table))
    return (int(found[0][0] or 0), int(found[0][1] or 0)) if found else (0, 0)


def read_listed(
    connection: MySqlConnection, tables: Collection[TableId], others: Collection[TableId] = ()
) -> dict[TableId, MySqlTable]:
    """Read the definitions of the existing ones of these tables: few one by one, many together. Executor.

    Of many, a table whose name the server writes in another case is queried alone, if it is none of `others`. Raises as
    `read_tables`.
    """
    wanted = {*tables, *others}
    found = {} if len(wanted) <= FEW else read_tables(connection, wanted.__contains__)
    missing = [table for table in (tables if found else wanted) if table not in found]
    one = table_reader(connection)
    alone = ((table, one(table)) for table in missing)
    return {**found, **{table: definition for table, definition in alone if definition is not None}}


def table_reader(connection: MySqlConnection) -> Callable[[TableId], MySqlTable | None]:
    """Return a function that reads one table's definition, None for a missing table, at no cost for others. Executor.

    MySQL answers as of the session's transaction if that has a view. Both functions raise as `read_tables`.
    """
    _show_generated_keys(connection)
    mariadb, select = _columns_as_shown(connection)

    def shown(name: tuple[str, str]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        rows = query(connection, f"{_TABLES} AND TABLE_SCHEMA = %s AND TABLE_NAME = %s", name)
        return rows, query(connection, f"{select} TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY 10", name)

    def read(table: TableId) -> MySqlTable | None:
        name = (table.database, table.table)
        rows, columns = shown(name)
        if rows and not (columns and rows[0][_COLLATION]) and _is_there(connection, table):
            rows, columns = shown(name)
        if not rows or not columns:
            return None
        keys = query(connection, f"{_KEYS} TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY 4", name)
        return _table(table, rows[0], columns, keys, mariadb=mariadb, where=where_of(connection))

    return read


def _is_there(connection: MySqlConnection, table: TableId) -> bool:
    """Return whether a table exists whose definition is not shown.

    MariaDB, and MySQL before 8.0, show no columns of a table that they cannot open, such as one that is locked for
    longer than `lock_wait_timeout`. Raises SourceError with the reason, SourceUnavailable for the lock.
    """
    try:
        query(connection, f"SELECT 1 FROM {quoted(table.database, table.table)} LIMIT 0")
    except SourceError as error:
        reason = error.__cause__
        if isinstance(reason, pymysql.err.MySQLError) and reason.args[:1] and reason.args[0] in _NOT_FOUND:
            return False
        error.where = f"{table} on {error.where}"
        raise
    return True


def _columns_as_shown(connection: MySqlConnection) -> tuple[bool, str]:
    """Return whether defaults are shown as SQL text (MariaDB since 10.2.7), and the query of columns.

    MySQL before 5.7.6 and MariaDB before 10.2.5 show no expressions of generated columns.
    """
    version = str(query(connection, "SELECT VERSION()")[0][0])
    mariadb, number = is_mariadb(version), version_number(version)
    if number >= ((10, 2, 7) if mariadb else (5, 7, 6)):
        return mariadb, _COLUMNS
    return False, _COLUMNS.replace("GENERATION_EXPRESSION", "''")


def _show_generated_keys(connection: MySqlConnection) -> None:
    """Show generated invisible primary keys, which a server may hide; servers without the variable have none."""
    name = "show_gipk_in_create_table_and_information_schema"
    if query(connection, f"SHOW VARIABLES LIKE '{name}'"):
        query(connection, f"SET SESSION {name} = ON")


def rows_of_databases(
    connection: MySqlConnection, sql: str, databases: Sequence[str], *, column: str = "TABLE_SCHEMA"
) -> Iterator[Row]:
    """Return rows of a query of information_schema, which ends with WHERE or AND, for at least these databases.

    Driver.
    """
    # MariaDB opens only the tables of a database given as a constant; a list makes it open all tables.
    if len(databases) > _DATABASES_ONE_BY_ONE:
        yield from query(connection, f"{sql} {column} NOT IN ({NOT_CAPTURED})", slow=True)
        return
    for database in databases:
        yield from query(connection, f"{sql} {column} = %s", (database,), slow=True)


def _by_table(rows: Iterator[Row], chosen: Collection[TableId], *, order: int) -> dict[TableId, tuple[Row, ...]]:
    found: dict[TableId, list[Row]] = defaultdict(list)
    for row in rows:
        table = TableId(str(row[0]), str(row[1]))
        if table in chosen:
            found[table].append(row)
    return {table: tuple(sorted(some, key=lambda row: int(row[order]))) for table, some in found.items()}


def _table(
    table: TableId, row: Row, columns: Sequence[Row], keys: Sequence[Row], *, mariadb: bool, where: str
) -> MySqlTable:
    try:
        found = tuple(_column(column, mariadb=mariadb) for column in columns)
    except ValueError as error:
        hint = "exclude the table with tables.exclude"
        raise SchemaUnknown(f"{table}: {error}", where=where, hint=hint) from error
    key = tuple(str(row[2]) for row in keys)
    definition = MySqlTable(table, found, key, charset_of(str(row[3] or "utf8mb4")), str(row[4] or ""))
    if row[2] == _VERSIONED and not any(column[10] == "ROW START" for column in columns):
        return with_versions(definition, None)
    return definition


def _column(row: Row, *, mariadb: bool) -> MySqlColumn:
    name, extra = str(row[2]), str(row[8] or "")
    try:
        parsed = parse_column_type(str(row[3]))
    except ValueError as error:
        raise ValueError(f"column {name}: {error}") from error
    column = MySqlColumn(
        name=name,
        type=parsed.type,
        length=parsed.length,
        scale=parsed.scale,
        unsigned=parsed.unsigned,
        charset=_modern(str(row[4])) if row[4] else "binary" if parsed.labels else None,
        labels=parsed.labels,
        nullable=str(row[5]).upper() == "YES",
        default=_default(row[6], parsed.type, parsed.length, extra, mariadb=mariadb),
        comment=str(row[7] or ""),
        generated=bool(_GENERATED.search(extra)),
        auto_increment="auto_increment" in extra.lower(),
    )
    return column.shown(visible=mariadb or "INVISIBLE" not in extra)


def _default(value: object, kind: str, length: int | None, extra: str, *, mariadb: bool) -> str | None:
    """Return the text of a literal default; None without one, and for expressions, which have no fixed value.

    MySQL shows a literal bare and marks expressions in EXTRA; MariaDB shows SQL text: `'a'`, `NULL`, `5`, `uuid()`.
    Bytes are `0x6162` in MySQL, with BINARY unpadded, and themselves in OceanBase; in MariaDB they are text, in newer
    versions `x'6162'`.
    """
    if value is None or _GENERATED.search(extra) or "DEFAULT_GENERATED" in extra:
        return None
    raw = value if isinstance(value, bytes) else str(value).encode()
    text = raw.decode("utf-8", "replace")
    if not mariadb and is_bytes(kind):
        return bytes_text(bytes.fromhex(text[2:]) if _HEX.fullmatch(text) else raw, kind, length)
    if not mariadb:
        return None if kind in ("datetime", "timestamp") and text.upper().startswith("CURRENT_TIMESTAMP") else text
    if is_bytes(kind) and (digits := _DIGITS.fullmatch(text)):
        return bytes_text(bytes.fromhex(digits[1]), kind, length)
    literal = _LITERAL.fullmatch(text)
    shown = unescape(literal[1]) if literal else text if _NUMBER.fullmatch(text) else None
    if shown and is_bytes(kind):
        return bytes_text(shown.encode(), kind, length)
    return shown


def charset_of(collation: str) -> str:
    """`utf8mb4_0900_ai_ci` -> `utf8mb4`."""
    return _modern(collation.partition("_")[0])


def _modern(charset: str) -> str:
    name = charset.lower()
    return "utf8mb3" if name == "utf8" else name
