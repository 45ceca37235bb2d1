"""SQL as text: tokens of MySQL's dialect, a cursor over them for the DDL parsers, and queries in DuckDB's spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|\#[^\n]*|/\*.*?\*/)
      | (?P<name>`(?:[^`]|``)*`)
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![A-Za-z_])|\.\d+)
      | (?P<word>[A-Za-z_@$\w][\w$@]*)
      | (?P<sign><=>|<>|!=|<=|>=|\|\||&&|:=|[-+*/%=<>(),.;?!|&^~:\[\]{}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


class Unparsable(ValueError):
    """The text is not SQL as the stand-in reads it; the message says what was expected and what came."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `text` is the value: unquoted for names and strings, as written for others. `start` is its offset."""

    kind: str
    text: str
    start: int
    end: int


def tokens(sql: str) -> list[Token]:
    """The tokens of a statement without white space and comments; raises `Unparsable`."""
    found = []
    at = 0
    while at < len(sql):
        match = _TOKEN.match(sql, at)
        if match is None:
            raise Unparsable(f"extraneous input at {sql[at : at + 20]!r}")
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(Token(kind, _value(kind, match.group()), at, match.end()))
        at = match.end()
    return found


def _value(kind: str, text: str) -> str:
    if kind == "name":
        return text[1:-1].replace("``", "`")
    if kind != "string":
        return text
    inner = text[1:-1].replace(text[0] * 2, text[0])
    if "\\" not in inner:
        return inner
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(1)), inner, flags=re.DOTALL)


class Parser:
    """A cursor over the tokens of one statement; keywords are matched without regard to case."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._tokens = tokens(sql)
        while self._tokens and self._tokens[-1].text == ";" and self._tokens[-1].kind == "sign":
            self._tokens.pop()
        self._at = 0

    @property
    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._tokens)

    def peek(self, offset: int = 0) -> Token:
        """The token here, or one further on; an empty one at the end."""
        at = self._at + offset
        return self._tokens[at] if at < len(self._tokens) else Token("end", "", len(self.sql), len(self.sql))

    def next(self) -> Token:
        """The token here; moves on."""
        token = self.peek()
        self._at += 1
        return token

    def sees(self, *words: str) -> bool:
        """Whether these words or signs come next; does not move."""
        return all(
            self.peek(number).kind in ("word", "sign") and self.peek(number).text.upper() == word
            for number, word in enumerate(words)
        )

    def take(self, *words: str) -> bool:
        """Move over these words if they come next; whether they did."""
        if not self.sees(*words):
            return False
        self._at += len(words)
        return True

    def need(self, *words: str) -> None:
        """Move over these words; raises `Unparsable` when others come."""
        if not self.take(*words):
            raise self.wrong(" ".join(words))

    def name(self) -> str:
        """An identifier, quoted or not."""
        token = self.peek()
        if token.kind not in ("name", "word"):
            raise self.wrong("an identifier")
        return self.next().text

    def dotted(self) -> tuple[str, ...]:
        """Identifiers joined by dots."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return tuple(parts)

    def string(self) -> str:
        """A quoted string."""
        if self.peek().kind != "string":
            raise self.wrong("a quoted string")
        return self.next().text

    def integer(self) -> int:
        """Decimal digits."""
        token = self.peek()
        if token.kind != "number" or not token.text.isdigit():
            raise self.wrong("a number")
        return int(self.next().text)

    def names(self) -> list[str]:
        """`(a, b, c)`."""
        self.need("(")
        found = [self.name()]
        while self.take(","):
            found.append(self.name())
        self.need(")")
        return found

    def properties(self) -> dict[str, str]:
        """`("a" = "b", ...)`."""
        self.need("(")
        found = {}
        while not self.sees(")"):
            key = self.string()
            self.need("=")
            found[key] = self.string()
            if not self.take(","):
                break
        self.need(")")
        return found

    def end(self) -> None:
        """Raises `Unparsable` when anything is left."""
        if not self.at_end:
            raise self.wrong("the end of the statement")

    def rest(self) -> str:
        """The text from here on."""
        return self.sql[self.peek().start :]

    def wrong(self, expected: str) -> Unparsable:
        """The error that something else was expected here."""
        token = self.peek()
        found = repr(token.text) if token.kind != "end" else "the end"
        line = self.sql.count("\n", 0, token.start) + 1
        return Unparsable(f"line {line}: expected {expected}, found {found}")


def to_duckdb(sql: str) -> str:
    """A query in DuckDB's spelling: names and strings quoted its way; functions stay. Raises `Unparsable`."""
    parts = []
    at = 0
    for token in tokens(sql):
        parts.append(" " if token.start > at else "")
        at = token.end
        if token.kind == "name":
            parts.append(quoted(token.text))
        elif token.kind == "string":
            parts.append(literal(token.text))
        elif token.text != ";":
            parts.append("IS NOT DISTINCT FROM" if token.text == "<=>" else token.text)
    return "".join(parts)


def quoted(name: str) -> str:
    """An identifier for DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string for DuckDB."""
    return "'" + text.replace("'", "''") + "'"
