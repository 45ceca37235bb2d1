"""Base class of SQL dialects: a system's rules and the text of its statements. Pure; executes nothing.

The default statements are those that most systems share; a dialect overrides those that its system spells differently.
Driver.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from cdc.evolution import operations as op
from cdc.evolution.rules import TableRules
from cdc.evolution.steps import Statement
from cdc.evolution.table import ActualColumn, ActualTable, T, same
from cdc.schema import DataType, TableId
from cdc.types import certain


class Dialect(TableRules[T]):
    """The SQL dialect of one system.

    Attributes:
        all_in_jobs: renames and comments of columns may run as a background job too, not only changes of data.
        native_bytes: bytes are stored as bytes rather than as text.
    """

    all_in_jobs: ClassVar[bool] = False
    native_bytes: ClassVar[bool] = True

    def statements(self, operation: op.Operation) -> Iterator[Statement]:
        """Yield the statements of an operation, in order. Raises TypeError for one that SQL systems do not need."""
        table, jobs = operation.table, self.all_in_jobs
        match operation:
            case op.CreateTableOp(new=new, change=change):
                dialect = self if change is None else self.with_options(change)
                yield from _statements(table, dialect.create_table(new))
            case op.CreateShadowOp(new=new, like=like, change=change):
                dialect = self if change is None else self.with_options(change)
                yield from _statements(
                    table, dialect.create_table(new) if like is None else dialect.create_like(like, new.id)
                )
            case op.SwapShadowOp(shadow=shadow, new=new):
                yield from _statements(table, self.swap_shadow(shadow, new))
            case op.MoveTableOp(actual=actual, new=new):
                yield from _statements(table, self.move_table(actual, new))
            case op.RebuildTableOp():
                yield from self.rebuild_table(operation)
            case op.AddColumnOp(actual=actual, column=column, after=after):
                for sql in self.add_column(actual, column, after):
                    yield Statement(table, sql, job=True)
            case op.AlterColumnOp(actual=actual, column=column, values=conversion):
                yield Statement(table, self.modify_column(actual, column, self.expression(conversion)), job=True)
            case op.RenameColumnOp(old_name=old_name, new_name=new_name):
                yield Statement(table, self.rename_column(table, old_name, new_name), job=jobs)
            case op.DropColumnOp(name=name):
                yield Statement(table, self.drop_column(table, name), job=True)
            case op.CommentColumnOp(actual=actual, column=column):
                yield Statement(table, self.comment_column(actual, column), job=jobs)
            case _:
                yield Statement(table, self._plain(operation))

    def _plain(self, operation: op.Operation) -> str:
        """Return the statement of an operation that is a single statement and not a job."""
        match operation:
            case op.CreateDatabaseOp(database=database):
                return self.create_database(database)
            case op.DropShadowOp(shadow=copy) | op.DropCopyOp(copy=copy):
                return self.drop_copy(copy)
            case op.DropTableOp(table=table):
                return self.drop_table(table)
            case op.TruncateTableOp(table=table):
                return self.truncate_table(table)
            case op.RenameTableOp(table=table, new=new):
                return self.rename_table(table, new.table)
            case op.CommentTableOp(actual=actual, comment=comment):
                return self.comment_table(actual, comment)
            case _:
                raise TypeError(f"no statement for {type(operation).__name__}")

    def rebuild_table(self, operation: op.RebuildTableOp) -> Iterator[Statement]:
        """Create a copy in the new form and swap it in. May be restarted at any point before the last statement."""
        old, new = operation.actual, operation.new
        copy = replace(new, id=operation.copy)
        chosen = [(column.name, self._copied_value(operation, column)) for column in new.columns]
        drop = self.drop_copy(copy.id)
        texts = [
            drop,
            *self.create_table(copy),
            self.copy_rows(old.id, copy.id, chosen),
            *self.swap_shadow(copy.id, new),
        ]
        for sql in texts:
            yield Statement(operation.table, sql, undo=drop)

    def _copied_value(self, operation: op.RebuildTableOp, column: ActualColumn[T]) -> str:
        conversion = operation.values.get(column.name)
        if conversion is not None:
            return self.expression(conversion)
        before = next(item for item in operation.actual.columns if same(item.name, column.name))
        return self.cast(before, column)

    def expression(self, values: op.Conversion) -> str:
        """Return the SQL expression that computes the new column's values from the old column."""
        if values.loose:
            return self.loose_cast(values.old, values.new)
        return self.cast(values.old, values.new, values.before)

    def finding(self, table: TableId, column: str, rows: certain.Rows) -> str:
        """Return a query that finds a row when the table has such rows."""
        condition = self.condition(self.quoted(column), rows)
        return f"SELECT 1 FROM {self.table_name(table)} WHERE {condition} LIMIT 1"

    def shared_key(self, table: TableId, key: Sequence[str]) -> str:
        """Return a query that finds a row when two rows have the same values in these columns."""
        names = ", ".join(self.quoted(name) for name in key)
        return f"SELECT 1 FROM {self.table_name(table)} GROUP BY {names} HAVING COUNT(*) > 1 LIMIT 1"

    def any_row(self, table: TableId) -> str:
        """Return a query that finds a row unless the table is empty."""
        return f"SELECT 1 FROM {self.table_name(table)} LIMIT 1"

    # names

    @abstractmethod
    def quoted(self, name: str) -> str:
        """Quote an identifier."""

    @abstractmethod
    def literal(self, text: str) -> str:
        """Return a string literal."""

    def table_name(self, table: TableId) -> str:
        """Return the qualified, quoted name of a table."""
        return f"{self.quoted(table.database)}.{self.quoted(table.table)}"

    def written_name(self, table: TableId) -> str:
        """Return the name as in statements."""
        return self.table_name(table)

    # rows

    def condition(self, column: str, rows: certain.Rows) -> str:
        """Return an SQL condition for rows whose values are uncertain; `column` is the quoted name."""
        return certain.condition(column, rows, native_bytes=self.native_bytes)

    def cast(self, old: ActualColumn[T], new: ActualColumn[T], before: DataType | None = None) -> str:
        """Return an expression that converts a column's value to its new type unchanged.

        `before` is this tool's type of the values; None where the source does not change it.
        """
        name = self.quoted(old.name)
        return name if old.type == new.type else f"CAST({name} AS {new.type})"

    def loose_cast(self, old: ActualColumn[T], new: ActualColumn[T]) -> str:
        """Return a cast that never fails: NULL for values that the new type cannot hold, or for all values."""
        return f"CAST(NULL AS {new.type})"

    # statements

    def create_database(self, database: str) -> str:
        """Return the statement that creates a database if it does not exist."""
        return f"CREATE DATABASE IF NOT EXISTS {self.quoted(database)}"

    @abstractmethod
    def create_table(self, table: ActualTable[T]) -> Sequence[str]:
        """Return the statements that create a table, with its comments."""

    def create_like(self, table: ActualTable[T], new: TableId) -> Sequence[str]:
        """Return the statements that create an empty table like another one, including properties set by hand."""
        return self.create_table(replace(table, id=new))

    def drop_table(self, table: TableId) -> str:
        """Return the statement that drops a table if it exists."""
        return f"DROP TABLE IF EXISTS {self.table_name(table)}"

    def drop_copy(self, copy: TableId) -> str:
        """Return the statement that drops a leftover copy if it exists."""
        return self.drop_table(copy)

    def truncate_table(self, table: TableId) -> str:
        """Return the statement that removes all rows."""
        return f"TRUNCATE TABLE {self.table_name(table)}"

    def rename_table(self, table: TableId, new_name: str) -> str:
        """Return the statement that renames a table within its database."""
        return f"ALTER TABLE {self.table_name(table)} RENAME TO {self.quoted(new_name)}"

    def move_table(self, table: ActualTable[T], new: ActualTable[T]) -> Sequence[str]:
        """Return the statements that move a table to another, existing database."""
        values = [(column.name, self.quoted(column.name)) for column in new.columns]
        return [*self.create_table(new), self.copy_rows(table.id, new.id, values), self.drop_table(table.id)]

    def comment_table(self, table: ActualTable[T], comment: str) -> str:
        """Return the statement that changes or removes a table's comment."""
        return f"COMMENT ON TABLE {self.table_name(table.id)} IS {self.literal(comment)}"

    @abstractmethod
    def add_column(self, table: ActualTable[T], column: ActualColumn[T], after: str | None) -> Sequence[str]:
        """Return the statements that add a column after another, or last. Existing rows get its default."""

    @abstractmethod
    def modify_column(self, table: ActualTable[T], column: ActualColumn[T], value: str) -> str:
        """Return the statement that changes a column's type in place; `value` is the result of `expression`."""

    def comment_column(self, table: ActualTable[T], column: ActualColumn[T]) -> str:
        """Return the statement that changes or removes a column's comment; `column` already has the new one."""
        name = f"{self.table_name(table.id)}.{self.quoted(column.name)}"
        return f"COMMENT ON COLUMN {name} IS {self.literal(column.comment)}"

    def rename_column(self, table: TableId, old_name: str, new_name: str) -> str:
        """Return the statement that renames a column."""
        return f"ALTER TABLE {self.table_name(table)} RENAME COLUMN {self.quoted(old_name)} TO {self.quoted(new_name)}"

    def drop_column(self, table: TableId, name: str) -> str:
        """Return the statement that drops a column that is not fixed."""
        return f"ALTER TABLE {self.table_name(table)} DROP COLUMN {self.quoted(name)}"

    def copy_rows(self, source: TableId, target: TableId, values: Iterable[tuple[str, str]]) -> str:
        """Return the statement that copies all rows to another table; `values` are target columns and expressions."""
        pairs = list(values)
        names = ", ".join(self.quoted(name) for name, _ in pairs)
        expressions = ", ".join(expression for _, expression in pairs)
        return f"INSERT INTO {self.table_name(target)} ({names}) SELECT {expressions} FROM {self.table_name(source)}"

    @abstractmethod
    def swap_shadow(self, copy: TableId, table: ActualTable[T]) -> Sequence[str]:
        """Return the statements that replace a table with a complete copy and drop the old table.

        At every moment a table of that name exists, unless the dialect is transactional.
        """


def _statements(table: TableId, texts: Iterable[str]) -> Iterator[Statement]:
    return (Statement(table, sql) for sql in texts)
