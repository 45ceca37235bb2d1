"""Online schema changes: what the copy that replaces a table tells about the rows of both.

gh-ost and pt-online-schema-change create a copy of the table, alter it while it is empty, fill it from the table (with
INSERT IGNORE, whatever the session's sql_mode) and swap the names. Only if the log shows all of this, and the copy's
definition determines every value, does the table keep its rows through the swap. The copy is marked while that holds:
`copy` when it was created like the table, `filled` when a tool was seen filling it; gh-ost puts its name into its
statements, pt-online-schema-change creates triggers. A removed mark does not come back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from cdc.schema import TableId
from cdc.types.kinds import RANGES
from connectors.mysql.ddl.certain import uncertain_column
from connectors.mysql.ddl.computed import computed_from, is_retyped, redefinition
from connectors.mysql.ddl.delta import Mark
from connectors.mysql.ddl.resolve import without_display_width
from connectors.mysql.ddl.rewritten import rewritten_by_session
from connectors.mysql.ddl.work import StatementWork
from connectors.mysql.table import MySqlColumn, MySqlTable, data_type
from connectors.shared.ddl.statements import (
    AddColumnClause,
    AlterTableStatement,
    ChangeColumnClause,
    Clause,
    CreateTableStatement,
    DefaultKind,
    DropTableStatement,
    Irrelevant,
    RenameTableStatement,
    Statement,
    TruncateStatement,
)

# gh-ost names its copy _<table>_gho, pt-online-schema-change _<table>_new (with more underscores when that is taken).
_ENDINGS = ("_gho", "_new")
_OF_COPIES: Final[tuple[Mark, ...]] = ("copy", "filled")
_MOST_UNDERSCORES = 10
_GH_OST = re.compile(r"/\*\s*gh-ost\s*\*/", re.IGNORECASE)
_PT_TRIGGER = re.compile(
    r"\bTRIGGER\s+(?:`[^`]+`\.)?`?pt_osc_.*?\bREPLACE\s+INTO\s+`(?P<database>[^`]+)`\.`(?P<table>[^`]+)`",
    re.IGNORECASE | re.DOTALL,
)
_MAY_LOSE_ROWS = re.compile(
    r"\b(?:UNIQUE|SERIAL|CHECK|CONSTRAINT|FOREIGN|REFERENCES|PARTITIONS?|PARTITIONING|TABLESPACE|VERSIONING|IGNORE"
    r"|COLLATE|CHARACTER|CHARSET|CHAR\s+SET|CONVERT|RENAME|UPDATE)\b",
    re.IGNORECASE,
)
"""Words of an ALTER that can make rows fail in the copy, or equal to others; and ON UPDATE, which fills a column."""
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
_COMPUTED = (DefaultKind.NOW, DefaultKind.EXPRESSION)


def is_copy(table: TableId, of: TableId) -> bool:
    """Return whether a table has the name that a tool gives to the copy of another one."""
    return table in _copy_names(of)


def follow_copies(statement: Statement, sql: str, work: StatementWork) -> None:
    """Update the marks of copies of captured tables, after a statement was applied."""
    if not work.known.online_schema_changes:
        return
    match statement:
        case CreateTableStatement(table=table):
            _note_created(work.known.known_name(table), statement, sql, work)
        case AlterTableStatement(table=table):
            table = work.known.known_name(table)
            if not _is_certain(statement, sql):
                work.remove_mark(table, *_OF_COPIES)
            _moved_on(table, work)
        case TruncateStatement(table=table):
            _moved_on(work.known.known_name(table), work)
        case RenameTableStatement(pairs=pairs):
            for pair in pairs:
                for table in map(work.known.known_name, pair):
                    work.remove_mark(table, *_OF_COPIES)
                    _moved_on(table, work)
        case DropTableStatement(tables=tables):
            for table in map(work.known.known_name, tables):
                work.remove_mark(table, *_OF_COPIES)
                _moved_on(table, work)
        case Irrelevant():
            _trigger(sql, work)


def why_uncertain(old: MySqlTable, copy: MySqlTable, work: StatementWork) -> list[str]:
    """Return why the rows of a copy may differ from those of the table it replaces, apart from added columns."""
    if work.mark(copy.id) != "filled":
        return ["the log does not show that the copy which took its place has the same rows"]
    reasons = []
    if old.primary_key != copy.primary_key:
        reasons.append("it has another key")
    elif not old.primary_key:
        reasons.append("without a primary key the tool may have lost rows, or written them twice")
    new, retyped = {column.name.lower(): column for column in copy.columns}, list[str]()
    for column in old.columns:
        found = new.get(column.name.lower())
        reason = f"column {column.name} is gone" if found is None else _why_converted(column, found, work)
        reasons += [reason] if reason else []
        retyped += [column.name] if found is not None and is_retyped(column, found, collated=False) else []
    return [*reasons, *(reason for _, reason in computed_from(copy.columns, retyped))]


def may_rename(old: MySqlTable, copy: MySqlTable, work: StatementWork) -> bool:
    """Return whether a column found only in the copy may hold the values of one found only in the table."""
    names = [{column.name.lower() for column in table.columns} for table in (old, copy)]
    return work.mark(copy.id) not in _OF_COPIES and bool(names[0] - names[1] and names[1] - names[0])


def _copy_names(table: TableId) -> Iterator[TableId]:
    for count in range(1, _MOST_UNDERSCORES + 1):
        for ending in _ENDINGS:
            yield TableId(table.database, f"{'_' * count}{table.table}{ending}")


def _originals(copy: TableId) -> Iterator[TableId]:
    """Yield the tables that a name may be a copy of."""
    ending = next((ending for ending in _ENDINGS if copy.table.endswith(ending)), None)
    if ending is None:
        return
    name = copy.table.removesuffix(ending)
    while name.startswith("_"):
        name = name[1:]
        yield TableId(copy.database, name)


def _note_created(table: TableId, statement: CreateTableStatement, sql: str, work: StatementWork) -> None:
    work.remove_mark(table, *_OF_COPIES)
    _moved_on(table, work)
    copy = work.table(table)
    if copy is None or work.captures(table) or statement.if_not_exists:
        return
    for original in _originals(table):
        found = work.table(original) if work.captures(original) else None
        like = None if statement.like is None else work.known.known_name(statement.like)
        if found is not None and like in (None, original) and _is_defined_like(copy, found):
            work.put_mark(table, "filled" if _GH_OST.search(sql) else "copy")


def _is_defined_like(copy: MySqlTable, table: MySqlTable) -> bool:
    mine, theirs = (tuple(map(without_display_width, found.columns)) for found in (copy, table))
    return mine == theirs and replace(copy, id=table.id, columns=table.columns) == table


def _is_certain(statement: AlterTableStatement, sql: str) -> bool:
    """Return whether the definition covers the statement's whole effect on rows that a tool writes into the copy."""
    return not _MAY_LOSE_ROWS.search(sql) and all(map(_certain_clause, statement.clauses))


def _certain_clause(clause: Clause) -> bool:
    if isinstance(clause, ChangeColumnClause):
        same = clause.old_name.lower() == clause.column.name.lower()
        column = clause.column
        return same and not column.generated and column.type.name not in _TEXTS  # text may get another collation
    if isinstance(clause, AddColumnClause):
        column = clause.column
        if column.default is None:
            return not (column.auto_increment or column.generated or column.type.name == "timestamp")
        return not (column.updated_now or column.default.bracketed or column.default.kind in _COMPUTED)
    return True


def _moved_on(table: TableId, work: StatementWork) -> None:
    """Remove the marks of a table's copies, as the table was changed in a way that tools do not carry over."""
    if work.captures(table):
        for copy in _copy_names(table):
            work.remove_mark(copy, *_OF_COPIES)


def _trigger(sql: str, work: StatementWork) -> None:
    match = _PT_TRIGGER.search(sql) if "pt_osc_" in sql else None
    if match is not None:
        copy = work.known.known_name(TableId(match["database"], match["table"]))
        if work.mark(copy) == "copy":
            work.put_mark(copy, "filled")


def _why_converted(old: MySqlColumn, new: MySqlColumn, work: StatementWork) -> str:
    """Return empty text when every value stays the same and distinct values stay distinct, else the reason."""
    boolean = work.known.tinyint1_as_boolean
    before, after = (data_type(column, tinyint1_as_boolean=boolean) for column in (old, new))
    shape_matters = old.type in ("float", "double") and (old.length, old.scale) != (new.length, new.scale)
    same_kind = old.type == new.type and before.kind is after.kind and not shape_matters
    integers = before.kind in RANGES and after.kind in RANGES
    if not (same_kind or integers) or old.generated != new.generated:
        return f"values of column {old.name} are converted to {after}"
    if new.auto_increment and not old.auto_increment:
        return redefinition(old, new)
    by_session = rewritten_by_session(old, new, work.dialect)
    return by_session or uncertain_column(old, new, strict=False, tinyint1_as_boolean=boolean)
