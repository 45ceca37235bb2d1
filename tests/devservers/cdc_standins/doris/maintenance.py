"""Statements about databases, users, and the end of tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_standins.doris.accounts import PRIVILEGES
from cdc_standins.doris.catalog import SYSTEM, Table
from cdc_standins.doris.engine import Engine, physical_sql, view_sql
from cdc_standins.doris.errors import sql_error
from cdc_standins.sql_text import Parser, quoted

if TYPE_CHECKING:
    from cdc_standins.doris.sql import DorisSession

_NOT_HELD = ("main", "temp", "system", "pg_catalog")


class Maintenance:
    """Carries these statements out for one user."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, parser: Parser, session: DorisSession) -> int:
        """CREATE DATABASE and CREATE USER, after CREATE."""
        if parser.take("DATABASE"):
            quiet = parser.take("IF", "NOT", "EXISTS")
            name = parser.dotted()[-1]
            if parser.take("PROPERTIES"):
                parser.properties()
            parser.end()
            session.need("CREATE_PRIV", name)
            return self._create_database(name, quiet=quiet)
        parser.need("USER")
        quiet = parser.take("IF", "NOT", "EXISTS")
        user = _user(parser)
        password = parser.string() if parser.take("IDENTIFIED", "BY") else ""
        parser.end()
        session.need("GRANT_PRIV", "*")
        if not self._engine.accounts.create(user, password) and not quiet:
            raise sql_error(f"User '{user}'@'%' already exist")
        return 0

    def drop(self, parser: Parser, session: DorisSession) -> int:
        """DROP TABLE, DATABASE and USER, after DROP."""
        if parser.take("TABLE"):
            quiet = parser.take("IF", "EXISTS")
            db, name = session.name_of(parser.dotted())
            parser.take("FORCE")
            parser.end()
            session.need("DROP_PRIV", db, name)
            return self._drop_table(db, name, quiet=quiet)
        if parser.take("DATABASE"):
            quiet = parser.take("IF", "EXISTS")
            name = parser.dotted()[-1]
            parser.take("FORCE")
            parser.end()
            session.need("DROP_PRIV", name)
            return self._drop_database(name, quiet=quiet)
        parser.need("USER")
        user = _user(parser)
        parser.end()
        session.need("GRANT_PRIV", "*")
        self._engine.accounts.drop(user)
        return 0

    def grant(self, parser: Parser, session: DorisSession) -> int:
        """GRANT."""
        parser.need("GRANT")
        names = [parser.name().upper()]
        while parser.take(","):
            names.append(parser.name().upper())
        for name in names:
            if name not in PRIVILEGES:
                raise sql_error(f"Unknown privilege type '{name}'")
        parser.need("ON")
        scope = _scope(parser)
        parser.need("TO")
        user = _user(parser)
        parser.end()
        session.need("GRANT_PRIV", "*")
        if not self._engine.accounts.grant(user, scope, names):
            raise sql_error(f"user '{user}'@'%' does not exist")
        return 0

    def truncate(self, db: str, name: str) -> None:
        """Throw the table's rows away; those prepared before are lost with them."""
        with self._engine.catalog.lock:
            table = self._engine.catalog.need(db, name)
            if table.busy:
                raise sql_error(f"Table[{name}]'s state(SCHEMA_CHANGE) is not NORMAL. Do not allow doing TRUNCATE ops")
            empty = replace(table, generation=table.generation + 1)
            drop = f"DROP TABLE IF EXISTS main.{quoted(table.stored)}"
            self._engine.change(empty, physical_sql(empty), view_sql(empty), drop)

    def _create_database(self, name: str, *, quiet: bool) -> int:
        catalog = self._engine.catalog
        with catalog.lock:
            if catalog.has_database(name):
                if quiet:
                    return 0
                raise sql_error(f"Can't create database '{name}'; database exists", 1007, "HY000")
            taken = {one.lower() for one in catalog.databases()} | set(_NOT_HELD)
            if name.lower() in taken:
                raise sql_error(f"the stand-in cannot hold a database named {name}")
            self._engine.data.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}")
            catalog.add_database(name)
        return 0

    def _drop_database(self, name: str, *, quiet: bool) -> int:
        catalog = self._engine.catalog
        with catalog.lock:
            if not catalog.has_database(name) or name in SYSTEM:
                if quiet:
                    return 0
                raise sql_error(f"Can't drop database '{name}'; database doesn't exist", 1008, "HY000")
            for table in catalog.tables(name):
                self._remove(table)
            catalog.drop_database(name)
            self._engine.data.execute(f"DROP SCHEMA IF EXISTS {quoted(name)} CASCADE")
        return 0

    def _drop_table(self, db: str, name: str, *, quiet: bool) -> int:
        catalog = self._engine.catalog
        with catalog.lock:
            catalog.need_database(db)
            table = catalog.find(db, name)
            if table is None:
                if quiet:
                    return 0
                raise sql_error(f"Unknown table '{name}'", 1051, "42S02")
            self._remove(table)
        return 0

    def _remove(self, table: Table) -> None:
        self._engine.catalog.remove(table)
        self._engine.data.execute(
            f"DROP VIEW IF EXISTS {quoted(table.db)}.{quoted(table.name)}",
            f"DROP TABLE IF EXISTS main.{quoted(table.stored)}",
        )


def _user(parser: Parser) -> str:
    """`name`, `'name'` or `'name'@'host'`; the host means nothing here."""
    name = parser.next().text
    if parser.take("@"):
        parser.next()
    return name


def _scope(parser: Parser) -> str:
    parts = [parser.next().text]
    while parser.take("."):
        parts.append(parser.next().text)
    parts = parts[1:] if len(parts) == 3 else parts
    return f"{parts[0]}.{parts[1]}" if len(parts) == 2 else f"{parts[0]}.*"
