"""Names of tables as written in statements, and as known to the server. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from cdc.schema import TableId
from connectors.shared.ddl.statements import (
    AlterTableStatement,
    CreateTableStatement,
    DropDatabaseStatement,
    DropTableStatement,
    Statement,
    Unparsed,
    renamed,
)

_QUOTES = ("`", '"')
_OTHERWISE = {"İ": "i", "ẞ": "ẞ"}
"""Letters in common use that the servers lower differently than Python."""


def folded(name: str) -> str:
    """Return a name in lower case as the servers have it: each letter alone, so Σ is σ at the end of a word, too."""
    return "".join(_OTHERWISE.get(letter, letter.lower()) for letter in name)


def known_name(table: TableId, lower_case_table_names: int, known: Collection[TableId]) -> TableId:
    """Return the server's name for a table as spelled in a statement; `known` are the possible ones."""
    if lower_case_table_names == 1:
        return TableId(folded(table.database), folded(table.table))
    if lower_case_table_names == 2 and table not in known:
        wanted = folded(table.database), folded(table.table)
        return next((name for name in known if (folded(name.database), folded(name.table)) == wanted), table)
    return table


def names_in(sql: str, database: str, tables: Iterable[TableId]) -> frozenset[TableId]:
    """Return tables that a statement which is not understood may concern: those whose name is in its text, in any case.

    Too many do no harm, as they are read and re-snapshotted; a missing one would differ silently. So nothing is parsed:
    a name counts anywhere, quoted or not, also in a comment or a string, unless it is part of a longer word. A table of
    another database than the statement's default counts if that database is named too.
    """
    text, default = sql.casefold(), database.casefold()
    near: dict[str, bool] = {default: True}
    found = []
    for table in tables:
        owner = table.database.casefold()
        if not has_name(text, table.table.casefold()):
            continue
        if owner not in near:
            near[owner] = not default or has_name(text, owner)
        if near[owner]:
            found.append(table)
    return frozenset(found)


def redefined(statement: Statement, known: Iterable[TableId]) -> Iterator[TableId]:
    """Yield tables that a statement creates, alters, renames or drops.

    `known` are those a dropped database may contain.
    """
    yield from (table for pair in renamed(statement) for table in pair)
    match statement:
        case CreateTableStatement(table=table):
            yield table
        case AlterTableStatement(table=table):
            yield table
        case DropTableStatement(tables=tables) | Unparsed(tables=tables):
            yield from tables
        case DropDatabaseStatement(database=database):
            yield from (table for table in known if folded(table.database) == folded(database))


def has_name(text: str, name: str) -> bool:
    """Return whether a name occurs in a text, quoted or not, but not as part of a longer word; both are folded."""
    return any(_stands(text, spelled) for spelled in {name, *(name.replace(quote, quote * 2) for quote in _QUOTES)})


def _stands(text: str, name: str) -> bool:
    """Return whether a name occurs in the text at word boundaries."""
    at = text.find(name) if name else -1
    while at >= 0:
        end = at + len(name)
        joined = (at > 0 and _of_word(text[at - 1]) and _of_word(name[0])) or (
            end < len(text) and _of_word(text[end]) and _of_word(name[-1])
        )
        if not joined:
            return True
        at = text.find(name, at + 1)
    return False


def _of_word(character: str) -> bool:
    return character in "_$" or character.isalnum() or character > "\x7f"
