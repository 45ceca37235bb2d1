"""Statements about users: CREATE, DROP and ALTER USER, SET PASSWORD, GRANT, REVOKE, SHOW GRANTS."""

from __future__ import annotations

from cdc_standins.sql_text import Parser
from cdc_standins.starrocks.errors import analyzing, denied
from cdc_standins.starrocks.users import PRIVILEGES, ROOT, Grant, Users


def run_user_statement(source: Parser, users: Users, user: str) -> bool:
    """Carry out the statement; False when it is none of these. Raises SqlError, Unparsable."""
    if source.take("SET", "PASSWORD"):
        name = _user(source) if source.take("FOR") else user
        source.need("=")
        source.need("PASSWORD")
        source.need("(")
        password = source.string()
        source.need(")")
        _only_root(user, allowed=name == user)
        users.set_password(name, password)
        return True
    for words, action in (
        (("CREATE", "USER"), _create),
        (("DROP", "USER"), _drop),
        (("ALTER", "USER"), _alter),
        (("GRANT",), _grant),
        (("REVOKE",), _revoke),
    ):
        if source.take(*words):
            _only_root(user)
            action(source, users)
            source.end()
            return True
    return False


def grants_of(users: Users, user: str) -> list[tuple[str, str, str]]:
    """Rows of SHOW GRANTS: UserIdentity, Catalog, Grants."""
    rows = []
    for grant in users.grants(user):
        where = f"{grant.database or '*'}.{grant.table or '*'}"
        rows.append((f"'{user}'@'%'", "default", f"GRANT {grant.privilege} ON {where} TO USER '{user}'@'%'"))
    return rows


def _create(source: Parser, users: Users) -> None:
    quiet = source.take("IF", "NOT", "EXISTS")
    name = _user(source)
    users.create(name, _identified(source) or "", if_not_exists=quiet)


def _drop(source: Parser, users: Users) -> None:
    quiet = source.take("IF", "EXISTS")
    users.drop(_user(source), if_exists=quiet)


def _alter(source: Parser, users: Users) -> None:
    name = _user(source)
    password = _identified(source)
    if password is None:
        raise source.wrong("IDENTIFIED BY")
    users.set_password(name, password)


def _grant(source: Parser, users: Users) -> None:
    privileges, database, table = _what(source)
    source.need("TO")
    name = _user(source)
    for privilege in privileges:
        users.grant(name, Grant(privilege, database, table))


def _revoke(source: Parser, users: Users) -> None:
    privileges, database, table = _what(source)
    source.need("FROM")
    name = _user(source)
    for privilege in privileges:
        users.revoke(name, Grant(privilege, database, table))


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
    if words == "ALL":
        source.take("PRIVILEGES")
    elif words == "CREATE":
        words = f"CREATE {source.name().upper()}"
    if words not in PRIVILEGES:
        raise analyzing(f"cannot find privilege {words}")
    return words


def _where(source: Parser) -> tuple[str, str]:
    """The database and table of a grant, empty for all."""
    if source.take("ALL", "DATABASES") or source.take("SYSTEM"):
        return "", ""
    if source.take("ALL", "TABLES", "IN"):
        if source.take("ALL", "DATABASES"):
            return "", ""
        source.need("DATABASE")
        return source.name(), ""
    if source.take("DATABASE"):
        return source.name(), ""
    source.take("TABLE")
    database = _part(source)
    source.need(".")
    return database, _part(source)


def _part(source: Parser) -> str:
    return "" if source.take("*") else source.name()


def _only_root(user: str, *, allowed: bool = False) -> None:
    if user != ROOT and not allowed:
        raise denied("you need (at least one of) the GRANT privilege(s) on SYSTEM for this operation.")
