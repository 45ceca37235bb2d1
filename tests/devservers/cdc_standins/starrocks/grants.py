"""Statements about users: CREATE USER, GRANT."""

from __future__ import annotations

from cdc_standins.sql_text import Parser
from cdc_standins.starrocks.errors import analyzing, denied
from cdc_standins.starrocks.users import PRIVILEGES, ROOT, Grant, Users


def run_user_statement(source: Parser, users: Users, user: str) -> bool:
    """Carry out the statement; False when it is none of these. Raises SqlError, Unparsable."""
    for words, action in ((("CREATE", "USER"), _create), (("GRANT",), _grant)):
        if source.take(*words):
            _only_root(user)
            action(source, users)
            source.end()
            return True
    return False


def _create(source: Parser, users: Users) -> None:
    quiet = source.take("IF", "NOT", "EXISTS")
    name = _user(source)
    users.create(name, _identified(source) or "", if_not_exists=quiet)


def _grant(source: Parser, users: Users) -> None:
    privileges, database, table = _what(source)
    source.need("TO")
    name = _user(source)
    for privilege in privileges:
        users.grant(name, Grant(privilege, database, table))


def _identified(source: Parser) -> str | None:
    return source.string() if source.take("IDENTIFIED", "BY") else None


def _user(source: Parser) -> str:
    """`'name'@'%'`, `'name'` or `name`, perhaps after USER. Only users from anywhere are known."""
    source.take("USER")
    token = source.peek()
    name = source.next().text if token.kind == "string" else source.name()
    name, _, host = name.partition("@")
    if host == "" and source.peek().text == "@":
        source.next()
        host = source.next().text
    if host not in ("", "%"):
        raise analyzing(f"the stand-in knows only users from '%', not from '{host}'")
    return name


def _what(source: Parser) -> tuple[list[str], str, str]:
    privileges = [_privilege(source)]
    while source.take(","):
        privileges.append(_privilege(source))
    source.need("ON")
    return privileges, *_where(source)


def _privilege(source: Parser) -> str:
    words = source.name().upper()
    if words not in PRIVILEGES:
        raise analyzing(f"cannot find privilege {words}")
    return words


def _where(source: Parser) -> tuple[str, str]:
    """The database and table of a grant; the table is empty for all of them."""
    if source.take("ALL", "TABLES", "IN", "DATABASE"):
        return source.name(), ""
    source.need("TABLE")
    database = source.name()
    source.need(".")
    return database, source.name()


def _only_root(user: str) -> None:
    if user != ROOT:
        raise denied("you need (at least one of) the GRANT privilege(s) on SYSTEM for this operation.")
