"""ALTER TABLE: read it, check it against the table, carry it out at once or as a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cdc_standins.doris.catalog import Column, Table
from cdc_standins.doris.copy import replace_table
from cdc_standins.doris.create import Definition, check_column_name, check_name, parse_column
from cdc_standins.doris.engine import Engine, view_sql
from cdc_standins.doris.errors import sql_error
from cdc_standins.doris.jobs import Draft, needs_rewrite, submit
from cdc_standins.doris.modify import checked_type_change
from cdc_standins.doris.repair import added_column
from cdc_standins.sql_text import Parser, quoted


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: `kind` is add, drop, modify, comment, table_comment, rename, rename_column, replace."""

    kind: str
    column: Definition | None = None
    name: str = ""
    text: str = ""
    after: str = ""
    properties: dict[str, str] = field(default_factory=dict)


def parse_alter(parser: Parser) -> list[Clause]:
    """The clauses after the table's name. Raises Unparsable, SqlError."""
    clauses = [_clause(parser)]
    while parser.take(","):
        clauses.append(_clause(parser))
    parser.end()
    return clauses


def _clause(parser: Parser) -> Clause:
    if parser.take("ADD"):
        parser.take("COLUMN")
        column = parse_column(parser)
        return Clause("add", column=column, after=parser.name() if parser.take("AFTER") else "")
    if parser.take("DROP"):
        parser.need("COLUMN")
        return Clause("drop", name=parser.name())
    if parser.take("MODIFY"):
        return _modify(parser)
    if parser.take("RENAME"):
        if parser.take("COLUMN"):
            name = parser.name()
            parser.take("TO")
            return Clause("rename_column", name=name, text=parser.name())
        return Clause("rename", text=parser.name())
    if parser.take("REPLACE", "WITH", "TABLE"):
        name = parser.name()
        return Clause("replace", text=name, properties=parser.properties() if parser.take("PROPERTIES") else {})
    raise parser.wrong("a clause of ALTER TABLE that the stand-in knows")


def _modify(parser: Parser) -> Clause:
    if parser.take("COMMENT"):
        return Clause("table_comment", text=parser.string())
    parser.need("COLUMN")
    if parser.peek(1).text.upper() == "COMMENT" and parser.peek(1).kind == "word":
        name = parser.name()
        parser.next()
        return Clause("comment", name=name, text=parser.string())
    return Clause("modify", column=parse_column(parser))


def alter_table(engine: Engine, db: str, name: str, clauses: list[Clause]) -> None:
    """Check all clauses, then carry them out. Raises SqlError; then nothing has changed."""
    with engine.catalog.lock:
        table = engine.catalog.need(db, name)
        if table.busy:
            raise sql_error(f"Table[{name}]'s state(SCHEMA_CHANGE) is not NORMAL. Do not allow doing ALTER ops")
        kinds = {clause.kind for clause in clauses}
        alone = kinds & set(_ALONE)
        if alone:
            if len(clauses) > 1:
                raise sql_error("Alter operation conflicts: only one clause of this kind is allowed in a statement")
            _ALONE[alone.pop()](engine, table, clauses[0])
            return
        draft = Draft(table)
        for clause in clauses:
            {"add": _add_column, "drop": _drop_column, "modify": _modify_column}[clause.kind](draft, clause)
        submit(engine, draft)


def _add_column(draft: Draft, clause: Clause) -> None:
    table, definition = draft.table, clause.column
    assert definition is not None
    check_column_name(definition.name)
    if table.column(definition.name) is not None:
        raise sql_error(f"Can not add column which already exists in base table: {definition.name}")
    if draft.find(definition.name) is not None:
        raise sql_error(f"Repeatedly add column: {definition.name}")
    uid = table.next_uid + draft.added
    draft.added += 1
    column = definition.column(uid, is_key=False)
    draft.insert(column, clause.after)
    if column.default is None and not column.nullable:
        raise sql_error(
            "the stand-in adds no NOT NULL column without a default, as what the server does is not known: "
            + column.name
        )
    draft.statements.append(f"ADD COLUMN {quoted(column.stored)} {added_column(column)}")


def _drop_column(draft: Draft, clause: Clause) -> None:
    table, column = draft.table, draft.find(clause.name)
    if column is None:
        raise sql_error(f"Column does not exists: {clause.name}")
    if column.is_key and table.unique:
        raise sql_error("Can not drop key column in Unique data model table")
    if column.name.lower() in {name.lower() for name in table.hashed_by}:
        raise sql_error(f"Distribution column[{column.name}] cannot be dropped. index[{table.name}]")
    if column.is_key:
        draft.heavy = True
    draft.columns.remove(column)
    draft.statements.append(f"DROP COLUMN {quoted(column.stored)}")


def _modify_column(draft: Draft, clause: Clause) -> None:
    definition = clause.column
    assert definition is not None
    column = draft.find(definition.name)
    if column is None:
        raise sql_error(f"Column[{definition.name}] does not exists")
    nullable = definition.nullable is not False
    changed = replace(
        column, type=definition.type, nullable=nullable, default=definition.default,
        comment=definition.comment or column.comment,
    )  # fmt: skip
    checked_type_change(draft.table, column, changed, says_key=definition.is_key)
    if (changed.type, changed.nullable, changed.comment) == (column.type, column.nullable, column.comment):
        raise sql_error("Nothing is changed. please check your alter stmt.")
    draft.columns[draft.columns.index(column)] = changed
    if needs_rewrite(column, changed):
        draft.heavy = True
    coarser = changed.type.kind == column.type.kind == "DATETIME" and changed.type.scale < column.type.scale
    if changed.type.duck != column.type.duck or coarser:
        draft.statements.append(draft.type_statement(column, changed))


def _rename_table(engine: Engine, table: Table, clause: Clause) -> None:
    if clause.text == table.name:
        raise sql_error(f"Same table name: {clause.text}")
    if engine.catalog.find(table.db, clause.text) is not None:
        raise sql_error(f"Table name[{clause.text}] is already used")
    check_name(engine.catalog, table.db, clause.text)
    renamed = replace(table, name=clause.text)
    drop = f"DROP VIEW IF EXISTS {quoted(table.db)}.{quoted(table.name)}"
    engine.change(renamed, drop, view_sql(renamed))


def _rename_column(engine: Engine, table: Table, clause: Clause) -> None:
    if not table.light:
        raise sql_error(
            "not implemented for table without column unique id, which are created with property 'light_schema_change'."
        )
    column = table.column(clause.name)
    if column is None:
        raise sql_error(f"Column[{clause.name}] does not exists")
    if column.name == clause.text:
        raise sql_error(f"Same column name: {clause.text}")
    taken = table.column(clause.text)
    if taken is not None and taken.uid != column.uid:
        raise sql_error(f"Column name[{clause.text}] is already used")
    check_column_name(clause.text)
    columns = tuple(replace(one, name=clause.text) if one.uid == column.uid else one for one in table.columns)
    hashed_by = tuple(clause.text if name.lower() == column.name.lower() else name for name in table.hashed_by)
    changed = replace(table, columns=columns, hashed_by=hashed_by)
    engine.change(changed, view_sql(changed))


def _comment(engine: Engine, table: Table, clause: Clause) -> None:
    column = table.column(clause.name)
    if column is None:
        raise sql_error(f"Column[{clause.name}] not exists")
    columns = tuple(replace(one, comment=clause.text) if one.uid == column.uid else one for one in table.columns)
    engine.catalog.put(replace(table, columns=columns))


def _table_comment(engine: Engine, table: Table, clause: Clause) -> None:
    engine.catalog.put(replace(table, comment=clause.text))


def _replace(engine: Engine, table: Table, clause: Clause) -> None:
    replace_table(engine, table, clause.text, clause.properties)


_ALONE: dict[str, Callable[[Engine, Table, Clause], None]] = {
    "rename": _rename_table, "rename_column": _rename_column, "comment": _comment, "table_comment": _table_comment,
    "replace": _replace,
}  # fmt: skip


__all__ = ["Clause", "Column", "alter_table", "parse_alter"]
