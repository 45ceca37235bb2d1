"""Schema changes as Doris statements, planned against what is actually there. Nothing is executed here.

Every function takes the layout as it is, returns the steps that are still missing, and leaves the layout as it will be
after them: a change that is already carried out comes to no step at all.

What Doris cannot do in place is done by a copy of the table that takes its place: another key, types that MODIFY
refuses. All columns are nullable, keys too: a zero date of a NOT NULL column arrives as NULL. Defaults are for the rows
that are there when a column is added; rows come whole from the source, so later changes of a default are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from cdc.errors import ChangeRefused
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateTable,
    DropColumn,
    DropTable,
    Position,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TruncateTable,
)
from connectors.doris import ddl
from connectors.doris.catalog import DUPLICATE, UNIQUE, ActualColumn, ActualTable, Layout, same
from connectors.doris.conversion import by_copy, in_place
from connectors.doris.types import WHOLE, SqlType, default_text, holds, wanted
from connectors.shared.sql.client import quoted, text_literal
from connectors.streamload.doubt import Doubt, doubt
from connectors.streamload.respelled import respelled

_RESERVED = ("__doris_",)


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of a change.

    Attributes:
        sql: the statement.
        doubt: set when the statement is a query that must find no row; the change is refused otherwise.
        waits: whether the server may go on with it after it answered, as a schema change job of the table.
    """

    sql: str
    doubt: Doubt | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class DdlRules:
    """What the options say about tables: properties of new ones, the time zone of instants."""

    properties: Mapping[str, str]
    zone: str = "UTC"


class Planner:
    """Plans changes in order over one layout."""

    def __init__(self, layout: Layout, rules: DdlRules) -> None:
        self._layout, self._rules = layout, rules

    def steps(self, change: SchemaChange) -> Iterator[Step]:
        """The steps that are still missing for one change. Raises ChangeRefused."""
        match change:
            case CreateTable():
                yield from self._create(change)
            case DropTable(table=table):
                if self._layout.get(table) is not None:
                    yield Step(f"DROP TABLE {ddl.full_name(table)}")
                    self._layout.remove(table)
            case RenameTable():
                yield from self._rename(change)
            case TruncateTable(table=table):
                if self._layout.get(table) is not None:
                    yield Step(f"TRUNCATE TABLE {ddl.full_name(table)}")
            case AlterTableComment(table=table, comment=comment):
                yield from self._comment(self._table(table), comment)
            case AlterPrimaryKey(table=table, primary_key=key):
                yield from self._alter_key(self._table(table), key)
            case AddColumn(column=column, position=position):
                yield from self._add(self._table(change.table), column, position)
            case AlterColumnType(column=column, old=old):
                yield from self._alter(self._table(change.table), column, old)
            case RenameColumn(old_name=old_name, new_name=new_name):
                yield from self._rename_column(self._table(change.table), old_name, new_name)
            case DropColumn(name=name):
                yield from self._drop_column(self._table(change.table), name)

    # tables

    def _create(self, change: CreateTable) -> Iterator[Step]:
        for column in change.schema.columns:
            _check_name(change.table, column.name)
        actual = self._layout.get(change.table)
        if actual is not None:
            yield from self._reconcile(actual, change)
            return
        if change.table.database not in self._layout.databases:
            yield Step(ddl.create_database(change.table.database))
        table = self._new_table(change)
        yield Step(ddl.create_table(table, self._rules.properties))
        self._layout.put(table)

    def _new_table(self, change: CreateTable) -> ActualTable:
        schema = change.schema
        columns = [
            self._wanted(column, key=any(same(part, column.name) for part in schema.primary_key))
            for column in schema.columns
        ]
        model = UNIQUE if schema.primary_key else DUPLICATE
        key = schema.primary_key
        table = ActualTable(change.table, tuple(columns), model, key, schema.comment, distribution=key)
        return replace(table, columns=_keys_first(table))

    def _reconcile(self, actual: ActualTable, change: CreateTable) -> Iterator[Step]:
        schema, where = change.schema, str(change.table)
        if not _same_names(actual.unique_key, schema.primary_key):
            there = f"the unique key ({', '.join(actual.unique_key)})" if actual.unique_key else "no unique key"
            reason = f"exists with {there}, the source has ({', '.join(schema.primary_key)})"
            raise ChangeRefused(reason, where=where, hint="drop it in Doris, or route to another table")
        for column in schema.columns:
            there_ = actual.column(column.name)
            if there_ is not None:
                self._check_holds(actual, column, there_)
        for column in schema.columns:
            if self._table(change.table).column(column.name) is None:
                yield from self._add(self._table(change.table), column, Position())

    def _rename(self, change: RenameTable) -> Iterator[Step]:
        actual, there = self._layout.get(change.table), self._layout.get(change.new_table)
        if actual is None and there is not None:
            return
        actual = self._table(change.table)
        if change.table.database != change.new_table.database:
            reason = f"cannot be renamed to {change.new_table}: Doris moves no table to another database"
            raise ChangeRefused(reason, where=str(change.table), hint="route both names to one database")
        if there is not None:
            reason = f"cannot be renamed to {change.new_table}: that table exists"
            raise ChangeRefused(reason, where=str(change.table), hint="drop or rename the other table in Doris")
        yield Step(f"ALTER TABLE {ddl.full_name(change.table)} RENAME {quoted(change.new_table.table)}")
        self._layout.remove(actual.id)
        self._layout.put(replace(actual, id=change.new_table))

    def _comment(self, table: ActualTable, comment: str) -> Iterator[Step]:
        if table.comment != comment:
            yield Step(f"ALTER TABLE {ddl.full_name(table.id)} MODIFY COMMENT {text_literal(comment)}")
            self._layout.put(replace(table, comment=comment))

    def _alter_key(self, table: ActualTable, key: tuple[str, ...]) -> Iterator[Step]:
        if _same_names(table.unique_key, key):
            return
        names = tuple(self._column(table, name).name for name in key)
        columns = tuple(
            replace(column, type=_key_type(column.type)) if column.name in names else column for column in table.columns
        )
        new = replace(table, columns=columns, model=UNIQUE if names else DUPLICATE, key=names)
        new = replace(new, columns=_keys_first(new))
        yield from self._rebuild(table, new, {})

    # columns

    def _add(self, table: ActualTable, column: Column, position: Position) -> Iterator[Step]:
        there = table.column(column.name)
        if there is not None:
            self._check_holds(table, column, there)
            return
        _check_name(table.id, column.name)
        new = self._wanted(column, key=False)
        after = _place(table, position)
        columns = _inserted(table.columns, new, after)
        yield Step(ddl.add_column(table, new, after), waits=True)
        self._layout.put(replace(table, columns=columns))

    def _alter(self, table: ActualTable, column: Column, old: Column | None) -> Iterator[Step]:
        there = self._column(table, column.name)
        key = _in_unique_key(table, there.name)
        new_type = wanted(column.type, key=key)
        before = None if old is None else old.type
        found = doubt(quoted(there.name), column.type, before, native_bytes=False)
        stays = _stays(there.type, column, old, key=key)
        if not stays and not by_copy(there.type, new_type):
            found = Doubt(f"{quoted(there.name)} IS NOT NULL", f"Doris cannot change {there.type} to {new_type}")
        if key and new_type.is_text and old is not None and respelled(column.type, old.type):
            reason = f"keys are text here, and {column.type} values are spelled otherwise than {old.type}"
            found = Doubt(f"{quoted(there.name)} IS NOT NULL", reason)
        if found is not None:
            yield Step(f"SELECT 1 FROM {ddl.full_name(table.id)} WHERE {found.condition} LIMIT 1", found)
        if not stays:
            yield from self._change_type(table, there, new_type)
        there = self._column(self._table(table.id), column.name)
        if there.comment != column.comment:
            yield Step(ddl.comment_column(table, there.name, column.comment))
            self._put_column(table.id, replace(there, comment=column.comment))

    def _change_type(self, table: ActualTable, there: ActualColumn, new_type: SqlType) -> Iterator[Step]:
        new = replace(there, type=new_type)
        if in_place(there.type, new_type) and not table.is_fixed(there.name):
            yield Step(ddl.modify_column(table, new), waits=True)
            self._put_column(table.id, new)
            return
        copied = replace(new, default=None)
        columns = tuple(copied if column is there else column for column in table.columns)
        yield from self._rebuild(
            table, replace(table, columns=columns), {there.name: f"CAST({quoted(there.name)} AS {new_type})"}
        )

    def _rename_column(self, table: ActualTable, old_name: str, new_name: str) -> Iterator[Step]:
        there, taken = table.column(old_name), table.column(new_name)
        if there is None and taken is not None:
            return
        there = self._column(table, old_name)
        if there.name == new_name:
            return
        if taken is not None:
            reason = f"column {old_name} cannot be renamed to {new_name}: that column exists"
            raise ChangeRefused(reason, where=str(table.id), hint="rename or drop the other column in Doris")
        _check_name(table.id, new_name)
        yield Step(f"ALTER TABLE {ddl.full_name(table.id)} RENAME COLUMN {quoted(there.name)} {quoted(new_name)}")
        columns = tuple(replace(column, name=new_name) if column is there else column for column in table.columns)
        key, hashed = (
            tuple(new_name if same(part, there.name) else part for part in names)
            for names in (table.key, table.distribution)
        )
        self._layout.put(replace(table, columns=columns, key=key, distribution=hashed))

    def _drop_column(self, table: ActualTable, name: str) -> Iterator[Step]:
        there = table.column(name)
        if there is None:
            return
        columns = tuple(column for column in table.columns if column is not there)
        if table.is_fixed(name):
            key = tuple(part for part in table.unique_key if not same(part, name))
            new = replace(table, columns=columns, key=key, model=UNIQUE if key else DUPLICATE)
            yield from self._rebuild(table, new, {})
            return
        yield Step(f"ALTER TABLE {ddl.full_name(table.id)} DROP COLUMN {quoted(there.name)}", waits=True)
        self._layout.put(replace(table, columns=columns, key=tuple(p for p in table.key if not same(p, name))))

    def _rebuild(self, old: ActualTable, new: ActualTable, values: Mapping[str, str]) -> Iterator[Step]:
        chosen = [values.get(column.name, quoted(column.name)) for column in new.columns]
        for sql in ddl.rebuild(old, new, chosen, self._rules.properties):
            yield Step(sql)
        self._layout.put(replace(new, distribution=new.unique_key))

    # what is there, and what has to be

    def _wanted(self, column: Column, *, key: bool) -> ActualColumn:
        new = wanted(column.type, key=key)
        default = None if key else default_text(column, new, self._rules.zone)
        return ActualColumn(column.name, new, True, default, column.comment)

    def _put_column(self, table: TableId, column: ActualColumn) -> None:
        actual = self._table(table)
        columns = tuple(column if same(item.name, column.name) else item for item in actual.columns)
        self._layout.put(replace(actual, columns=columns))

    def _table(self, table: TableId) -> ActualTable:
        actual = self._layout.get(table)
        if actual is None:
            hint = "it was dropped or renamed in Doris, or the user lacks SELECT on it; restore it, or start anew"
            raise ChangeRefused("the table does not exist", where=str(table), hint=hint)
        return actual

    def _column(self, table: ActualTable, name: str) -> ActualColumn:
        actual = table.column(name)
        if actual is None:
            hint = "it was dropped or renamed in Doris; add it again"
            raise ChangeRefused(f"there is no column {name}", where=str(table.id), hint=hint)
        return actual

    def _check_holds(self, table: ActualTable, column: Column, there: ActualColumn) -> None:
        key = _in_unique_key(table, there.name)
        if not holds(there.type, column.type, key=key):
            raise ChangeRefused(
                f"column {column.name} exists with type {there.type}, which does not hold the source's {column.type} "
                f"({wanted(column.type, key=key)} in Doris)",
                where=str(table.id),
                hint="change its type in Doris, drop the table, or route to another one",
            )


def _stays(actual: SqlType, column: Column, old: Column | None, *, key: bool) -> bool:
    """Whether the column is left as it is: it holds the new values, and is not one that was made for the old type."""
    new = wanted(column.type, key=key)
    if not holds(actual, column.type, key=key):
        return False
    if actual.is_text and new.is_text:
        return actual.room >= new.room
    if actual.name == new.name or (actual.name in WHOLE and new.name in WHOLE):
        return True
    return old is not None and actual != wanted(old.type, key=key)


def _in_unique_key(table: ActualTable, name: str) -> bool:
    return any(same(part, name) for part in table.unique_key)


def _keys_first(table: ActualTable) -> tuple[ActualColumn, ...]:
    """The key columns in key order, then the others as they are."""
    keys = tuple(column for name in table.unique_key if (column := table.column(name)) is not None)
    return keys + tuple(column for column in table.columns if column not in keys)


def _key_type(actual: SqlType) -> SqlType:
    """What a column's type becomes when the column becomes part of a key."""
    if actual.name == "STRING":
        return SqlType("VARCHAR", 65_533)
    return SqlType("VARCHAR", 32) if actual.name in ("FLOAT", "DOUBLE") else actual


def _place(table: ActualTable, position: Position) -> str | None:
    """Behind which column a value column goes: never among the keys. None means last."""
    last_key = table.key[-1] if table.unique_key else None
    if position.first:
        return last_key
    if position.after is None:
        return None
    there = table.column(position.after)
    if there is None:
        return None
    return last_key if _in_unique_key(table, there.name) else there.name


def _inserted(columns: tuple[ActualColumn, ...], new: ActualColumn, after: str | None) -> tuple[ActualColumn, ...]:
    index = next((number for number, column in enumerate(columns, 1) if column.name == after), len(columns))
    return (*columns[:index], new, *columns[index:])


def _same_names(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    return {name.casefold() for name in left} == {name.casefold() for name in right}


def _check_name(table: TableId, name: str) -> None:
    if name.casefold().startswith(_RESERVED):
        reason = f"column {name}: names that start with __DORIS_ are Doris' own"
        raise ChangeRefused(reason, where=str(table), hint="rename the column in the source")
