"""Parses CREATE TABLE: columns, keys, options, LIKE and AS SELECT.

Source of the grammar: the manual's page CREATE TABLE of MySQL 9.7 and of MariaDB.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from connectors.shared.ddl.columns import parse_column
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.options import parse_option
from connectors.shared.ddl.statements import ColumnDefinition, CreateTableStatement, TableOptions

_QUERY = ("IGNORE", "REPLACE", "AS", "SELECT", "WITH", "TABLE", "VALUES")


@dataclass(slots=True)
class Elements:
    """The elements in the brackets of CREATE TABLE or of ALTER TABLE ... ADD ( ... )."""

    columns: list[ColumnDefinition] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    overlapping: str = ""
    """The period that ends the primary key `WITHOUT OVERLAPS` (MariaDB)."""
    periods: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def whole_key(self) -> tuple[str, ...] | None:
        """Return the columns of the primary key; None if it ends with a period that is not among these elements."""
        if not self.overlapping:
            return self.primary_key
        period = self.periods.get(self.overlapping.casefold())
        return None if period is None else (*self.primary_key, *reversed(period))


def parse_create_table(cursor: Cursor, *, or_replace: bool) -> CreateTableStatement:
    """Parse everything after `CREATE [OR REPLACE] TABLE`."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    statement = CreateTableStatement(cursor.table(), if_not_exists=if_not_exists, or_replace=or_replace)
    if cursor.accept("LIKE"):
        return replace(statement, like=cursor.table())
    if cursor.at_symbol("(") and cursor.peek(1).word not in ("SELECT", "WITH", "VALUES", "TABLE"):
        if cursor.peek(1).word == "LIKE":
            cursor.next()
            cursor.next()
            statement = replace(statement, like=cursor.table())
            cursor.expect_symbol(")")
            return statement
        elements = parse_elements(cursor)
        statement = replace(
            statement,
            columns=tuple(elements.columns),
            primary_key=primary_key(cursor, elements),
            not_null=elements.not_null,
        )
    return _after_columns(cursor, statement)


def parse_elements(cursor: Cursor) -> Elements:
    """Parse `( column or key or constraint, ... )`."""
    elements = Elements()
    cursor.expect_symbol("(")
    while True:
        _element(cursor, elements)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")")
    return elements


def primary_key(cursor: Cursor, elements: Elements) -> tuple[str, ...]:
    """Return the columns of the primary key. Raises Unreadable if it ends with a period made by another statement."""
    key = elements.whole_key()
    if key is None:
        raise cursor.unexpected(f"columns, as nothing here tells those of the period {elements.overlapping}")
    return key


def parse_key_or_constraint(cursor: Cursor, elements: Elements) -> bool:
    """Parse a key, constraint or period at the cursor, if there is one; columns of a primary key go to `elements`."""
    if cursor.accept("CONSTRAINT") and not cursor.at_any("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        cursor.accept("IF", "NOT", "EXISTS")
        cursor.name()
    if cursor.accept("PRIMARY", "KEY"):
        while not cursor.at_symbol("("):
            _index_word(cursor)
        elements.primary_key, elements.overlapping = cursor.key_in_brackets()
        cursor.skip_to_comma()
        return True
    if cursor.accept("PERIOD", "FOR") or cursor.accept("PERIOD", "IF", "NOT", "EXISTS", "FOR"):
        versioned = cursor.at("SYSTEM_TIME")
        name = cursor.name()
        if not versioned:
            elements.periods[name.casefold()] = columns = cursor.names_in_brackets()
            elements.not_null += columns
        cursor.skip_to_comma()
        return True
    vector_index = cursor.at("VECTOR") and cursor.peek(1).word in ("INDEX", "KEY")
    if vector_index or cursor.at_any("INDEX", "KEY", "FULLTEXT", "SPATIAL", "UNIQUE", "FOREIGN", "CHECK"):
        cursor.skip_to_comma()
        return True
    return False


def _index_word(cursor: Cursor) -> None:
    """Skip a word between PRIMARY KEY and its columns: an index name, `USING BTREE`."""
    if cursor.accept_any("USING", "TYPE"):
        cursor.next()
        return
    cursor.name()


def _element(cursor: Cursor, elements: Elements) -> None:
    if parse_key_or_constraint(cursor, elements):
        return
    column = parse_column(cursor)
    elements.columns.append(column)
    if column.primary_key:
        elements.primary_key = (column.name,)


def _after_columns(cursor: Cursor, statement: CreateTableStatement) -> CreateTableStatement:
    """Parse options, partitions and a query after the columns."""
    options = TableOptions()
    while not cursor.at_end():
        if cursor.accept_symbol(","):
            continue
        more = parse_option(cursor, options)
        if more is not None:
            options = more
        elif cursor.accept("PARTITION", "BY"):
            while not (cursor.at_end() or cursor.at_any(*_QUERY)):
                _skip_one(cursor)
        elif cursor.at_any(*_QUERY) or cursor.at_symbol("("):
            cursor.skip_statement()
            return replace(statement, options=options, select=True)
        else:
            raise cursor.unexpected("a table option")
    return replace(statement, options=options)


def _skip_one(cursor: Cursor) -> None:
    if cursor.at_symbol("("):
        cursor.skip_brackets()
    else:
        cursor.next()
