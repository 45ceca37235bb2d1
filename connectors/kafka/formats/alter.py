"""ALTER TABLE with several clauses: columns it drops and renames, and what rows that are there get in new ones.

The text says which columns go and which have another name; the list of columns that comes with it is what it has to
agree with. Types of added columns and new types are told by the rows. Of a statement with a clause that is not known,
nothing is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdc.schema import DropColumn, RenameColumn, TableId
from connectors.kafka.formats.added import Added, added
from connectors.kafka.formats.clauses import PART, clauses, plain, without_noise

_ALTER = re.compile(
    rf"\s*ALTER\s+(?:ONLINE\s+|IGNORE\s+)?TABLE\s+(?:IF\s+EXISTS\s+)?(?:{PART}\s*\.\s*)?{PART}\s(.*?);?\s*",
    re.IGNORECASE | re.DOTALL,
)
_DROP = re.compile(rf"DROP\s+(?:COLUMN\s+)?(?:IF\s+EXISTS\s+)?{PART}(?:\s+(?:RESTRICT|CASCADE))?", re.IGNORECASE)
_CHANGE = re.compile(rf"CHANGE\s+(?:COLUMN\s+)?(?:IF\s+EXISTS\s+)?{PART}\s+{PART}\s.*", re.IGNORECASE | re.DOTALL)
_RENAME = re.compile(rf"RENAME\s+COLUMN\s+(?:IF\s+EXISTS\s+)?{PART}\s+TO\s+{PART}", re.IGNORECASE)
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
class Filled:
    """Columns that a table gets with the first row that has them, and a value for the rows that are there by then."""

    table: TableId
    columns: tuple[Added, ...]


@dataclass(frozen=True, slots=True)
class Altered:
    """Columns that a table loses, and old and new names of those that have another one.

    Attributes:
        added: those of the new columns in which rows that are there do not just get NULL.
    """

    table: TableId
    dropped: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    added: tuple[Added, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the rows tell all that it does."""
        return not self.dropped and not self.renamed and not self.filled

    @property
    def filled(self) -> tuple[Added, ...]:
        """New columns in which rows that are there get a value that is certain."""
        return tuple(item for item in self.added if not item.unsure)

    @property
    def unsure(self) -> tuple[Added, ...]:
        """New columns in which rows that are there have a value in the source that nothing tells."""
        return tuple(item for item in self.added if item.unsure)

    def changes(self, names: Sequence[str]) -> list[DropColumn | RenameColumn | Filled]:
        """The changes to a table with these columns. A column that no row had is not there to be dropped."""
        by_name = {name.casefold(): name for name in names}
        gone = (by_name.get(name.casefold()) for name in self.dropped)
        found: list[DropColumn | RenameColumn | Filled] = [
            DropColumn(self.table, name) for name in gone if name is not None
        ]
        for old, new in self.renamed:
            name = by_name.get(old.casefold())
            if name is not None:
                found.append(RenameColumn(self.table, name, new))
        new_ones = tuple(item for item in self.filled if not (item.if_new and item.name.casefold() in by_name))
        return [*found, Filled(self.table, new_ones)] if new_ones else found


def only_adds(sql: str, table: TableId) -> Altered | None:
    """The columns added by an ALTER TABLE without a list of columns; None when it does more, or nothing of note."""
    found = altered(sql, table, None)
    return found if found is not None and found.added and not found.dropped and not found.renamed else None


def altered(sql: str, table: TableId, columns: Sequence[str] | None) -> Altered | None:
    """The changes of columns that an ALTER TABLE makes; None when they are not certain.

    Args:
        table: the one that the statement is about, as the message says.
        columns: those it has afterwards; None when that is not told.
    """
    if "/*!" in sql or "/*M!" in sql:
        return None
    text, literals = without_noise(sql)
    found = _ALTER.fullmatch(text)
    if found is None or plain(found[2]).casefold() != table.table.casefold():
        return None
    if found[1] is not None and plain(found[1]).casefold() != table.database.casefold():
        return None
    dropped, renamed, new_ones = list[str](), list[tuple[str, str]](), list[Added]()
    for clause in clauses(found[3]):
        pair = _RENAME.fullmatch(clause) or _CHANGE.fullmatch(clause)
        gone = None if _NO_COLUMN.fullmatch(clause) else _DROP.fullmatch(clause)
        if pair is not None:
            old, new = plain(pair[1]), plain(pair[2])
            if old != new:
                renamed.append((old, new))
        elif gone is not None:
            dropped.append(plain(gone[1]))
        elif clause[:3].upper() == "ADD" and _HARMLESS.fullmatch(clause):
            new_ones += added(clause, literals)
        elif not _HARMLESS.fullmatch(clause):
            return None
    told = tuple(item for item in new_ones if item.unsure or item.fill is not None)
    change = Altered(table, tuple(dropped), tuple(renamed), told)
    if columns is None:
        return change
    after = {name.casefold() for name in columns}
    left = {name.casefold() for name in (*dropped, *(old for old, _ in renamed))}
    there = (*(new for _, new in renamed), *(item.name for item in new_ones))
    return change if not left & after and all(name.casefold() in after for name in there) else None
