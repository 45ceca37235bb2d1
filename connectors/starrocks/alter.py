"""Schema changes as steps, planned against what is actually there. Nothing is executed here.

A planner takes the layout as it is, gives the steps that are still missing, and leaves the layout as it will be after
them: a change that is already carried out comes to no step at all, one that was half carried out to the rest of it.

StarRocks cannot change a key in place, nor the type of a key column (but for a longer VARCHAR). Then the table is
copied into one beside it, and the two swap their names: readers see one or the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TruncateTable,
)
from connectors.shared.sql.client import quoted, text_literal
from connectors.starrocks import ddl
from connectors.starrocks.catalog import ActualColumn, ActualTable, Layout, same
from connectors.starrocks.conversion import by_copy, in_place
from connectors.starrocks.types import LONG_TEXT, SqlType
from connectors.streamload.doubt import doubt
from connectors.streamload.respelled import respelled

COPY_PREFIX = "__cdc_copy_"
"""A table of this prefix is the copy that takes a table's place; one that is left over is dropped."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. `job`: the server may carry it out later, in a job of `table` that has to be waited for."""

    table: TableId
    sql: str
    job: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """A query that must find no row; otherwise the change is refused for `reason`."""

    table: TableId
    sql: str
    reason: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that the user should know about a change that is carried out."""

    table: TableId
    text: str


Step = Statement | Check | Remark


class Planner:
    """Plans changes one after another over one layout."""

    def __init__(self, layout: Layout, rules: ddl.TableRules) -> None:
        self._layout, self._rules, self._types = layout, rules, rules.types

    def steps(self, change: SchemaChange, later: Sequence[SchemaChange] = ()) -> Iterator[Step]:
        """The steps of one change, given those that come after it. Raises ChangeRefused."""
        if self._layout.get(change.table) is None and self._has_left(change.table, later):
            return
        match change:
            case CreateTable():
                yield from self._create(change)
            case DropTable(table=table):
                if self._layout.get(table) is not None:
                    yield Statement(table, f"DROP TABLE IF EXISTS {ddl.name_of(table)}")
                    self._layout.remove(table)
            case TruncateTable(table=table):
                if self._layout.get(table) is not None:
                    yield Statement(table, f"TRUNCATE TABLE {ddl.name_of(table)}")
            case RenameTable():
                yield from self._rename(change)
            case AlterTableComment(table=table, comment=comment):
                yield from self._comment(self._table(table), comment)
            case AlterPrimaryKey(table=table, primary_key=key):
                yield from self._alter_key(self._table(table), key)
            case AddColumn(column=column):
                yield from self._add(self._table(change.table), column, existing_rows=True)
            case AlterColumnType(column=column, old=old):
                yield from self._alter(self._table(change.table), column, old)
            case RenameColumn(old_name=old_name, new_name=new_name):
                yield from self._rename_column(self._table(change.table), old_name, new_name)
            case DropColumn(name=name):
                yield from self._drop_column(self._table(change.table), name)

    def _has_left(self, table: TableId, later: Sequence[SchemaChange]) -> bool:
        """Whether later changes drop the table, or give it a name that is taken: then they were carried out before."""
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

    # tables

    def _create(self, change: CreateTable) -> Iterator[Step]:
        wanted = ddl.wanted_table(change.table, change.schema, self._types)
        actual = self._layout.get(change.table)
        if actual is not None:
            yield from self._reconcile(actual, change)
            return
        if change.table.database not in self._layout.databases:
            yield Statement(change.table, ddl.create_database(change.table.database))
        yield Statement(change.table, ddl.create_table(wanted, self._rules))
        self._layout.put(wanted)

    def _reconcile(self, actual: ActualTable, change: CreateTable) -> Iterator[Step]:
        """The table is there already: it has to fit, and gets the columns that are missing."""
        key, where = change.schema.primary_key, str(change.table)
        if actual.foreign_model:
            reason = f"exists as a {actual.foreign_model} KEY table, which cannot take deletes"
            raise ChangeRefused(reason, where=where, hint="drop it in StarRocks, or route to another table")
        if [part.casefold() for part in actual.key] != [part.casefold() for part in key] and (
            len(actual.key) != len(key) or not all(actual.in_key(part) for part in key)
        ):
            reason = f"exists with the primary key ({', '.join(actual.key)}), the source has ({', '.join(key)})"
            raise ChangeRefused(reason, where=where, hint="drop it in StarRocks, or route to another table")
        for column in change.schema.columns:
            self._check_holds(actual, column)
        for column in change.schema.columns:
            yield from self._add(self._table(change.table), column, existing_rows=False)

    def _rename(self, change: RenameTable) -> Iterator[Step]:
        actual, there = self._layout.get(change.table), self._layout.get(change.new_table)
        if actual is None and there is not None:
            return
        actual = self._table(change.table)
        if there is not None:
            reason = f"cannot be renamed to {change.new_table}: that table exists"
            raise ChangeRefused(reason, where=str(change.table), hint="drop or rename the other table in StarRocks")
        if change.table.database != change.new_table.database:
            reason = f"StarRocks cannot move a table to another database ({change.new_table})"
            raise ChangeRefused(reason, where=str(change.table), hint="route both names into one database")
        yield Statement(
            change.table, f"ALTER TABLE {ddl.name_of(change.table)} RENAME {quoted(change.new_table.table)}"
        )
        self._layout.remove(actual.id)
        self._layout.put(replace(actual, id=change.new_table))

    def _comment(self, table: ActualTable, comment: str) -> Iterator[Step]:
        if table.comment != comment:
            yield Statement(table.id, f"ALTER TABLE {ddl.name_of(table.id)} COMMENT = {text_literal(comment)}")
            self._layout.put(replace(table, comment=comment))

    def _alter_key(self, table: ActualTable, key: tuple[str, ...]) -> Iterator[Step]:
        if [part.casefold() for part in table.key] == [part.casefold() for part in key]:
            yield from self._drop_copy(table.id)
            return
        columns = tuple(
            _as_key(column) if any(same(column.name, part) for part in key) else _as_value(column)
            for column in table.columns
        )
        yield from self._copy(table, replace(table, columns=columns, key=key))

    # columns

    def _add(self, table: ActualTable, column: Column, *, existing_rows: bool) -> Iterator[Step]:
        if table.column(column.name) is not None:
            self._check_holds(table, column)
            return
        ddl.check_name(table.id, column.name)
        wanted = ddl.wanted_column(column, self._types, key=False)
        if wanted.default == ddl.NOW and existing_rows:
            wanted = replace(wanted, default=None)  # the source's clock at that time is not ours
        if wanted.default is None and column.default is not None and existing_rows:
            text = f"rows that are there get NULL in {column.name}: its default {column.default!r} is no constant here"
            yield Remark(table.id, text)
        yield self._altered(table, f"ADD COLUMN {ddl.column_text(wanted)}")
        self._layout.put(replace(table, columns=(*table.columns, wanted)))

    def _alter(self, table: ActualTable, column: Column, old: Column | None) -> Iterator[Step]:
        there, in_key = self._column(table, column.name), table.in_key(column.name)
        wanted = self._types.wanted(column.type, key=in_key)
        if in_key and wanted.is_text and old is not None and respelled(column.type, old.type):
            reason = f"keys are text here, and {column.type} values are spelled otherwise than {old.type}"
            yield Check(table.id, f"SELECT 1 FROM {ddl.name_of(table.id)} LIMIT 1", f"column {column.name}: {reason}")
        before = None if old is None else old.type
        stands_against = doubt(quoted(there.name), column.type, before, native_bytes=True)
        if stands_against is not None:
            query = f"SELECT 1 FROM {ddl.name_of(table.id)} WHERE {stands_against.condition} LIMIT 1"
            yield Check(table.id, query, f"column {column.name}: {stands_against.reason}")
        keeps = self._types.holds(there.type, column.type, key=in_key) and not _longer(there.type, wanted)
        if there.type.is_text and not wanted.is_text:
            # A column that somebody made text for values of another type stays so; one that held text does not.
            keeps = keeps and old is not None and not self._types.wanted(old.type, key=in_key).is_text
        new = replace(there, type=there.type if keeps else wanted, comment=column.comment)
        if new == there:
            yield from self._drop_copy(table.id)
        elif keeps or (in_place(there.type, wanted) and (not in_key or wanted.is_text)):
            yield self._altered(table, f"MODIFY COLUMN {ddl.column_text(new)}")
            self._layout.put(_with(table, there, new))
        elif by_copy(there.type, wanted):
            yield from self._copy(table, _with(table, there, new))
        else:
            reason = f"StarRocks does not turn {there.type} into {wanted} with the values that the source has"
            hint = "change the column in StarRocks, or drop the table there and start anew"
            raise ChangeRefused(f"column {column.name}: {reason}", where=str(table.id), hint=hint)

    def _rename_column(self, table: ActualTable, old_name: str, new_name: str) -> Iterator[Step]:
        there, taken = table.column(old_name), table.column(new_name)
        if there is None and taken is not None:
            return
        there = self._column(table, old_name)
        if there.name == new_name:
            return
        if taken is not None and taken is not there:
            reason = f"column {old_name} cannot be renamed to {new_name}: that column exists"
            raise ChangeRefused(reason, where=str(table.id), hint="rename or drop the other column in StarRocks")
        ddl.check_name(table.id, new_name)
        yield self._altered(table, f"RENAME COLUMN {quoted(there.name)} TO {quoted(new_name)}")
        key = tuple(new_name if same(part, there.name) else part for part in table.key)
        self._layout.put(replace(_with(table, there, replace(there, name=new_name)), key=key))

    def _drop_column(self, table: ActualTable, name: str) -> Iterator[Step]:
        there = table.column(name)
        if there is None:
            yield from self._drop_copy(table.id)
            return
        new = replace(table, columns=tuple(column for column in table.columns if column is not there))
        if table.in_key(name) or there.model or there is table.columns[0]:  # the first column sorts the table
            yield from self._copy(table, replace(new, key=tuple(part for part in table.key if not same(part, name))))
        else:
            yield self._altered(table, f"DROP COLUMN {quoted(there.name)}")
            self._layout.put(new)

    def _altered(self, table: ActualTable, action: str) -> Statement:
        return Statement(table.id, f"ALTER TABLE {ddl.name_of(table.id)} {action}", job=True)

    # copies

    def _copy(self, table: ActualTable, new: ActualTable) -> Iterator[Step]:
        """Give the table the columns, types and key of `new`, through a copy that takes its name."""
        copy = ddl.ordered(replace(new, id=_copy_of(table.id)))
        values = [(column.name, _value(table, new, column)) for column in copy.columns]
        yield Statement(table.id, f"DROP TABLE IF EXISTS {ddl.name_of(copy.id)}")
        yield Statement(table.id, ddl.create_table(copy, self._rules))
        yield Statement(table.id, ddl.copy_rows(table.id, copy.id, values))
        yield Statement(table.id, f"ALTER TABLE {ddl.name_of(table.id)} SWAP WITH {quoted(copy.id.table)}")
        yield Statement(table.id, f"DROP TABLE IF EXISTS {ddl.name_of(copy.id)}")
        self._layout.put(replace(copy, id=table.id))

    def _drop_copy(self, table: TableId) -> Iterator[Step]:
        """The copy is left when the process died after the swap: it holds the rows as they were."""
        copy = _copy_of(table)
        if self._layout.get(copy) is not None:
            yield Statement(table, f"DROP TABLE IF EXISTS {ddl.name_of(copy)}")
            self._layout.remove(copy)

    # what must be there

    def _table(self, table: TableId) -> ActualTable:
        actual = self._layout.get(table)
        if actual is None:
            hint = "it was dropped or renamed in StarRocks; restore it, or start with a new --state-dir"
            raise ChangeRefused("the table does not exist", where=str(table), hint=hint)
        return actual

    def _column(self, table: ActualTable, name: str) -> ActualColumn:
        actual = table.column(name)
        if actual is None:
            hint = "it was dropped or renamed in StarRocks; add it again"
            raise ChangeRefused(f"there is no column {name}", where=str(table.id), hint=hint)
        return actual

    def _check_holds(self, table: ActualTable, column: Column) -> None:
        there, key = table.column(column.name), table.in_key(column.name)
        if there is None or self._types.holds(there.type, column.type, key=key):
            return
        wanted = self._types.wanted(column.type, key=key)
        reason = (
            f"column {column.name} exists as {there.type}, which does not hold the source's {column.type} ({wanted})"
        )
        hint = "change its type in StarRocks, drop the table, or route to another one"
        raise ChangeRefused(reason, where=str(table.id), hint=hint)


def _copy_of(table: TableId) -> TableId:
    return TableId(table.database, COPY_PREFIX + table.table)


def _longer(there: SqlType, wanted: SqlType) -> bool:
    """Whether a text column is made longer; shorter is left as it is."""
    return there.is_text and wanted.is_text and (wanted.length or 0) > (there.length or 0)


def _with(table: ActualTable, old: ActualColumn, new: ActualColumn) -> ActualTable:
    return replace(table, columns=tuple(new if column is old else column for column in table.columns))


def _as_key(column: ActualColumn) -> ActualColumn:
    """The column as part of a primary key: a type that StarRocks allows there, and NOT NULL."""
    return replace(column, type=_key_type(column.type), nullable=False, model="PRI", default=None)


def _as_value(column: ActualColumn) -> ActualColumn:
    return replace(column, nullable=True, model="") if column.model else column


def _key_type(sql_type: SqlType) -> SqlType:
    if sql_type.name == "DECIMAL":
        return SqlType("VARCHAR", (sql_type.length or 0) + (3 if sql_type.scale else 1))
    if sql_type.name in ("FLOAT", "DOUBLE"):
        return SqlType("VARCHAR", 32)
    if sql_type.name == "CHAR":
        return SqlType("VARCHAR", sql_type.length)
    if sql_type.name == "VARBINARY":
        return LONG_TEXT
    return sql_type


def _value(table: ActualTable, new: ActualTable, column: ActualColumn) -> str:
    """What the copy's column gets from the table, which may hold it as another type."""
    position = next(index for index, item in enumerate(new.columns) if item.name == column.name)
    old = next((item for item in table.columns if same(item.name, column.name)), None) or table.columns[position]
    name = quoted(old.name)
    if old.type == column.type:
        return name
    if old.type.name == "VARBINARY":
        return f"hex({name})"
    return f"CAST({name} AS {column.type})"
