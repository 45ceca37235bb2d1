"""Parses ALTER TABLE, clause by clause.

Source of the grammar: the manual's page ALTER TABLE of MySQL 9.7 and of MariaDB. Clauses about indexes, constraints,
partitions and storage are recognized by their first words and skipped; anything else is Unreadable.
"""

from __future__ import annotations

from cdc.schema import LAST, Position
from connectors.shared.ddl.charsets import charset_name, charset_of
from connectors.shared.ddl.columns import parse_column, parse_column_body, parse_default
from connectors.shared.ddl.create import Elements, parse_elements, parse_key_or_constraint, primary_key
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.options import parse_option
from connectors.shared.ddl.statements import (
    AddColumnClause,
    AddPrimaryKeyClause,
    AlterTableStatement,
    ChangeColumnClause,
    Clause,
    ConvertClause,
    DropColumnClause,
    DropPrimaryKeyClause,
    MoveRowsClause,
    NotNullClause,
    OptionsClause,
    RenameColumnClause,
    RenameToClause,
    SetDefaultClause,
    TableOptions,
    VersioningClause,
    VisibilityClause,
)

_PARTITION_VERBS = (
    "TRUNCATE", "ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR", "COALESCE", "REORGANIZE", "EXCHANGE", "DISCARD",
    "IMPORT", "REMOVE", "UPGRADE",
)  # fmt: skip


def parse_alter_table(cursor: Cursor, *, ignore: bool = False) -> AlterTableStatement:
    """Parse everything after `ALTER [ONLINE] [IGNORE] TABLE`. IGNORE deletes rows with a duplicate unique key."""
    if_exists = cursor.accept("IF", "EXISTS")
    table = cursor.table()
    cursor.accept_wait()
    clauses: list[Clause] = [MoveRowsClause("ALTER IGNORE", brings=False)] if ignore else []
    periods: dict[str, tuple[str, ...]] = {}
    while not cursor.at_end():
        clauses += _clause(cursor, periods)
        # No comma is needed between table options, nor before partitions at the end.
        cursor.accept_symbol(",")
    return AlterTableStatement(table, tuple(clauses), if_exists)


def _clause(cursor: Cursor, periods: dict[str, tuple[str, ...]]) -> list[Clause]:
    if cursor.at("PARTITION", "BY"):
        cursor.skip_statement()
        return []
    if cursor.at_any(*_PARTITION_VERBS) and cursor.peek(1).word in ("PARTITION", "PARTITIONING", "TABLESPACE"):
        return _rows_moved(cursor)
    if cursor.accept("ADD"):
        return _add(cursor, periods)
    if cursor.accept("MODIFY"):
        return _modify(cursor)
    if cursor.accept("CHANGE"):
        return _change(cursor)
    if cursor.accept("DROP"):
        return _drop(cursor)
    if cursor.accept("ALTER"):
        return _alter(cursor)
    if cursor.accept("RENAME"):
        return _rename(cursor)
    if cursor.accept("CONVERT"):
        return _convert(cursor)
    return _other_clause(cursor)


def _add(cursor: Cursor, periods: dict[str, tuple[str, ...]]) -> list[Clause]:
    if cursor.at("PARTITION"):
        cursor.skip_statement()
        return []
    if cursor.accept("SYSTEM", "VERSIONING"):
        return [VersioningClause(True)]
    elements = Elements(periods=periods)
    if parse_key_or_constraint(cursor, elements):
        return _keys(cursor, elements)
    cursor.accept("COLUMN")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if cursor.at_symbol("("):
        elements = parse_elements(cursor)
        added: list[Clause] = [AddColumnClause(column, LAST, if_not_exists) for column in elements.columns]
        return added + _keys(cursor, elements, if_not_exists)
    column = parse_column(cursor)
    clauses: list[Clause] = [AddColumnClause(column, _position(cursor) or LAST, if_not_exists)]
    if column.primary_key:
        clauses.append(AddPrimaryKeyClause((column.name,), if_not_exists))
    return clauses


def _keys(cursor: Cursor, elements: Elements, if_not_exists: bool = False) -> list[Clause]:
    clauses: list[Clause] = []
    if key := primary_key(cursor, elements):
        clauses.append(AddPrimaryKeyClause(key, if_not_exists))
    if elements.not_null:
        clauses.append(NotNullClause(elements.not_null))
    return clauses


def _modify(cursor: Cursor) -> list[Clause]:
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    return _changed(cursor, cursor.column(), None, if_exists)


def _change(cursor: Cursor) -> list[Clause]:
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    old_name = cursor.column()
    return _changed(cursor, old_name, cursor.column(), if_exists)


def _changed(cursor: Cursor, old_name: str, new_name: str | None, if_exists: bool) -> list[Clause]:
    column = parse_column_body(cursor, old_name if new_name is None else new_name)
    clauses: list[Clause] = [ChangeColumnClause(old_name, column, _position(cursor), if_exists)]
    if column.primary_key:
        clauses.append(AddPrimaryKeyClause((column.name,)))
    return clauses


def _position(cursor: Cursor) -> Position | None:
    if cursor.accept("FIRST"):
        return Position(first=True)
    if cursor.accept("AFTER"):
        return Position(after=cursor.column())
    return None


def _drop(cursor: Cursor) -> list[Clause]:
    if cursor.accept("PRIMARY", "KEY") or cursor.accept("CONSTRAINT", "PRIMARY", "KEY"):
        return [DropPrimaryKeyClause()]
    if cursor.accept("SYSTEM", "VERSIONING"):
        return [VersioningClause(False)]
    if cursor.at("PARTITION"):
        cursor.skip_statement()
        return [MoveRowsClause("DROP PARTITION", brings=False)]
    if cursor.accept("PERIOD", "FOR") or cursor.accept("PERIOD", "IF", "EXISTS", "FOR"):
        cursor.name()
        return []
    if cursor.accept("FOREIGN", "KEY") or cursor.accept("CHECK"):
        cursor.accept("IF", "EXISTS")
        cursor.column()
        return []
    if cursor.accept_any("INDEX", "KEY", "CONSTRAINT"):
        cursor.accept("IF", "EXISTS")
        # The primary key is also an index and a constraint of this name.
        return [DropPrimaryKeyClause()] if cursor.column().upper() == "PRIMARY" else []
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.column()
    cursor.accept_any("RESTRICT", "CASCADE")
    return [DropColumnClause(name, if_exists)]


def _alter(cursor: Cursor) -> list[Clause]:
    if cursor.at_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        cursor.skip_to_comma()
        return []
    cursor.accept("COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.column()
    if cursor.accept("DROP", "DEFAULT"):
        return [SetDefaultClause(name, None, if_exists)]
    cursor.expect("SET")
    if cursor.at_any("VISIBLE", "INVISIBLE"):
        return [VisibilityClause(name, visible=cursor.next().word == "VISIBLE")]
    cursor.expect("DEFAULT")
    return [SetDefaultClause(name, parse_default(cursor), if_exists)]


def _rename(cursor: Cursor) -> list[Clause]:
    if cursor.accept("COLUMN"):
        if_exists = cursor.accept("IF", "EXISTS")
        old_name = cursor.column()
        cursor.expect("TO")
        return [RenameColumnClause(old_name, cursor.column(), if_exists)]
    if cursor.accept_any("INDEX", "KEY"):
        cursor.accept("IF", "EXISTS")
        cursor.name()
        cursor.expect("TO")
        cursor.name()
        return []
    if not cursor.accept_any("TO", "AS"):
        cursor.accept_symbol("=")
    return [RenameToClause(cursor.table())]


def _convert(cursor: Cursor) -> list[Clause]:
    if cursor.at("TABLE") or cursor.at("PARTITION"):
        brings = cursor.next().word == "TABLE"
        if not brings:
            cursor.name()
            cursor.expect("TO", "TABLE")
        other = cursor.table()
        cursor.skip_statement()
        what = "CONVERT TABLE TO PARTITION" if brings else "CONVERT PARTITION TO TABLE"
        return [MoveRowsClause(what, brings, other, makes=not brings, drops=brings)]
    cursor.expect("TO")
    if not (cursor.accept("CHARACTER", "SET") or cursor.accept("CHARSET")):
        cursor.expect("CHAR", "SET")
    charset = None if cursor.accept("DEFAULT") else charset_name(cursor.word_or_string())
    if cursor.accept("COLLATE"):
        cursor.accept_symbol("=")
        charset = charset_of(cursor.word_or_string()) or charset
    return [ConvertClause(charset)]


def _rows_moved(cursor: Cursor) -> list[Clause]:
    verb, noun = cursor.next().word, cursor.next().word
    found: list[Clause] = []
    if verb in ("DISCARD", "IMPORT"):
        found = [MoveRowsClause(f"{verb} TABLESPACE", brings=verb == "IMPORT")]
    elif verb == "EXCHANGE":
        cursor.name()
        cursor.expect("WITH", "TABLE")
        found = [MoveRowsClause("EXCHANGE PARTITION", True, cursor.table())]
    elif verb == "TRUNCATE":
        found = [MoveRowsClause("TRUNCATE PARTITION", brings=False)]
    if found or noun == "PARTITION":
        cursor.skip_statement()
    return found


def _other_clause(cursor: Cursor) -> list[Clause]:
    """Parse table options, and clauses that change neither columns nor key nor name."""
    if cursor.accept("ORDER", "BY"):
        cursor.skip_statement()
        return []
    if cursor.accept_any("FORCE", "SECONDARY_LOAD", "SECONDARY_UNLOAD"):
        return []
    if cursor.accept_any("ENABLE", "DISABLE"):
        cursor.expect("KEYS")
        return []
    if cursor.accept_any("ALGORITHM", "LOCK"):
        cursor.accept_symbol("=")
        cursor.next()
        return []
    if cursor.accept("WITH", "VALIDATION") or cursor.accept("WITHOUT", "VALIDATION"):
        return []
    if cursor.accept("WITH", "SYSTEM", "VERSIONING"):
        return [VersioningClause(True)]
    swallows = cursor.at("ENGINE", "BLACKHOLE") or (cursor.at("ENGINE") and cursor.peek(2).word == "BLACKHOLE")
    options = parse_option(cursor, TableOptions())
    if swallows:
        return [MoveRowsClause("ENGINE=BLACKHOLE", brings=False)]
    if options is None:
        raise cursor.unexpected("a clause of ALTER TABLE")
    return [OptionsClause(options)] if options != TableOptions() else []
