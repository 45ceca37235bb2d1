"""Users, passwords and table privileges."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from cdc_standins.journal import Journal

PRIVILEGES = ("NODE_PRIV", "ADMIN_PRIV", "GRANT_PRIV", "SELECT_PRIV", "LOAD_PRIV", "ALTER_PRIV", "CREATE_PRIV",
              "DROP_PRIV", "SHOW_VIEW_PRIV", "USAGE_PRIV")  # fmt: skip


class Accounts:
    """Who may do what. A grant is on `*.*`, `db.*` or `db.table`; root may do all."""

    def __init__(self, journal: Journal, root_password: str) -> None:
        self._journal, self._lock = journal, threading.RLock()
        self._users: dict[str, dict[str, object]] = journal.all("user")
        self._users["root"] = {"password": root_password, "grants": {"*.*": list(PRIVILEGES)}}

    def password(self, user: str) -> str | None:
        """The password, or None when there is no such user."""
        found = self._users.get(user)
        return None if found is None else str(found["password"])

    def checks(self, credentials: tuple[str, str] | None) -> bool:
        """Whether user and password are right. A user may be written `name@cluster`."""
        if credentials is None:
            return False
        user = credentials[0].partition("@")[0]
        return self.password(user) == credentials[1]

    def create(self, user: str, password: str) -> bool:
        """A new user; False when there is one of that name."""
        with self._lock:
            if user in self._users:
                return False
            self._put(user, {"password": password, "grants": {}})
            return True

    def drop(self, user: str) -> None:
        """Remove a user."""
        with self._lock:
            self._journal.remove("user", user)
            self._users.pop(user, None)

    def grant(self, user: str, scope: str, privileges: Iterable[str]) -> bool:
        """Give privileges on a scope; False when there is no such user."""
        with self._lock:
            if user not in self._users:
                return False
            grants = dict(self._grants(user))
            grants[scope] = sorted({*grants.get(scope, ()), *privileges})
            self._put(user, self._users[user] | {"grants": grants})
            return True

    def may(self, user: str, privilege: str, db: str, table: str = "") -> bool:
        """Whether the user has a privilege on a table, or on a whole database without one."""
        user = user.partition("@")[0]
        scopes = ["*.*", f"{db}.*"] + ([f"{db}.{table}"] if table else [])
        grants = self._grants(user) if user in self._users else {}
        return any(wanted in grants.get(scope, ()) for scope in scopes for wanted in (privilege, "ADMIN_PRIV"))

    def sees(self, user: str, db: str, table: str = "") -> bool:
        """Whether the user has any privilege there, so that the name shows up for them."""
        grants = self._grants(user) if user in self._users else {}
        for scope, held in grants.items():
            in_db, _, in_table = scope.partition(".")
            if held and in_db in ("*", db) and (not table or in_table in ("*", table)):
                return True
        return False

    def _grants(self, user: str) -> dict[str, list[str]]:
        return self._users[user]["grants"]  # type: ignore[return-value]

    def _put(self, user: str, document: dict[str, object]) -> None:
        if user != "root":
            self._journal.put("user", user, document)
        self._users[user] = document
