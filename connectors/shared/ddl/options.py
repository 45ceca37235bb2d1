"""Parses table and database options, one at a time: relevant ones are kept, the other known ones are skipped.

Source of the names: `create_table_option` of sql/sql_yacc.yy in both servers.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.shared.ddl.charsets import charset_name
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.statements import TableOptions
from connectors.shared.ddl.tokens import TokenKind

_IGNORED = frozenset(
    {
        "ENGINE", "TYPE", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "TABLE_CHECKSUM", "COMPRESSION", "CONNECTION",
        "DELAY_KEY_WRITE", "ENCRYPTION", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE", "SECONDARY_ENGINE",
        "INSERT_METHOD", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "PACK_KEYS", "PASSWORD", "ROW_FORMAT",
        "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "TABLESPACE", "STORAGE", "UNION",
        "AUTOEXTEND_SIZE", "PAGE_CHECKSUM", "TRANSACTIONAL", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ENCRYPTED",
        "ENCRYPTION_KEY_ID", "ITEF_QUOTES", "IETF_QUOTES",
    }
)  # fmt: skip


def parse_option(cursor: Cursor, options: TableOptions) -> TableOptions | None:
    """Add one table option at the cursor to `options`; None, with nothing read, when there is none."""
    if cursor.accept("DEFAULT"):
        found = _charset_option(cursor, options)
        if found is None and not cursor.at("ENCRYPTION"):
            raise cursor.unexpected("CHARACTER SET, COLLATE or ENCRYPTION")
        if found is None:
            _skip_value(cursor)
        return found or options
    if found := _charset_option(cursor, options):
        return found
    if cursor.accept("COMMENT"):
        cursor.accept_symbol("=")
        return replace(options, comment=cursor.string())
    if cursor.accept("WITH", "SYSTEM", "VERSIONING"):
        return replace(options, versioned=True)
    if cursor.accept("START", "TRANSACTION"):
        return options
    if cursor.at_any("DATA", "INDEX") and cursor.peek(1).word == "DIRECTORY":
        cursor.next()
        _skip_value(cursor)
        return options
    if cursor.at("SEQUENCE") and (cursor.at_symbol("=", 1) or cursor.peek(1).kind is TokenKind.NUMBER):
        return replace(options, sequence=_skip_value(cursor) == "1")
    if cursor.peek().word in _IGNORED or cursor.at_symbol("=", 1):
        _skip_value(cursor)
        return options
    return None


def _charset_option(cursor: Cursor, options: TableOptions) -> TableOptions | None:
    if cursor.accept("CHARACTER", "SET") or cursor.accept("CHARSET") or cursor.accept("CHAR", "SET"):
        cursor.accept_symbol("=")
        if cursor.accept("DEFAULT"):
            return replace(options, default_charset=True)
        return replace(options, charset=charset_name(cursor.word_or_string()))
    if cursor.accept("COLLATE"):
        cursor.accept_symbol("=")
        if cursor.accept("DEFAULT"):
            return options
        return replace(options, collation=cursor.word_or_string())
    return None


def _skip_value(cursor: Cursor) -> str:
    """Skip `name [=] value`; returns the value's text."""
    cursor.next()
    cursor.accept_symbol("=")
    if cursor.at_symbol("("):
        cursor.skip_brackets()
        return ""
    if cursor.at_end() or cursor.at_symbol(",") or cursor.at_symbol(")"):
        raise cursor.unexpected("a value")
    return cursor.next().text
