"""Applies each kind of statement to the catalog."""

from __future__ import annotations

from dataclasses import replace

from cdc.errors import SchemaUnknown, UnsupportedChange
from cdc.schema import DropTable, TableId, TruncateTable
from connectors.mysql.ddl.definition import altered, created
from connectors.mysql.ddl.delta import UNDEFINED, UNREAD
from connectors.mysql.ddl.renames import rename_tables
from connectors.mysql.ddl.versions import with_own_versions
from connectors.mysql.ddl.work import COPY_IT, StatementWork
from connectors.mysql.table import MySqlTable
from connectors.shared.ddl.statements import (
    AlterDatabaseStatement,
    AlterTableStatement,
    CreateDatabaseStatement,
    CreateSequenceStatement,
    CreateTableStatement,
    CreateViewStatement,
    DropDatabaseStatement,
    DropTableStatement,
    DropViewStatement,
    MoveRowsClause,
    OptionsClause,
    RenameTableStatement,
    RenameToClause,
    Statement,
    TruncateStatement,
    VersioningClause,
    renamed,
)

_MISSING_HINT = (
    "the log began after the table was made, or its definition was read too late: start from a position after this one"
)


def carry_out(statement: Statement, work: StatementWork) -> None:
    """Apply the statement. Raises UnsupportedChange or SchemaUnknown; kinds without effect do nothing."""
    match statement:
        case CreateTableStatement():
            _create_table(statement, work)
        case AlterTableStatement():
            _alter_table(statement, work)
        case RenameTableStatement(pairs=pairs):
            rename_tables([(work.known.known_name(old), work.known.known_name(new)) for old, new in pairs], work)
        case DropTableStatement(tables=tables):
            for table in map(work.known.known_name, tables):
                if not statement.sequences or work.table(table) is None:
                    _drop_table(table, work)
        case TruncateStatement(table=table):
            table = work.known.known_name(table)
            if work.captures(table) and work.table(table) is not None:
                work.changes.append(TruncateTable(table))
        case CreateSequenceStatement(table=table, if_not_exists=if_not_exists):
            table = work.known.known_name(table)
            if not if_not_exists or work.table(table) is None:
                _become_sequence(table, work)
        case CreateViewStatement(table=table):
            _create_view(work.known.known_name(table), work)
        case DropViewStatement(tables=tables):
            for table in tables:
                work.remove_mark(work.known.known_name(table), "view")
        case CreateDatabaseStatement():
            _create_database(statement, work)
        case AlterDatabaseStatement(database=database, charset=charset):
            if charset is not None:
                work.databases[_database(database, work)] = charset
        case DropDatabaseStatement(database=database):
            _drop_database(_database(database, work), work)
        case _:
            pass


def _create_table(statement: CreateTableStatement, work: StatementWork) -> None:
    table = work.known.known_name(statement.table)
    old = work.table(table)
    # A table that is not captured may have been there all along without being known.
    # A MySQL server logs the statement also where it did nothing.
    if statement.if_not_exists and (
        old is not None or not work.captures(table) or work.mark(table) in ("view", "unknown")
    ):
        return
    like = None if statement.like is None else work.known.known_name(statement.like)
    if statement.options.sequence or (like is not None and work.mark(like) == "sequence"):
        _become_sequence(table, work)
        return
    new = _created(replace(statement, table=table), work)
    work.put(table, new)
    if not work.captures(table):
        return
    work.free_name(table)
    if old is not None and statement.or_replace:
        work.emit(old, None)
        old = None
    work.emit(old, new)


def _created(statement: CreateTableStatement, work: StatementWork) -> MySqlTable | None:
    """Return the new definition; None when it is unknown and not needed."""
    if statement.like is not None:
        source = work.table(work.known.known_name(statement.like))
        if source is None and work.captures(statement.table):
            raise SchemaUnknown(
                f"it was created like {statement.like}, whose definition is not known",
                where=str(statement.table),
                hint=_MISSING_HINT,
            )
        return None if source is None else replace(source, id=statement.table)
    if statement.select:
        if work.captures(statement.table):
            raise SchemaUnknown(
                "it was created from a query, and the log does not tell all of its columns",
                where=str(statement.table),
                hint="use binlog_format=ROW, where the server logs the whole definition",
            )
        return None
    charset = work.database_charset(statement.table.database)
    return created(statement, database_charset=charset, dialect=work.dialect)


def _alter_table(statement: AlterTableStatement, work: StatementWork) -> None:
    table = work.known.known_name(statement.table)
    old = work.table(table)
    _rows_moved(table, statement, work)
    target = next((new for _, new in renamed(statement)), None)
    if any(isinstance(clause, OptionsClause) and clause.options.sequence for clause in statement.clauses):
        _become_sequence(table, work)
    elif old is None:
        _alter_unknown(table, statement, work)
    else:
        if work.dialect.mariadb:
            statement = with_own_versions(old, statement, captured=work.captures(table))
        _check_versioning(table, statement, work)
        outcome = altered(
            old,
            statement,
            database_charset=work.database_charset(table.database),
            dialect=work.dialect,
            executed_at=work.executed_at,
            tinyint1_as_boolean=work.known.tinyint1_as_boolean,
        )
        if outcome.table != old:
            work.put(table, outcome.table)
        if work.captures(table):
            work.emit(old, outcome.table, outcome.origins, outcome.fills)
            reason = "; ".join(values.reason for values in outcome.uncertain)
            if reason and not work.leave_uncertain(table, reason, same_rows=not outcome.uncertain_key):
                reasons = (values.reason for values in outcome.uncertain if values.unseen)
                lost = "; if it is in the key, changes of such rows do not find them: run `cdc resync`"
                lost = lost if outcome.uncertain_key else ""
                work.notices += [
                    f"{table}: {reason}; the log does not tell what rows already there have{lost}" for reason in reasons
                ]
    if target is not None:
        rename_tables([(table, work.known.known_name(target))], work)


def _check_versioning(table: TableId, statement: AlterTableStatement, work: StatementWork) -> None:
    turned = any(isinstance(clause, VersioningClause) for clause in statement.clauses)
    if turned and work.captures(table) and not work.known.copied_when_uncertain(table):
        raise UnsupportedChange(
            "turning system versioning on or off, or dropping its columns, changes rows in a way that the log does not "
            "hold",
            where=str(table),
            hint=COPY_IT,
        )


def _become_sequence(table: TableId, work: StatementWork) -> None:
    """Make the name a sequence's from here on; a table of that name is dropped."""
    _drop_table(table, work)
    if work.captures(table):
        work.free_name(table)
    work.put_mark(table, "sequence")


def _alter_unknown(table: TableId, statement: AlterTableStatement, work: StatementWork) -> None:
    ends = any(isinstance(clause, OptionsClause) and clause.options.sequence is False for clause in statement.clauses)
    if ends and work.captures(table) and work.mark(table) == "sequence":
        raise SchemaUnknown("the log makes a table of a sequence", where=str(table), hint=COPY_IT)
    changing = [clause for clause in statement.clauses if not isinstance(clause, (RenameToClause, MoveRowsClause))]
    if changing and work.captures(table) and not statement.if_exists and work.mark(table) not in UNDEFINED:
        raise SchemaUnknown("the log alters it, but its definition is not known", where=str(table), hint=_MISSING_HINT)


def _rows_moved(table: TableId, statement: AlterTableStatement, work: StatementWork) -> None:
    for clause in statement.clauses:
        if not isinstance(clause, MoveRowsClause):
            continue
        other = None if clause.other is None else work.known.known_name(clause.other)
        if other is not None and clause.drops:
            _drop_table(other, work)
            other = None
        if other is not None and clause.makes:
            _create_from_rows(table, other, clause.what, work)
            other = None
        brings = clause.brings and work.captures(table)
        concerned = [name for name, moved in ((table, brings), (other, True)) if name is not None and moved]
        left = [name for name in concerned if work.captures(name) and not _is_copied(name, clause.what, work)]
        if left:
            raise UnsupportedChange(
                f"{clause.what} brings rows into a captured table that the log does not hold",
                where=", ".join(map(str, left)),
                hint=COPY_IT,
            )
        if work.captures(table) and not brings and not _is_copied(table, clause.what, work):
            work.notices.append(f"{table}: {clause.what} removed rows that the log does not name; the sink keeps them")


def _create_from_rows(table: TableId, other: TableId, what: str, work: StatementWork) -> None:
    """Create a table with the columns of this one and some of its rows."""
    _create_table(CreateTableStatement(other, like=table), work)
    if work.captures(other) and not _is_copied(other, what, work):
        work.notices.append(f"{other}: {what} made it with rows that the log does not hold; the sink has none of them")


def _is_copied(table: TableId, what: str, work: StatementWork) -> bool:
    """Return whether the table is re-snapshotted, with rows that the log does not hold."""
    return work.leave_uncertain(table, f"{what} brought or removed rows that the log does not hold", same_rows=False)


def _drop_table(table: TableId, work: StatementWork) -> None:
    if work.table(table) is not None and work.captures(table):
        work.changes.append(DropTable(table))
    work.put(table, None)
    work.remove_mark(table, *UNREAD)


def _create_view(view: TableId, work: StatementWork) -> None:
    if work.captures(view) and work.mark(view) is None:
        work.put_mark(view, "view")


def _create_database(statement: CreateDatabaseStatement, work: StatementWork) -> None:
    database = _database(statement.database, work)
    if statement.or_replace:
        _drop_database(database, work)
    known = work.databases.get(database) or work.known.databases.get(database)
    if known is None or not statement.if_not_exists:
        work.databases[database] = statement.charset or work.charset


def _drop_database(database: str, work: StatementWork) -> None:
    for table in work.tables_of(database):
        _drop_table(table, work)
    for name in work.marked(UNDEFINED):
        if name.database == database:
            work.put_mark(name, None)
    if database in work.known.databases or database in work.databases:
        work.databases[database] = None


def _database(name: str, work: StatementWork) -> str:
    return work.known.known_name(TableId(name, "")).database
