"""Functions that a statement calls by their whole name: what is logged as a statement may write by them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.mysql.ddl.names import has_name
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.tokens import Unreadable


def called(sql: str, dialect: DdlDialect, databases: Iterable[str]) -> frozenset[str]:
    """The databases among these, folded, of which a statement calls a function, as `shop.f()`.

    A long statement is taken apart only where it has such a name somewhere. All that it names count where it cannot be
    read.
    """
    text, found = sql.casefold(), set[str]()
    near = frozenset(name for name in {database.casefold() for database in databases} if has_name(text, name))
    cursor = Cursor(sql, dialect, "")
    try:
        while near and not cursor.at_end():
            named = cursor.at_name() and cursor.at_symbol(".", 1) and cursor.at_symbol("(", 3)
            name = cursor.next().text.casefold()
            found |= {name} & near if named else set()
    except Unreadable:
        return near
    return frozenset(found)
