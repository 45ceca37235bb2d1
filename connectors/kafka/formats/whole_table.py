"""Statements about one whole table, told by their text: TRUNCATE, DROP and RENAME. Everything else is left alone.

Only what is understood to its last character counts: of a statement about several tables, or with a clause that is not
known here, nothing is taken.
"""

from __future__ import annotations

import re

from cdc.schema import DropTable, RenameTable, TableId, TruncateTable

WholeTable = TruncateTable | DropTable | RenameTable

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
    rf"){_GAP}*;?{_GAP}*",
    re.IGNORECASE | re.DOTALL,
)


def whole_table(sql: str, database: str) -> WholeTable | None:
    """What a statement does to a whole table, when that is all it does.

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
    old, new = ("old", "new") if found["old"] else ("altered", "renamed")
    if (found[f"{old}_db"] is None) != (found[f"{new}_db"] is None):
        return None
    return RenameTable(_table(found, old, database), _table(found, new, database))


def _table(found: re.Match[str], group: str, database: str) -> TableId:
    own = found[f"{group}_db"]
    return TableId(database if own is None else _plain(own), _plain(found[group]))


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
