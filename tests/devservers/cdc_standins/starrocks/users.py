"""Who may connect, and what for: passwords, and privileges on everything, on a database or on a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdc_standins.journal import Journal
from cdc_standins.sql_server import SqlError
from cdc_standins.starrocks.errors import analyzing

ROOT = "root"
PRIVILEGES = frozenset(
    {"ALL", "SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "DROP", "CREATE TABLE", "CREATE DATABASE"}
)
_KIND = "user"


@dataclass(frozen=True, slots=True)
class Grant:
    """A privilege; an empty database or table means all of them."""

    privilege: str
    database: str = ""
    table: str = ""

    def covers(self, privilege: str, database: str, table: str) -> bool:
        """Does it allow that? A question without a table asks for any table of the database."""
        return (
            self.privilege in ("ALL", privilege)
            and self.database in ("", database)
            and (not table or self.table in ("", table))
        )


class Users:
    """All users. `root` may do everything and is always there."""

    def __init__(self, journal: Journal, root_password: str) -> None:
        self._journal = journal
        self._known: dict[str, dict[str, Any]] = journal.all(_KIND)
        if ROOT not in self._known:
            self._put(ROOT, {"password": root_password, "grants": [["ALL", "", ""]]})

    def password(self, user: str) -> str | None:
        """The password in clear, or None when there is no such user."""
        document = self._known.get(user)
        return None if document is None else str(document["password"])

    def right(self, login: tuple[str, str] | None) -> bool:
        """Is that a user with that password?"""
        return login is not None and self.password(login[0]) == login[1]

    def allowed(self, user: str, privilege: str, database: str, table: str = "") -> bool:
        """May the user do that?"""
        return any(grant.covers(privilege, database, table) for grant in self.grants(user))

    def grants(self, user: str) -> list[Grant]:
        """What the user has been granted."""
        document = self._known.get(user) or {"grants": []}
        return [Grant(*grant) for grant in document["grants"]]

    def create(self, user: str, password: str, *, if_not_exists: bool) -> None:
        """Raises SqlError when there is one of that name."""
        if self.password(user) is not None:
            if if_not_exists:
                return
            raise analyzing(f"Operation CREATE USER failed for '{user}'@'%' : user already exists.")
        self._put(user, {"password": password, "grants": []})

    def grant(self, user: str, grant: Grant) -> None:
        """Raises SqlError when there is no such user or privilege."""
        if grant.privilege not in PRIVILEGES:
            raise analyzing(f"cannot find privilege {grant.privilege}")
        document = self._document(user)
        item = [grant.privilege, grant.database, grant.table]
        if item not in document["grants"]:
            self._put(user, {**document, "grants": [*document["grants"], item]})

    def _document(self, user: str) -> dict[str, Any]:
        document = self._known.get(user)
        if document is None:
            raise _no_user(user)
        return document

    def _put(self, user: str, document: dict[str, Any]) -> None:
        self._journal.put(_KIND, user, document)
        self._known[user] = document


def _no_user(user: str) -> SqlError:
    return analyzing(f"user '{user}'@'%' doesn't exist.")
