"""ALTER TABLE with several clauses, as Debezium's schema changes tell it: which columns it drops and renames.

The text says which columns go and which have another name; the list of columns that comes with it is what it has to
agree with. Added columns and new types are told by the rows. Of a statement with a clause that is not known, nothing is
taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cdc.schema import DropColumn, RenameColumn, TableId

_NOISE = re.compile(
    r"""/\*(?:[^*]|\*(?!/))*\*/|--\s[^\n]*|\#[^\n]*|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|(`(?:[^`]|``)+`)""",
    re.DOTALL,
)
_PART = r"(`(?:[^`]|``)+`|[\w$]+)"
_ALTER = re.compile(
    rf"\s*ALTER\s+(?:ONLINE\s+|IGNORE\s+)?TABLE\s+(?:IF\s+EXISTS\s+)?(?:{_PART}\s*\.\s*)?{_PART}\s(.*?);?\s*",
    re.IGNORECASE | re.DOTALL,
)
_DROP = re.compile(rf"DROP\s+(?:COLUMN\s+)?(?:IF\s+EXISTS\s+)?{_PART}(?:\s+(?:RESTRICT|CASCADE))?", re.IGNORECASE)
_CHANGE = re.compile(rf"CHANGE\s+(?:COLUMN\s+)?(?:IF\s+EXISTS\s+)?{_PART}\s+{_PART}\s.*", re.IGNORECASE | re.DOTALL)
_RENAME = re.compile(rf"RENAME\s+COLUMN\s+(?:IF\s+EXISTS\s+)?{_PART}\s+TO\s+{_PART}", re.IGNORECASE)
_HARMLESS = re.compile(
    r"(?:ADD(?!\s+PARTITION)|MODIFY|ALTER|DROP\s+(?:PRIMARY|INDEX|KEY|FOREIGN|CONSTRAINT|CHECK)|RENAME\s+(?:INDEX|KEY)|"
    r"ENGINE|COMMENT|AUTO_INCREMENT|DEFAULT|CHARACTER|CHARSET|COLLATE|CONVERT\s+TO|ROW_FORMAT|KEY_BLOCK_SIZE|ALGORITHM|"
    r"LOCK|FORCE|ORDER\s+BY|STATS_\w+|ENABLE|DISABLE)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_NO_COLUMN = re.compile(
    r"DROP\s+(?:PRIMARY|INDEX|KEY|FOREIGN|CONSTRAINT|CHECK|PARTITION)\b.*", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Altered:
    """Columns that a table loses, and old and new names of those that have another one."""

    table: TableId
    dropped: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]

    @property
    def nothing(self) -> bool:
        """Whether the rows tell all that it does."""
        return not self.dropped and not self.renamed

    def changes(self, names: Sequence[str]) -> list[DropColumn | RenameColumn]:
        """What it does to a table with these columns. One that no row had is not there to be dropped."""
        by_name = {name.casefold(): name for name in names}
        gone = (by_name.get(name.casefold()) for name in self.dropped)
        found: list[DropColumn | RenameColumn] = [DropColumn(self.table, name) for name in gone if name is not None]
        for old, new in self.renamed:
            name = by_name.get(old.casefold())
            if name is not None:
                found.append(RenameColumn(self.table, name, new))
        return found


def altered(sql: str, table: TableId, columns: Sequence[str]) -> Altered | None:
    """What an ALTER TABLE does to columns; None when that is not certain.

    Args:
        table: the one that the statement is about, as the message says.
        columns: those it has afterwards.
    """
    if "/*!" in sql or "/*M!" in sql:
        return None
    found = _ALTER.fullmatch(_NOISE.sub(lambda match: match[1] or (" " if match[0][0] in "/-#" else "''"), sql))
    if found is None or _plain(found[2]).casefold() != table.table.casefold():
        return None
    dropped, renamed = list[str](), list[tuple[str, str]]()
    for clause in _clauses(found[3]):
        pair = _RENAME.fullmatch(clause) or _CHANGE.fullmatch(clause)
        gone = None if _NO_COLUMN.fullmatch(clause) else _DROP.fullmatch(clause)
        if pair is not None:
            old, new = _plain(pair[1]), _plain(pair[2])
            if old != new:
                renamed.append((old, new))
        elif gone is not None:
            dropped.append(_plain(gone[1]))
        elif not _HARMLESS.fullmatch(clause):
            return None
    after = {name.casefold() for name in columns}
    left = {name.casefold() for name in (*dropped, *(old for old, _ in renamed))}
    agrees = not left & after and all(new.casefold() in after for _, new in renamed)
    return Altered(table, tuple(dropped), tuple(renamed)) if agrees else None


def _clauses(text: str) -> Iterator[str]:
    """The parts between commas that are in no parentheses."""
    depth, first = 0, 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            yield text[first:place].strip()
            first = place + 1
    yield text[first:].strip()


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
