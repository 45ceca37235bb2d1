"""Parses the statement at the start of a text: its kind, and its content.

Every statement has a result. Kinds that change no columns, key or name are `Irrelevant` by a list of their first words,
so a new kind of statement is `Unparsed`, never ignored by accident.
"""

from __future__ import annotations

from cdc.schema import TableId
from connectors.shared.ddl.alter import parse_alter_table
from connectors.shared.ddl.charsets import charset_of
from connectors.shared.ddl.create import parse_create_table
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.options import parse_option
from connectors.shared.ddl.statements import (
    AlterDatabaseStatement,
    AlterTableStatement,
    CreateDatabaseStatement,
    CreateSequenceStatement,
    CreateViewStatement,
    DropDatabaseStatement,
    DropPrimaryKeyClause,
    DropTableStatement,
    DropViewStatement,
    Irrelevant,
    RenameTableStatement,
    Statement,
    StatementDml,
    TableOptions,
    TruncateStatement,
    Unparsed,
)
from connectors.shared.ddl.tokens import Unreadable

_IRRELEVANT = frozenset(
    {
        "ANALYZE", "BACKUP", "BEGIN", "BINLOG", "CACHE", "CALL", "CHANGE", "CHECK", "CHECKSUM", "CLONE", "COMMIT",
        "DEALLOCATE", "DESC", "DESCRIBE", "EXECUTE", "EXPLAIN", "FLUSH", "GET", "GRANT", "HANDLER", "HELP",
        "INSTALL", "KILL", "LOCK", "OPTIMIZE", "PREPARE", "PURGE", "RELEASE", "REPAIR", "RESET", "RESIGNAL", "RESTART",
        "REVOKE", "ROLLBACK", "SAVEPOINT", "SET", "SHOW", "SHUTDOWN", "SIGNAL", "START", "STOP", "UNINSTALL",
        "UNLOCK", "USE", "XA", "END",
    }
)  # fmt: skip
_OBJECTS = frozenset(
    {
        "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE", "LOGFILE", "UNDO",
        "RESOURCE", "AGGREGATE", "PACKAGE", "LIBRARY", "ALGORITHM", "DEFINER", "SQL", "MATERIALIZED", "JSON",
        "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "INSTANCE", "PREPARE", "MASKING", "CATALOG",
    }
)  # fmt: skip
_OF_VIEWS = ("VIEW", "ALGORITHM", "DEFINER", "SQL", "JSON", "MATERIALIZED")
"""Words that may follow CREATE before a view's name; DEFINER also precedes other objects."""
_DEFINED = ("VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "AGGREGATE", "PACKAGE")
_DML = ("INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "WITH", "SELECT", "DO")
"""Statements that change rows. A query is logged if a function in it has written."""


def parse(
    sql: str, *, database: str = "", dialect: DdlDialect | None = None, failed: bool = False
) -> tuple[Statement, ...]:
    """Parse the statements in a text; an empty text or one with only comments gives `Irrelevant`.

    A QUERY event has one statement. Irrelevant ones are not read to their end, as a procedure's body contains `;`.

    Args:
        sql: the text of a QUERY event.
        database: the default database of the statement.
        dialect: how the server reads it; None means MySQL with its default sql_mode.
        failed: it failed half-way. MariaDB logs a CREATE OR REPLACE TABLE that dropped the table before it failed.
    """
    cursor = Cursor(sql, dialect or DdlDialect(), database)
    if failed and cursor.accept("CREATE", "OR", "REPLACE", "TABLE"):
        return (DropTableStatement(_table_in_unparsed(sql, database, cursor.dialect)),)
    statements: list[Statement] = []
    try:
        while True:
            while cursor.accept_symbol(";"):
                pass
            if cursor.at_end():
                return tuple(statements) or (Irrelevant("comment"),)
            statements.append(_one(cursor))
            if not cursor.at_end():
                raise cursor.unexpected("the end of the statement")
    except Unreadable as error:
        return (Unparsed(str(error), _table_in_unparsed(sql, database, cursor.dialect)),)


def _one(cursor: Cursor) -> Statement:
    if cursor.accept("SET", "STATEMENT"):
        while not cursor.accept("FOR"):
            if cursor.at_end():
                raise cursor.unexpected("FOR")
            cursor.next()
    word = cursor.peek().word
    if word in ("CREATE", "ALTER", "DROP"):
        cursor.next()
        return {"CREATE": _create, "ALTER": _alter, "DROP": _drop}[word](cursor)
    if word == "RENAME":
        return _rename(cursor)
    if cursor.accept("TRUNCATE"):
        cursor.accept("TABLE")
        statement = TruncateStatement(cursor.table())
        cursor.accept_wait()
        if cursor.accept_any("DROP", "REUSE"):
            cursor.expect("STORAGE")
        return statement
    if word in _DML:
        return _dml(cursor)
    if word in _IRRELEVANT:
        return _irrelevant(cursor, cursor.peek().word)
    if cursor.at_symbol("("):
        cursor.skip_statement()
        return StatementDml("query")
    raise cursor.unexpected("a statement")


def _irrelevant(cursor: Cursor, kind: str) -> Irrelevant:
    cursor.skip_statement()
    return Irrelevant(kind.lower())


def _create(cursor: Cursor) -> Statement:
    or_replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("TEMPORARY"):
        return _irrelevant(cursor, "create temporary")
    if cursor.accept("TABLE"):
        return parse_create_table(cursor, or_replace=or_replace)
    if cursor.accept("SEQUENCE"):
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        sequence = CreateSequenceStatement(cursor.table(), if_not_exists)
        cursor.skip_statement()
        return sequence
    if cursor.accept_any("DATABASE", "SCHEMA"):
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        return CreateDatabaseStatement(cursor.name(), _database_charset(cursor), if_not_exists, or_replace)
    return _create_view(cursor) if cursor.at_any(*_OF_VIEWS) else _object(cursor, "create")


def _create_view(cursor: Cursor) -> Statement:
    """Parse CREATE with words that may precede a view's name."""
    kind = cursor.peek().word
    while not cursor.at_any(*_DEFINED) and not cursor.at_end():
        cursor.next()
    if not cursor.accept("VIEW"):
        return _irrelevant(cursor, f"create {kind}")
    cursor.accept("IF", "NOT", "EXISTS")
    view = CreateViewStatement(cursor.table())
    cursor.skip_statement()
    return view


def _alter(cursor: Cursor) -> Statement:
    cursor.accept_any("ONLINE", "OFFLINE")
    ignore = cursor.accept("IGNORE")
    if cursor.accept("TABLE"):
        return parse_alter_table(cursor, ignore=ignore)
    if cursor.accept_any("DATABASE", "SCHEMA"):
        unnamed = cursor.at_any("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "COMMENT", "ENCRYPTION", "READ")
        name = cursor.database if unnamed else cursor.name()
        return AlterDatabaseStatement(name, _database_charset(cursor))
    if cursor.at("SEQUENCE"):
        return _irrelevant(cursor, "alter sequence")
    return _object(cursor, "alter")


def _drop(cursor: Cursor) -> Statement:
    if cursor.accept("TEMPORARY"):
        return _irrelevant(cursor, "drop temporary")
    if kind := cursor.accept_any("TABLE", "TABLES", "SEQUENCE"):
        return DropTableStatement(_dropped(cursor), sequences=kind == "SEQUENCE")
    if cursor.accept_any("DATABASE", "SCHEMA"):
        cursor.accept("IF", "EXISTS")
        return DropDatabaseStatement(cursor.name())
    if cursor.accept("INDEX"):
        cursor.accept("IF", "EXISTS")
        name = cursor.name()
        cursor.expect("ON")
        table = cursor.table()
        cursor.skip_statement()
        primary = name.upper() == "PRIMARY"
        return AlterTableStatement(table, (DropPrimaryKeyClause(),)) if primary else Irrelevant("drop index")
    if cursor.accept("VIEW"):
        return DropViewStatement(_dropped(cursor))
    return _object(cursor, "drop")


def _dropped(cursor: Cursor) -> tuple[TableId, ...]:
    """Parse the names after DROP TABLE and the like, to the end."""
    cursor.accept("IF", "EXISTS")
    names = [cursor.table()]
    while cursor.accept_symbol(","):
        names.append(cursor.table())
    cursor.accept_wait()
    cursor.accept_any("RESTRICT", "CASCADE")
    return tuple(names)


def _object(cursor: Cursor, verb: str) -> Irrelevant:
    cursor.accept_any("ONLINE", "OFFLINE")
    if not cursor.at_any(*_OBJECTS):
        raise cursor.unexpected(f"something to {verb}")
    return _irrelevant(cursor, f"{verb} {cursor.peek().word}")


def _rename(cursor: Cursor) -> Statement:
    cursor.next()
    if cursor.at("USER"):
        return _irrelevant(cursor, "rename user")
    if not cursor.accept_any("TABLE", "TABLES"):
        raise cursor.unexpected("TABLE")
    cursor.accept("IF", "EXISTS")
    pairs = []
    while True:
        old = cursor.table()
        cursor.accept_wait()
        cursor.expect("TO")
        pairs.append((old, cursor.table()))
        if not cursor.accept_symbol(","):
            return RenameTableStatement(tuple(pairs))


def _database_charset(cursor: Cursor) -> str | None:
    """Return the character set among the options of a database, None without one."""
    options = TableOptions()
    while not cursor.at_end():
        if cursor.accept("READ", "ONLY"):
            cursor.accept_symbol("=")
            cursor.next()
        elif cursor.accept("UPGRADE"):
            cursor.skip_statement()
        else:
            cursor.accept_symbol(",")
            more = parse_option(cursor, options)
            if more is None:
                raise cursor.unexpected("a database option")
            options = more
    return options.charset or (charset_of(options.collation) if options.collation else None)


def _dml(cursor: Cursor) -> Statement:
    """Parse row changes in statement format, with the table if it is plain."""
    kind = cursor.next().word
    tables: tuple[TableId, ...] = ()
    if kind in ("INSERT", "REPLACE"):
        cursor.accept_any("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY")
        cursor.accept("IGNORE")
        cursor.accept("INTO")
        tables = (cursor.table(),)
    elif kind == "LOAD" and not cursor.at_any("DATA", "XML"):
        return _irrelevant(cursor, "load index")
    elif kind == "LOAD":
        while not cursor.at_end() and not cursor.accept("INTO", "TABLE"):
            cursor.next()
        tables = () if cursor.at_end() else (cursor.table(),)
    cursor.skip_statement()
    return StatementDml(kind.lower(), tables)


def _table_in_unparsed(sql: str, database: str, dialect: DdlDialect) -> tuple[TableId, ...]:
    """Return the table of an unreadable ALTER or CREATE TABLE."""
    cursor = Cursor(sql, dialect, database)
    try:
        words = 0
        while not cursor.accept("TABLE"):
            words += 1
            if cursor.at_end() or words > 6:
                return ()
            cursor.next()
        if not cursor.accept("IF", "NOT", "EXISTS"):
            cursor.accept("IF", "EXISTS")
        return (cursor.table(),)
    except Unreadable:
        return ()
