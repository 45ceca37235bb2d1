"""Tokenizes SQL text by the rules of MySQL's and MariaDB's own lexers (sql/sql_lex.cc in both).

This is not a library's tokenizer because sqlglot's supports neither versioned comments by server version nor
NO_BACKSLASH_ESCAPES, and is costly to import; here one regular expression is enough. Tokens are produced lazily, so
that a long statement of which only the first words matter costs little.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from connectors.shared.ddl.dialect import DdlDialect


class Unreadable(Exception):
    """A statement that this parser does not understand; the message has the problem and its position."""


class TokenKind(Enum):
    """The kind of a token. NAME is a bare word, keyword or identifier; QUOTED is always an identifier."""

    NAME = "name"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    HEX = "hex literal"
    BIT = "bit literal"
    VARIABLE = "variable"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `text` has quotes and escapes resolved, only digits for HEX and BIT; `start` is its offset."""

    kind: TokenKind
    text: str
    start: int

    @property
    def word(self) -> str:
        """The keyword that this token may be, in upper case; empty for everything but a bare word."""
        return self.text.upper() if self.kind is TokenKind.NAME else ""


_IDENT = r"[0-9A-Za-z_$\u0080-\U0010ffff]"
_TOKEN = re.compile(
    rf"""
    (?P<space>   [\s\x00]+ | \#[^\n]* | --(?=[\s\x00-\x20]|\Z)[^\n]* )
  | (?P<comment> /\* )
  | (?P<close>   \*/ )
  | (?P<hex>     [xX]'(?P<hexdigits>[0-9A-Fa-f]*)' | 0x(?P<hexnumber>[0-9A-Fa-f]+)(?!{_IDENT}) )
  | (?P<bit>     [bB]'(?P<bitdigits>[01]*)' | 0b(?P<bitnumber>[01]+)(?!{_IDENT}) )
  | (?P<national>[nN](?=') )
  | (?P<number>  (?:\d+\.?\d*|\.\d+)[eE][+-]?\d+(?!{_IDENT}) | \d+\.\d* | \.\d+ | \d+(?!{_IDENT}) )
  | (?P<name>    {_IDENT}+ )
  | (?P<string>  ['"`] )
  | (?P<variable>@@?[0-9A-Za-z_$.\u0080-\U0010ffff]* )
  | (?P<symbol>  . )
    """,
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(rf"{_IDENT}+")
_VERSION = re.compile(r"\d{5,6}")
_PLAIN = {quote: re.compile(rf"[^{re.escape(quote)}]*{re.escape(quote)}") for quote in "'\"`]"}
_ESCAPED = {quote: re.compile(rf"[^{quote}\\]*(?:\\.[^{quote}\\]*)*{quote}", re.DOTALL) for quote in "'\""}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BEYOND_UTF8MB3 = re.compile("[\U00010000-\U0010ffff]")
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def tokenize(sql: str, dialect: DdlDialect) -> Iterator[Token]:
    """Yield the tokens of a statement, then END forever. Skips comments, but not the text of executed ones.

    Raises Unreadable at an unterminated string or comment.
    """
    at, executed, dot = 0, False, False
    while at < len(sql):
        # After `name.` comes a name, even one of digits only: `db.2024` is not the number .2024.
        match = (_NAME.match(sql, at) if dot else None) or _TOKEN.match(sql, at)
        if match is None:
            raise Unreadable(f"unexpected character at offset {at}")
        kind = match.lastgroup if match.re is _TOKEN else "name"
        start, at, dot = at, match.end(), False
        if kind == "comment":
            at, opened = _comment(sql, at, dialect)
            executed = executed or opened
        elif kind == "close" and executed:
            executed = False
        elif kind == "string" or (sql[start] == "[" and dialect.brackets and kind == "symbol"):
            text, at = _quoted(sql, start, dialect)
            name = sql[start] in "`[" or (sql[start] == '"' and dialect.ansi_quotes)
            dot = name and _dotted(sql, at)
            if name:
                yield Token(TokenKind.QUOTED, _stored(text, dialect), start)
            else:
                yield Token(TokenKind.STRING, text, start)
        elif kind in ("close", "symbol"):
            at = start + 1
            yield Token(TokenKind.SYMBOL, sql[start], start)
        elif kind == "name":
            dot = _dotted(sql, at)
            yield Token(TokenKind.NAME, _stored(match[0], dialect), start)
        elif kind == "national":
            yield Token(TokenKind.NAME, "_utf8mb3", start)
        elif kind != "space":
            yield _literal(match, start)
        if dot:
            yield Token(TokenKind.SYMBOL, ".", at)
            at += 1
    if executed:
        raise Unreadable("a comment is not closed")
    while True:
        yield Token(TokenKind.END, "", len(sql))


def _stored(name: str, dialect: DdlDialect) -> str:
    """Return a name as the server stores it, in utf8mb3.

    MySQL replaces all other characters with `?`, MariaDB refuses them.
    """
    return name if dialect.mariadb or name.isascii() else _BEYOND_UTF8MB3.sub("?", name)


def _literal(match: re.Match[str], start: int) -> Token:
    groups = match.groupdict()
    if groups["hex"]:
        return Token(TokenKind.HEX, groups["hexdigits"] or groups["hexnumber"] or "", start)
    if groups["bit"]:
        return Token(TokenKind.BIT, groups["bitdigits"] or groups["bitnumber"] or "", start)
    if groups["number"]:
        return Token(TokenKind.NUMBER, match[0], start)
    return Token(TokenKind.VARIABLE, match[0], start)


def _dotted(sql: str, at: int) -> bool:
    """Return whether a dot follows a name directly, with a name directly after it (the symbol rule handles blanks
    around dots)."""
    return sql.startswith(".", at) and _NAME.match(sql, at + 1) is not None


def _comment(sql: str, at: int, dialect: DdlDialect) -> tuple[int, bool]:
    """Handle a comment after `/*`; returns (where to continue, whether the comment's text is executed)."""
    marker = "M!" if dialect.mariadb and sql.startswith("M!", at) else "!" if sql.startswith("!", at) else ""
    if marker:
        version = _VERSION.match(sql, at + len(marker))
        if version is None:
            return at + len(marker), True
        if _executes(int(version[0]), marker, dialect):
            return version.end(), True
    # Comments nest one level when they are skipped: `/*!99999 a /* b */ c */`.
    depth = 1
    while depth:
        close, nested = sql.find("*/", at), sql.find("/*", at)
        if close < 0:
            raise Unreadable("a comment is not closed")
        if marker and 0 <= nested < close:
            depth, at = depth + 1, nested + 2
        else:
            depth, at = depth - 1, close + 2
    return at, False


def _executes(version: int, marker: str, dialect: DdlDialect) -> bool:
    # MariaDB treats versions 5.7.0 .. 9.99.99 as MySQL's and skips them, unless marked as its own.
    if dialect.mariadb and marker == "!" and 50700 <= version <= 99999:
        return False
    return version <= dialect.version


def _quoted(sql: str, start: int, dialect: DdlDialect) -> tuple[str, int]:
    """Return the text of a quoted string or name that starts at `start`, and the offset after it."""
    quote = "]" if sql[start] == "[" else sql[start]
    escapes = dialect.backslash_escapes and quote not in "`]" and not (quote == '"' and dialect.ansi_quotes)
    pattern = _ESCAPED[quote] if escapes else _PLAIN[quote]
    parts, at = [], start + 1
    while True:
        match = pattern.match(sql, at)
        if match is None:
            raise Unreadable(f"a string or name that starts at offset {start} is not closed")
        piece = match[0][:-1]
        parts.append(_ESCAPE.sub(_escape, piece) if escapes else piece)
        at = match.end()
        if not sql.startswith(quote, at):
            return "".join(parts), at
        parts.append(quote)
        at += 1


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[1])
