"""Text of existing rows that an ALTER may change without a trace in the log. Pure.

A sink sees text before and after, so it cannot tell: labels of ENUM and SET, addresses and UUIDs, and characters
missing from a character set, which servers without a strict sql_mode turn into `?`. Sinks store text as Unicode, so the
conversion between bytes and text of another character set gives other results there.
"""

from __future__ import annotations

from connectors.mysql.ddl.defaults import is_bytes
from connectors.mysql.table import MySqlColumn
from connectors.shared.ddl.dialect import DdlDialect

_LABELLED = ("enum", "set")
_SPELLED = ("uuid", "inet4", "inet6")
"""Types of MariaDB that are text in a sink."""
_WHOLE = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})
_UTF8 = ("utf8mb4", "utf8mb3", "utf8", "ascii")
_NOT_ASCII = "swe7"
"""The only character set with letters in place of some of ASCII's signs."""
_BASIC_PLANE = frozenset({"utf8", "utf8mb3", "ucs2"})


def rewritten_text(old: MySqlColumn, new: MySqlColumn, *, strict: bool = False) -> str:
    """Return, in words, the change that may have altered values of a text column that stays text; empty for none.

    `strict`: the statement ran under a strict sql_mode, in which both servers refuse it if text has a letter beyond
    U+FFFF and the new character set ends there (1366; seen with CHAR, VARCHAR and TEXT).
    """
    for text, other in ((old, new), (new, old)):
        if is_bytes(other.type) and not is_bytes(text.type) and text.charset not in (None, *_UTF8, "binary"):
            return f"the bytes of the character set {text.charset}, which are not those of UTF-8,"
    if new.type in _LABELLED and old.type not in _LABELLED:
        return f"a new type, {new.type.upper()}, whose labels replace text that is equal to them,"
    if new.type in _SPELLED and old.type != new.type:
        return f"a new type, {new.type.upper()}, which spells values in its own way and has no other text,"
    if old.charset is None or new.charset is None or "binary" in (old.charset, new.charset):
        return ""
    if new.type in _LABELLED and not _keeps_labels(old, new):
        return "another list of labels"
    refused = strict and new.charset in _BASIC_PLANE and old.type not in _LABELLED
    if new.type not in _LABELLED and not refused and _lacks(new.charset, old.charset):
        return f"the character set {new.charset}, which lacks characters of {old.charset},"
    return ""


def cuts_blanks(old: MySqlColumn, new: MySqlColumn) -> bool:
    """Return whether blanks, tabs and line ends beyond the new length are cut in any sql_mode: if text is converted."""
    same = (old.type, old.charset) == (new.type, new.charset)
    return not same and old.charset is not None and new.charset is not None


def rewritten_by_session(old: MySqlColumn, new: MySqlColumn, dialect: DdlDialect) -> str:
    """Return why a session setting besides strict modes may have altered values of a column; empty for none."""
    if dialect.pads_char and old.type == "char" and new.type != "char":
        return f"PAD_CHAR_TO_FULL_LENGTH has filled up values of column {old.name}"
    moved = not dialect.mariadb and not dialect.fixed_zone and old.type == new.type == "timestamp"
    if moved and old.length != new.length:
        return f"times of column {old.name} went through the session's time zone, which has some hours twice"
    return ""


def _keeps_labels(old: MySqlColumn, new: MySqlColumn) -> bool:
    """Return whether every label stays as spelled; in a SET also in the same order, which values show."""
    kept = tuple(label for label in new.labels if label in old.labels)
    return kept == old.labels if new.type == "set" else set(kept) == set(old.labels)


def _lacks(new: str, old: str) -> bool:
    if new == old or new in _WHOLE or (old == "ascii" and new != _NOT_ASCII):
        return False
    return not (new in _BASIC_PLANE and old not in _WHOLE)
