"""The common part of both servers' SQL. Pure, nothing is executed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cdc.errors import ChangeRefused
from cdc.evolution.dialect import Dialect
from cdc.evolution.table import ActualTable, same
from cdc.schema import DataType, TableId, TableSchema
from connectors.shared.sql.text import quoted, text_literal
from connectors.shared.streamload.sql_types import WHOLE, SqlType


class TableDialect(Dialect[SqlType]):
    """Names, literals, and common rules for types and tables."""

    table_type: ClassVar[type[ActualTable[SqlType]]]
    sessions = 8

    def quoted(self, name: str) -> str:
        """Quote an identifier with backquotes."""
        return quoted(name)

    def literal(self, text: str) -> str:
        """Quote text with backslash escapes."""
        return text_literal(text)

    def check_column(self, table: TableId, name: str) -> None:
        """Refuse names that cannot be sent: a load names columns in an HTTP header."""
        if not {"\r", "\n"}.isdisjoint(name):
            reason = f"column {name!r}: a load cannot name a column with a line end in its name"
            raise ChangeRefused(reason, where=str(table), hint="name the column otherwise with a projection")

    def is_text(self, actual: SqlType) -> bool:
        """Return whether the type is CHAR, VARCHAR or STRING."""
        return actual.is_text

    def stays(self, actual: SqlType, new: DataType, old: DataType | None, *, key: bool) -> bool:
        """Return whether the column keeps its type: it holds the new values and was not created for the old type."""
        sql = self.column_type(new, key=key)
        if not self.holds(actual, new, key=key):
            return False
        if actual.is_text and sql.is_text:
            return actual.max_bytes >= sql.max_bytes
        if actual.name == sql.name or (actual.name in WHOLE and sql.name in WHOLE):
            return True
        return old is not None and actual != self.column_type(old, key=key)

    def new_table(self, table: TableId, schema: TableSchema) -> ActualTable[SqlType]:
        """Return a new table, with columns in an order that the server accepts."""
        columns = tuple(
            self.new_column(column, key=any(same(part, column.name) for part in schema.primary_key))
            for column in schema.columns
        )
        return self.with_key(self.table_type(table, columns, comment=schema.comment), schema.primary_key)

    def create_like(self, table: ActualTable[SqlType], new: TableId) -> Sequence[str]:
        """Create a table like another, with its partitions, buckets and properties."""
        return [f"CREATE TABLE {self.table_name(new)} LIKE {self.table_name(table.id)}"]

    def rename_table(self, table: TableId, new_name: str) -> str:
        """Rename a table; the servers' syntax has no TO."""
        return f"ALTER TABLE {self.table_name(table)} RENAME {quoted(new_name)}"
