"""Parses a column definition: name, type and every attribute clause of both servers.

Source of the grammar: `column_def`, `column_attribute` of MySQL's sql/sql_yacc.yy, `field_spec`, `attribute` of
MariaDB's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.statements import ColumnDefinition, Default, DefaultKind
from connectors.shared.ddl.tokens import TokenKind
from connectors.shared.ddl.types import STORED_TEXT, parse_charset, parse_type

_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
_MOMENTS = ("DATE", "TIME", "TIMESTAMP")
_COLUMN_END = ("FIRST", "AFTER", "PARTITION", "REMOVE")
_Fields = dict[str, Any]
"""Fields of `ColumnDefinition` set by an attribute."""


def parse_column(cursor: Cursor) -> ColumnDefinition:
    """Parse `name type attributes`, up to a comma, a closing bracket, FIRST, AFTER or the end."""
    return parse_column_body(cursor, cursor.column())


def parse_column_body(cursor: Cursor, name: str) -> ColumnDefinition:
    """Parse `type attributes` of a column whose name is already read."""
    spec = parse_type(cursor)
    column = ColumnDefinition(name, spec, nullable=False if spec.serial else None, auto_increment=spec.serial)
    while not (cursor.at_end() or cursor.at_symbol(",") or cursor.at_symbol(")") or cursor.at_any(*_COLUMN_END)):
        column = _attribute(cursor, column)
    return column


def parse_default(cursor: Cursor) -> Default:
    """Parse a default: a literal, a time function, or an expression, which is skipped."""
    if cursor.accept("NULL"):
        return Default(DefaultKind.NULL)
    if cursor.at_any(*_NOW):
        return _default_now(cursor)
    if cursor.at_symbol("("):
        return _bracketed(cursor)
    return _literal(cursor) or _expression(cursor)


def _attribute(cursor: Cursor, column: ColumnDefinition) -> ColumnDefinition:
    """Parse the attribute at the cursor; returns the column with it."""
    word = cursor.peek().word
    # MariaDB's storage engines have options of their own: `name = value`.
    if cursor.at_symbol("=", 1) and word not in _HANDLERS and word not in _WORDS:
        cursor.next()
        cursor.next()
        cursor.next()
        return column
    if word not in _HANDLERS and word not in _WORDS:
        raise cursor.unexpected("a column attribute")
    cursor.next()
    return replace(column, **(_WORDS[word] if word in _WORDS else _HANDLERS[word](cursor, column)))


def _not(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    if cursor.accept("SECONDARY"):
        return {}
    cursor.expect("NULL")
    cursor.accept("ENABLE")
    return {"nullable": False}


def _default(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    return {"default": parse_default(cursor)}


def _on_update(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.expect("UPDATE")
    _default_now(cursor)
    return {"updated_now": True}


def _serial(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.expect("DEFAULT", "VALUE")
    return {"nullable": False, "auto_increment": True}


def _primary(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.accept("KEY")
    return {"primary_key": True}


def _unique(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.accept("KEY")
    return {}


def _comment(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.accept_symbol("=")
    return {"comment": cursor.string()}


def _collate(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.accept_symbol("=")
    return {"collation": cursor.word_or_string()}


def _generated(cursor: Cursor, column: ColumnDefinition) -> _Fields:
    cursor.expect("ALWAYS", "AS")
    return _as(cursor, column)


def _as(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    if cursor.accept("ROW"):
        # A system versioning column (MariaDB), written by the server.
        word = cursor.accept_any("START", "END")
        if not word:
            raise cursor.unexpected("START or END")
        return {"nullable": False, "generated": True, "row_end": word == "END"}
    cursor.skip_brackets()
    return {"generated": True}


def _references(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.table()
    if cursor.at_symbol("("):
        cursor.skip_brackets()
    while word := cursor.accept_any("MATCH", "ON"):
        if word == "MATCH":
            cursor.next()
            continue
        cursor.next()
        if (
            not cursor.accept("SET", "NULL")
            and not cursor.accept("SET", "DEFAULT")
            and not cursor.accept("NO", "ACTION")
        ):
            cursor.next()
    return {}


def _constraint(cursor: Cursor, column: ColumnDefinition) -> _Fields:
    if not cursor.at("CHECK"):
        cursor.name()
    if cursor.accept("REFERENCES"):
        return _references(cursor, column)
    cursor.expect("CHECK")
    return _check(cursor, column)


def _check(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.skip_brackets()
    cursor.accept("NOT", "ENFORCED")
    cursor.accept("ENFORCED")
    return {}


def _one_value(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.accept_symbol("=")
    cursor.next()
    return {}


def _compressed(cursor: Cursor, column: ColumnDefinition) -> _Fields:
    """Parse COMPRESSED; in MariaDB the character set follows it."""
    if cursor.accept_symbol("="):
        cursor.next()
    return {"type": replace(column.type, charset=parse_charset(cursor) or column.type.charset)}


def _with(cursor: Cursor, column: ColumnDefinition) -> _Fields:
    """Parse WITH SYSTEM VERSIONING of a column (MariaDB), or WITH COMPRESSION_DICTIONARY (Percona).

    In a new table, one versioned column makes the table keep row versions, without its other columns.
    """
    if cursor.accept("COMPRESSION_DICTIONARY"):
        return _one_value(cursor, column)
    cursor.expect("SYSTEM", "VERSIONING")
    return {"versioned": True}


def _without(cursor: Cursor, _: ColumnDefinition) -> _Fields:
    cursor.expect("SYSTEM", "VERSIONING")
    return {}


_HANDLERS: dict[str, Callable[[Cursor, ColumnDefinition], _Fields]] = {
    "NOT": _not, "DEFAULT": _default, "ON": _on_update, "SERIAL": _serial, "PRIMARY": _primary, "UNIQUE": _unique,
    "COMMENT": _comment, "COLLATE": _collate, "GENERATED": _generated, "AS": _as, "REFERENCES": _references,
    "CONSTRAINT": _constraint, "CHECK": _check, "COLUMN_FORMAT": _one_value, "STORAGE": _one_value,
    "ENGINE_ATTRIBUTE": _one_value, "SECONDARY_ENGINE_ATTRIBUTE": _one_value, "SRID": _one_value,
    "REF_SYSTEM_ID": _one_value, "COMPRESSED": _compressed, "WITH": _with, "WITHOUT": _without,
}  # fmt: skip
_WORDS: dict[str, _Fields] = {
    "NULL": {"nullable": True}, "AUTO_INCREMENT": {"auto_increment": True, "nullable": False},
    "KEY": {"primary_key": True},
    "VIRTUAL": {}, "STORED": {}, "PERSISTENT": {}, "VISIBLE": {}, "INVISIBLE": {"invisible": True},
}  # fmt: skip
"""Attributes of one word; some do not affect rows."""


def _default_now(cursor: Cursor) -> Default:
    if not cursor.accept_any(*_NOW):
        raise cursor.unexpected("CURRENT_TIMESTAMP")
    if cursor.at_symbol("("):
        cursor.skip_brackets()
    return Default(DefaultKind.NOW)


def _bracketed(cursor: Cursor) -> Default:
    """Parse `(expression)`. A literal alone in brackets, as required for TEXT and JSON defaults, stays a literal."""
    introduced = cursor.at_symbol("-", 1) or cursor.peek(1).word.startswith("_")
    if cursor.at_symbol(")", 3 if introduced else 2):
        cursor.next()
        literal = Default(DefaultKind.NULL) if cursor.accept("NULL") else _literal(cursor)
        if literal is not None:
            cursor.expect_symbol(")")
            return replace(literal, bracketed=True)
        for _ in range(2 if introduced else 1):
            cursor.next()
        cursor.expect_symbol(")")
        return Default(DefaultKind.EXPRESSION)
    cursor.skip_brackets()
    return Default(DefaultKind.EXPRESSION)


def _literal(cursor: Cursor) -> Default | None:
    """Parse a literal at the cursor, with its sign or introducer; None when there is none."""
    sign = ""
    place = 0
    while cursor.at_symbol("-", place) or cursor.at_symbol("+", place):
        sign = ("" if sign else "-") if cursor.at_symbol("-", place) else sign
        place += 1
    first = cursor.peek(place)
    # A date literal (DATE'2024-01-01') and an introduced string (_latin1'x') have a word before the string.
    if first.word in _MOMENTS or (first.word.startswith("_") and not sign):
        place += 1
    literal = cursor.peek(place)
    kind = _LITERALS.get(literal.kind)
    if kind is None and literal.word in ("TRUE", "FALSE"):
        kind = DefaultKind.NUMBER
    if kind is None:
        return None
    introducer = first.word if first.word.startswith("_") else ""
    for _ in range(place):
        cursor.next()
    if kind is DefaultKind.STRING:
        text = cursor.string()
        if first.word in _MOMENTS and not STORED_TEXT[first.word.lower()].fullmatch(text):
            return Default(DefaultKind.EXPRESSION)  # servers spell it differently, which shows in a text column
        if introducer and not (introducer in _SAME_TEXT or (introducer in _SAME_ASCII and text.isascii())):
            return Default(DefaultKind.EXPRESSION)  # its bytes are other characters in that character set
        if introducer and cursor.dialect.mariadb and not (text.isascii() and text.isprintable() and "\\" not in text):
            return Default(DefaultKind.EXPRESSION)  # of a TEXT, MariaDB stores é as xC3xA9 (seen with 10.11)
        return Default(kind, text if introducer else cursor.dialect.converted(text))
    text = {"TRUE": "1", "FALSE": "0"}.get(literal.word, literal.text)
    cursor.next()
    if introducer and introducer != "_BINARY":
        return Default(DefaultKind.EXPRESSION)  # the column may have another character set than these bytes
    return Default(kind, sign + text)


_SAME_TEXT = frozenset({"_UTF8", "_UTF8MB3", "_UTF8MB4"})
_SAME_ASCII = frozenset({"_ASCII", "_LATIN1", "_BINARY"})
"""Introducers that do not change the text of the statement, always or if it is ASCII."""

_LITERALS = {
    TokenKind.STRING: DefaultKind.STRING,
    TokenKind.NUMBER: DefaultKind.NUMBER,
    TokenKind.HEX: DefaultKind.HEX,
    TokenKind.BIT: DefaultKind.BIT,
}


def _expression(cursor: Cursor) -> Default:
    """Parse an expression without brackets (MariaDB).

    It is a function call, a column, NEXT VALUE FOR a sequence, CASE, or a variable.
    """
    while cursor.accept_symbol("-") or cursor.accept_symbol("+"):
        pass
    if cursor.peek().kind is TokenKind.VARIABLE:
        cursor.next()
        return Default(DefaultKind.EXPRESSION)
    if cursor.at("CASE"):
        _skip_case(cursor)
        return Default(DefaultKind.EXPRESSION)
    if cursor.accept("NEXT", "VALUE", "FOR") or cursor.accept("PREVIOUS", "VALUE", "FOR"):
        cursor.table()
        return Default(DefaultKind.EXPRESSION)
    cursor.column()
    if cursor.at_symbol("("):
        cursor.skip_brackets()
    return Default(DefaultKind.EXPRESSION)


def _skip_case(cursor: Cursor) -> None:
    """Skip `CASE ... END`, which may be nested."""
    depth = 0
    while True:
        if cursor.at_end():
            raise cursor.unexpected("END")
        word = cursor.next().word
        depth += (word == "CASE") - (word == "END")
        if not depth:
            return
