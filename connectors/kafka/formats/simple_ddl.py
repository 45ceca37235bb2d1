"""Statements that do one thing to one table, by their text: it is emptied, or it or a column is dropped or renamed.

Only what is understood to its last character counts: of a statement about several tables or columns, or with a clause
that is not known here, nothing is taken.
"""

from __future__ import annotations

import re

from cdc.schema import DropColumn, DropTable, RenameColumn, RenameTable, TableId, TruncateTable
from connectors.kafka.formats.clauses import plain

SimpleDdl = TruncateTable | DropTable | RenameTable | DropColumn | RenameColumn

_GAP = r"(?:\s|/\*(?!!|M!)(?:[^*]|\*(?!/))*\*/)"
_PART = r"(?:`(?:[^`]|``)+`|[\w$]+)"


def _name(group: str) -> str:
    return rf"(?:(?P<{group}_db>{_PART})\s*\.\s*)?(?P<{group}>{_PART})"


_STATEMENT = re.compile(
    rf"{_GAP}*(?:"
    rf"(?P<truncate>TRUNCATE){_GAP}+(?:TABLE{_GAP}+)?{_name('emptied')}"
    rf"|(?P<drop>DROP){_GAP}+TABLE{_GAP}+(?:IF{_GAP}+EXISTS{_GAP}+)?{_name('dropped')}(?:{_GAP}+(?:RESTRICT|CASCADE))?"
    rf"|RENAME{_GAP}+TABLE{_GAP}+{_name('old')}{_GAP}+TO{_GAP}+{_name('new')}"
    rf"|ALTER{_GAP}+TABLE{_GAP}+{_name('altered')}{_GAP}+RENAME{_GAP}+(?:(?:TO|AS){_GAP}+)?{_name('renamed')}"
    rf"|ALTER{_GAP}+TABLE{_GAP}+{_name('narrowed')}{_GAP}+DROP{_GAP}+(?:COLUMN{_GAP}+)?(?:IF{_GAP}+EXISTS{_GAP}+)?"
    rf"(?P<gone>{_PART})"
    rf"|ALTER{_GAP}+TABLE{_GAP}+{_name('named')}{_GAP}+RENAME{_GAP}+COLUMN{_GAP}+(?P<before>{_PART}){_GAP}+TO{_GAP}+"
    rf"(?P<after>{_PART})"
    rf"){_GAP}*;?{_GAP}*",
    re.IGNORECASE | re.DOTALL,
)


def simple_ddl(sql: str, database: str) -> SimpleDdl | None:
    """The change of one table by a statement, when that is all it does.

    Args:
        database: that of names without one. None is given when one of two names has a database and the other has not:
            whose the other one is cannot be told.
    """
    found = _STATEMENT.fullmatch(sql)
    if found is None:
        return None
    if found["truncate"]:
        return TruncateTable(_table(found, "emptied", database))
    if found["drop"]:
        return DropTable(_table(found, "dropped", database))
    if found["gone"]:
        return DropColumn(_table(found, "narrowed", database), plain(found["gone"]))
    if found["before"]:
        return RenameColumn(_table(found, "named", database), plain(found["before"]), plain(found["after"]))
    old, new = ("old", "new") if found["old"] else ("altered", "renamed")
    if (found[f"{old}_db"] is None) != (found[f"{new}_db"] is None):
        return None
    return RenameTable(_table(found, old, database), _table(found, new, database))


def _table(found: re.Match[str], group: str, database: str) -> TableId:
    own = found[f"{group}_db"]
    return TableId(database if own is None else plain(own), plain(found[group]))
