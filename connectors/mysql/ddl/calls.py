"""Functions that a statement calls by their whole name: what is logged as a statement may write by them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.mysql.ddl.cursor import Cursor
from connectors.mysql.ddl.dialect import Dialect
from connectors.mysql.ddl.names import has_name
from connectors.mysql.ddl.tokens import Unreadable


def calls(sql: str, dialect: Dialect, databases: Iterable[str]) -> bool:
    """Whether a statement calls a function of one of these databases, as `shop.f()`.

    A long statement is taken apart only where it has such a name somewhere. One that names a database and cannot be
    read counts.
    """
    text = sql.casefold()
    near = {name for database in databases if has_name(text, name := database.casefold())}
    if not near:
        return False
    cursor = Cursor(sql, dialect, "")
    try:
        while not cursor.at_end():
            named = cursor.at_name() and cursor.at_symbol(".", 1) and cursor.at_symbol("(", 3)
            if cursor.next().text.casefold() in near and named:
                return True
    except Unreadable:
        return True
    return False
