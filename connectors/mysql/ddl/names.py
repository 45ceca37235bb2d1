"""Names of tables as statements write them, and as the server knows them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cdc.schema import TableId

_QUOTES = ("`", '"')


def known_name(table: TableId, lower_case_table_names: int, known: Collection[TableId]) -> TableId:
    """The name by which the server knows a table that a statement writes so; `known` are those it may be."""
    if lower_case_table_names == 1:
        return TableId(table.database.lower(), table.table.lower())
    if lower_case_table_names == 2 and table not in known:
        folded = table.database.lower(), table.table.lower()
        return next((name for name in known if (name.database.lower(), name.table.lower()) == folded), table)
    return table


def names_in(sql: str, database: str, tables: Iterable[TableId]) -> frozenset[TableId]:
    """The tables that a statement may be about which is not understood: those whose name is in its text, in any case.

    Too many does no harm, they are read and re-snapshotted; one too few would differ silently. So nothing is parsed: a
    name counts wherever it stands, quoted or not, also in a comment or a string, as long as it is not a part of a
    longer word. A table of another database than the statement's default one counts where that is named too.
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


def has_name(text: str, name: str) -> bool:
    """Whether a name stands in a text, quoted or not and not as a part of a longer word; both are folded."""
    return any(_stands(text, spelled) for spelled in {name, *(name.replace(quote, quote * 2) for quote in _QUOTES)})


def _stands(text: str, name: str) -> bool:
    """Whether a name is in the text, and its ends are no middle of a word."""
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
