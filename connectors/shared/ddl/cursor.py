"""A position in a statement's tokens: look ahead, accept, require, skip."""

from __future__ import annotations

from cdc.schema import TableId
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.tokens import Token, TokenKind, Unreadable, tokenize

_NAMES = (TokenKind.NAME, TokenKind.QUOTED)


class Cursor:
    """Reads tokens left to right: `take...` advances only on a match, `expect...` raises Unreadable without one."""

    def __init__(self, sql: str, dialect: DdlDialect, database: str) -> None:
        self.dialect = dialect
        self.database = database
        self._tokens = tokenize(sql, dialect)
        self._ahead: list[Token] = []

    def peek(self, ahead: int = 0) -> Token:
        """Return the token that many positions ahead; END after the last one."""
        while len(self._ahead) <= ahead:
            self._ahead.append(next(self._tokens))
        return self._ahead[ahead]

    def next(self) -> Token:
        """Consume one token and return it."""
        token = self.peek()
        del self._ahead[0]
        return token

    def at_end(self) -> bool:
        """Return whether the cursor is at the end of the text or at a `;`."""
        return self.peek().kind is TokenKind.END or self.at_symbol(";")

    def at(self, *words: str) -> bool:
        """Return whether these keywords come next, in this order."""
        return all(self.peek(place).word == word for place, word in enumerate(words))

    def at_any(self, *words: str) -> bool:
        """Return whether one of these keywords comes next."""
        return self.peek().word in words

    def at_symbol(self, symbol: str, ahead: int = 0) -> bool:
        """Return whether this symbol comes next."""
        token = self.peek(ahead)
        return token.kind is TokenKind.SYMBOL and token.text == symbol

    def accept(self, *words: str) -> bool:
        """Consume these keywords if they come next, in this order."""
        if not self.at(*words):
            return False
        for _ in words:
            self.next()
        return True

    def accept_any(self, *words: str) -> str:
        """Consume one of these keywords and return it, or return empty text."""
        return self.next().word if self.at_any(*words) else ""

    def accept_symbol(self, symbol: str) -> bool:
        """Consume this symbol if it comes next."""
        if not self.at_symbol(symbol):
            return False
        self.next()
        return True

    def accept_wait(self) -> None:
        """Consume MariaDB's `WAIT n` or `NOWAIT`, if one comes next."""
        if self.accept("WAIT"):
            if self.peek().kind is not TokenKind.NUMBER:
                raise self.unexpected("a number")
            self.next()
        self.accept("NOWAIT")

    def expect(self, *words: str) -> None:
        """Consume these keywords."""
        if not self.accept(*words):
            raise self.unexpected(" ".join(words))

    def expect_symbol(self, symbol: str) -> None:
        """Consume this symbol."""
        if not self.accept_symbol(symbol):
            raise self.unexpected(symbol)

    def name(self) -> str:
        """Read an identifier, quoted or not."""
        if self.peek().kind not in _NAMES:
            raise self.unexpected("a name")
        return self.next().text

    def at_name(self) -> bool:
        """Return whether an identifier or keyword comes next."""
        return self.peek().kind in _NAMES

    def word_or_string(self) -> str:
        """Read a name that may also be written as a string, like character sets."""
        if self.peek().kind is TokenKind.STRING:
            return self.next().text
        return self.name()

    def table(self) -> TableId:
        """Read `table`, `db.table` or `.table`; the default is the statement's own database."""
        if self.accept_symbol("."):
            return TableId(self.database, self.name())
        first = self.name()
        if self.accept_symbol("."):
            return TableId(first, self.name())
        return TableId(self.database, first)

    def column(self) -> str:
        """Read the name of a part of a table: `name`, and with MariaDB `table.name`, `db.table.name` or `.name`."""
        if self.accept_symbol("."):
            return self.name()
        name = self.name()
        while self.accept_symbol("."):
            name = self.name()
        return name

    def integer(self) -> int:
        """Read a whole number."""
        token = self.peek()
        if token.kind is not TokenKind.NUMBER or not token.text.isdigit():
            raise self.unexpected("a number")
        return int(self.next().text)

    def length(self) -> int:
        """Read the length of a type. Both servers accept `DECIMAL(19.5)` and ignore the digits after the point."""
        token = self.peek()
        whole, _, fraction = token.text.partition(".")
        if token.kind is not TokenKind.NUMBER or not whole.isdigit() or not (fraction or "0").isdigit():
            raise self.unexpected("a length")
        self.next()
        return int(whole)

    def string(self) -> str:
        """Read a string, concatenating adjacent ones. Skips a character set introducer before it."""
        if self.peek().kind is TokenKind.NAME and self.peek().text.startswith("_"):
            self.next()
        if self.peek().kind is not TokenKind.STRING:
            raise self.unexpected("a string")
        text = self.next().text
        while self.peek().kind is TokenKind.STRING:
            text += self.next().text
        return text

    def names_in_brackets(self) -> tuple[str, ...]:
        """Read `(a, b (10) DESC, ...)`: the first name of each element."""
        names, period = self.key_in_brackets()
        if period:
            raise self.unexpected("a column")
        return names

    def key_in_brackets(self) -> tuple[tuple[str, ...], str]:
        """Read `names_in_brackets`, and MariaDB's period after them, `(a, p WITHOUT OVERLAPS)`, or an empty name."""
        self.expect_symbol("(")
        names = [self._key_part()]
        while self.accept_symbol(","):
            names.append(self._key_part())
        period = names.pop() if self.accept("WITHOUT", "OVERLAPS") else ""
        self.expect_symbol(")")
        return tuple(names), period

    def _key_part(self) -> str:
        name = self.column()
        if self.at_symbol("("):
            self.skip_brackets()
        self.accept_any("ASC", "DESC")
        return name

    def skip_brackets(self) -> None:
        """Skip `( ... )` with everything in it."""
        self.expect_symbol("(")
        depth = 1
        while depth:
            token = self.next()
            if token.kind is TokenKind.END:
                raise Unreadable("a bracket is not closed")
            if token.kind is TokenKind.SYMBOL:
                depth += (token.text == "(") - (token.text == ")")

    def skip_to_comma(self) -> None:
        """Skip everything up to a comma or closing bracket of this level, or the end."""
        while not (self.at_end() or self.at_symbol(",") or self.at_symbol(")")):
            if self.at_symbol("("):
                self.skip_brackets()
            else:
                self.next()

    def skip_statement(self) -> None:
        """Skip everything up to the end of the text, without tokenizing it."""
        self._ahead = [Token(TokenKind.END, "", self.peek().start)]

    def unexpected(self, wanted: str) -> Unreadable:
        """Return the error for an unexpected token when `wanted` was required."""
        token = self.peek()
        found = "the end" if token.kind is TokenKind.END else repr(token.text[:40])
        return Unreadable(f"expected {wanted} at offset {token.start}, found {found}")
