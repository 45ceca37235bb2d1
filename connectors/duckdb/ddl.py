"""Schema changes as DuckDB statements, planned against what is actually there. Nothing is executed here.

Every function takes the layout as it is, returns the statements that are still missing, and leaves the layout as it
will be after them: a change that is already carried out comes to no statement at all.

What DuckDB cannot do in place is done by rebuilding the table: change the type of a key column, drop one, change the
key, move a table to another schema. Columns carry no NOT NULL and no default: every row comes whole from the source,
which has checked both, and a zero date of a NOT NULL column arrives as NULL. New columns go last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

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
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from connectors.duckdb.catalog import ActualColumn, ActualTable, Layout, same
from connectors.duckdb.conversion import conversion, rewrites
from connectors.duckdb.database import Names, quoted
from connectors.duckdb.types import can_be_key, default_literal, duckdb_type, holds, text_literal

OWN_SCHEMA = "_cdc"
RESERVED_PREFIX = "__cdc_"


class Planner:
    """Plans a list of changes in order over one layout."""

    def __init__(self, layout: Layout, names: Names) -> None:
        self._layout, self._name, self._schema_name = layout, names.table, names.schema

    def statements(self, changes: Sequence[SchemaChange]) -> Iterator[tuple[SchemaChange, str]]:
        """The statements that carry out the changes, each with its change. Raises ChangeRefused."""
        for index, change in enumerate(changes):
            if self._layout.get(change.table) is None and self._has_left(change.table, changes[index + 1 :]):
                continue
            for statement in self._plan(change):
                yield change, statement

    def _has_left(self, table: TableId, later: Sequence[SchemaChange]) -> bool:
        """Whether later changes drop the table, or give it a name that is taken and stays so: they are done already."""
        for index, change in enumerate(later):
            if change.table != table or not isinstance(change, RenameTable | DropTable):
                continue
            if isinstance(change, DropTable):
                return True
            table = change.new_table
            if self._layout.get(table) is not None:
                return not any(
                    isinstance(other, RenameTable | DropTable) and other.table == table for other in later[:index]
                )
        return False

    def _plan(self, change: SchemaChange) -> Iterator[str]:
        match change:
            case CreateTable():
                yield from self._create(change)
            case DropTable(table=table):
                yield from self._drop(table)
            case RenameTable():
                yield from self._rename(change)
            case TruncateTable(table=table):
                if self._layout.get(table) is not None:
                    yield f"TRUNCATE {self._name(table)}"
            case AlterTableComment(table=table, comment=comment):
                yield from self._comment(self._table(table), comment)
            case AlterPrimaryKey(table=table, primary_key=key):
                yield from self._alter_key(self._table(table), key)
            case _:
                yield from self._change_column(self._table(change.table), change)

    def _change_column(
        self, table: ActualTable, change: AddColumn | AlterColumnType | RenameColumn | DropColumn
    ) -> Iterator[str]:
        match change:
            case AddColumn(column=column):
                yield from self._add(table, column)
            case AlterColumnType(column=column, old=old):
                yield from self._alter(table, column, old)
            case RenameColumn(old_name=old_name, new_name=new_name):
                yield from self._rename_column(table, old_name, new_name)
            case DropColumn(name=name):
                yield from self._drop_column(table, name)

    # tables

    def _create(self, change: CreateTable) -> Iterator[str]:
        _check_names(change)
        actual = self._layout.get(change.table)
        if actual is not None:
            yield from self._reconcile(actual, change)
            return
        yield from self._ensure_schema(change.table.database)
        columns = tuple(_wanted(column) for column in change.schema.columns)
        table = ActualTable(change.table, columns, declared_key(change.schema))
        yield self._create_table(self._name(change.table), table)
        self._layout.put(table)
        yield from self._comment(table, change.schema.comment)
        for column in change.schema.columns:
            yield from self._comment_column(self._table(table.id), column)

    def _create_table(self, name: str, table: ActualTable) -> str:
        parts = [f"{quoted(column.name)} {column.type}" for column in table.columns]
        if table.key:
            parts.append(f"PRIMARY KEY ({', '.join(quoted(part) for part in table.key)})")
        return f"CREATE TABLE {name} ({', '.join(parts)})"

    def _ensure_schema(self, database: str) -> Iterator[str]:
        if (database or "main").lower() not in self._layout.schemas:
            self._layout.schemas.add(database.lower())
            yield f"CREATE SCHEMA {self._schema_name(database)}"

    def _reconcile(self, actual: ActualTable, change: CreateTable) -> Iterator[str]:
        where = str(change.table)
        if actual.id.table != change.table.table or actual.id.database != (change.table.database or "main"):
            reason = f"DuckDB takes it for the table {actual.id}, which exists: names are the same whatever their case"
            raise ChangeRefused(reason, where=where, hint="give one of them another name with a route")
        for column in change.schema.columns:
            there = actual.column(column.name)
            if there is not None and not holds(there.type, duckdb_type(column.type)):
                raise _incompatible(change.table, column, there)
        key = declared_key(change.schema)
        if not _same_names(actual.key, key):
            reason = f"exists with the primary key ({', '.join(actual.key)}), the source has ({', '.join(key)})"
            raise ChangeRefused(reason, where=where, hint="drop it in DuckDB, or route to another table")
        for column in change.schema.columns:
            yield from self._add(self._table(change.table), column)

    def _drop(self, table: TableId) -> Iterator[str]:
        if self._layout.get(table) is not None:
            yield f"DROP TABLE {self._name(table)}"
            self._layout.remove(table)

    def _rename(self, change: RenameTable) -> Iterator[str]:
        actual, there = self._layout.get(change.table), self._layout.get(change.new_table)
        if actual is None and there is not None:
            return
        actual = self._table(change.table)
        if there is not None and there is not actual:
            reason = f"cannot be renamed to {change.new_table}: that table exists"
            raise ChangeRefused(reason, where=str(change.table), hint="drop or rename the other table in DuckDB")
        new = replace(actual, id=change.new_table)
        if same(change.table.database, change.new_table.database):
            yield f"ALTER TABLE {self._name(change.table)} RENAME TO {quoted(change.new_table.table)}"
        else:
            yield from self._ensure_schema(change.new_table.database)
            yield self._create_table(self._name(new.id), new)
            yield f"INSERT INTO {self._name(new.id)} SELECT * FROM {self._name(actual.id)}"
            yield f"DROP TABLE {self._name(actual.id)}"
            yield from self._comments(new)
        self._layout.remove(actual.id)
        self._layout.put(new)

    # columns

    def _add(self, table: ActualTable, column: Column) -> Iterator[str]:
        there, wanted = table.column(column.name), _wanted(column)
        if there is not None:
            if not holds(there.type, wanted.type):
                raise _incompatible(table.id, column, there)
            return
        _check_column(table.id, column.name)
        name, default = self._name(table.id), default_literal(column)
        added = f"ALTER TABLE {name} ADD COLUMN {quoted(column.name)} {wanted.type}"
        if default is None:
            yield added
        else:
            # The default is only for the rows that are there: later rows bring their own value.
            yield f"{added} DEFAULT {default}"
            yield f"ALTER TABLE {name} ALTER COLUMN {quoted(column.name)} DROP DEFAULT"
        self._layout.put(replace(table, columns=(*table.columns, wanted)))
        yield from self._comment_column(self._table(table.id), column)

    def _alter(self, table: ActualTable, column: Column, old: Column | None) -> Iterator[str]:
        there, new_type = self._column(table, column.name), duckdb_type(column.type)
        if there.type != new_type or rewrites(column.type, old):
            value = conversion(quoted(there.name), there.type, column, old)
            columns = _replaced(table, there.name, replace(there, type=new_type))
            if table.in_key(there.name):
                new = replace(table, columns=columns, key=_indexable(columns, table.key))
                yield from self._rebuild(table, new, {there.name: value})
            else:
                name = self._name(table.id)
                yield f"ALTER TABLE {name} ALTER COLUMN {quoted(there.name)} TYPE {new_type} USING {value}"
                self._layout.put(replace(table, columns=columns))
        yield from self._comment_column(self._table(table.id), column)

    def _rename_column(self, table: ActualTable, old_name: str, new_name: str) -> Iterator[str]:
        there, taken = table.column(old_name), table.column(new_name)
        if there is None and taken is not None:
            return
        there = self._column(table, old_name)
        if there.name == new_name:
            return
        if taken is not None and taken is not there:
            reason = f"column {old_name} cannot be renamed to {new_name}: that column exists"
            raise ChangeRefused(reason, where=str(table.id), hint="rename or drop the other column in DuckDB")
        _check_column(table.id, new_name)
        yield f"ALTER TABLE {self._name(table.id)} RENAME COLUMN {quoted(there.name)} TO {quoted(new_name)}"
        columns = _replaced(table, there.name, replace(there, name=new_name))
        key = tuple(new_name if same(part, there.name) else part for part in table.key)
        self._layout.put(replace(table, columns=columns, key=key))

    def _drop_column(self, table: ActualTable, name: str) -> Iterator[str]:
        there = table.column(name)
        if there is None:
            return
        columns = tuple(column for column in table.columns if column is not there)
        if table.in_key(name):
            key = tuple(part for part in table.key if not same(part, name))
            yield from self._rebuild(table, replace(table, columns=columns, key=key), {})
        else:
            yield f"ALTER TABLE {self._name(table.id)} DROP COLUMN {quoted(there.name)}"
            self._layout.put(replace(table, columns=columns))

    def _alter_key(self, table: ActualTable, key: tuple[str, ...]) -> Iterator[str]:
        for name in key:
            self._column(table, name)
        key = _indexable(table.columns, key)
        if not _same_names(table.key, key):
            yield from self._rebuild(table, replace(table, key=key), {})

    def _rebuild(self, old: ActualTable, new: ActualTable, values: dict[str, str]) -> Iterator[str]:
        """Copy the rows into a new table and let it take the old one's name."""
        temporary = TableId(old.id.database, f"{RESERVED_PREFIX}rebuild")
        chosen = ", ".join(values.get(column.name, quoted(column.name)) for column in new.columns)
        yield self._create_table(self._name(temporary), new)
        yield f"INSERT INTO {self._name(temporary)} SELECT {chosen} FROM {self._name(old.id)}"
        yield f"DROP TABLE {self._name(old.id)}"
        yield f"ALTER TABLE {self._name(temporary)} RENAME TO {quoted(new.id.table)}"
        yield from self._comments(new)
        self._layout.put(new)

    # comments

    def _comments(self, table: ActualTable) -> Iterator[str]:
        if table.comment:
            yield f"COMMENT ON TABLE {self._name(table.id)} IS {text_literal(table.comment)}"
        for column in table.columns:
            if column.comment:
                yield self._comment_on(table, column, column.comment)

    def _comment(self, table: ActualTable, comment: str) -> Iterator[str]:
        if table.comment != comment:
            yield f"COMMENT ON TABLE {self._name(table.id)} IS {text_literal(comment)}"
            self._layout.put(replace(table, comment=comment))

    def _comment_column(self, table: ActualTable, column: Column) -> Iterator[str]:
        there = self._column(table, column.name)
        if there.comment != column.comment:
            yield self._comment_on(table, there, column.comment)
            columns = _replaced(table, there.name, replace(there, comment=column.comment))
            self._layout.put(replace(table, columns=columns))

    def _comment_on(self, table: ActualTable, column: ActualColumn, comment: str) -> str:
        return f"COMMENT ON COLUMN {self._name(table.id)}.{quoted(column.name)} IS {text_literal(comment)}"

    # what must be there

    def _table(self, table: TableId) -> ActualTable:
        actual = self._layout.get(table)
        if actual is None:
            hint = "it was dropped or renamed in DuckDB; restore it, or start with a new --state-dir"
            raise ChangeRefused("the table does not exist", where=str(table), hint=hint)
        return actual

    def _column(self, table: ActualTable, name: str) -> ActualColumn:
        actual = table.column(name)
        if actual is None:
            hint = "it was dropped or renamed in DuckDB; add it again"
            raise ChangeRefused(f"there is no column {name}", where=str(table.id), hint=hint)
        return actual


def declared_key(schema: TableSchema) -> tuple[str, ...]:
    """The PRIMARY KEY that DuckDB gets: the source's, or none when DuckDB cannot index one of its columns."""
    return _indexable(tuple(_wanted(column) for column in schema.columns), schema.primary_key)


def _indexable(columns: tuple[ActualColumn, ...], key: tuple[str, ...]) -> tuple[str, ...]:
    types = {column.name.lower(): column.type for column in columns}
    return key if all(can_be_key(types[part.lower()]) for part in key) else ()


def _wanted(column: Column) -> ActualColumn:
    return ActualColumn(column.name, duckdb_type(column.type))


def _replaced(table: ActualTable, name: str, new: ActualColumn) -> tuple[ActualColumn, ...]:
    return tuple(new if same(column.name, name) else column for column in table.columns)


def _same_names(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    return {name.lower() for name in left} == {name.lower() for name in right}


def _incompatible(table: TableId, column: Column, there: ActualColumn) -> ChangeRefused:
    return ChangeRefused(
        f"column {column.name} exists with type {there.type}, which does not hold the source's {column.type} "
        f"({duckdb_type(column.type)} in DuckDB)",
        where=str(table),
        hint="change its type in DuckDB, drop the table, or route to another one",
    )


def _check_names(change: CreateTable) -> None:
    if same(change.table.database, OWN_SCHEMA):
        reason = f"the schema {OWN_SCHEMA} holds this tool's own records"
        raise ChangeRefused(reason, where=str(change.table), hint="give the table another database with a route")
    for column in change.schema.columns:
        _check_column(change.table, column.name)


def _check_column(table: TableId, name: str) -> None:
    if name.lower().startswith(RESERVED_PREFIX):
        reason = f"column {name}: names that start with {RESERVED_PREFIX} are used while loading"
        raise ChangeRefused(reason, where=str(table), hint="rename the column in the source")
