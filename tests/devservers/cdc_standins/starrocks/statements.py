"""Statements that change something: databases, tables, users. Each takes what follows its first words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_standins.sql_server import SqlError
from cdc_standins.sql_text import Parser
from cdc_standins.starrocks.alter import read_column_clauses, renamed
from cdc_standins.starrocks.catalog import SYSTEM
from cdc_standins.starrocks.definitions import read_create
from cdc_standins.starrocks.errors import denied, unknown_table
from cdc_standins.starrocks.schema import Table, check_name
from cdc_standins.starrocks.services import Services

LONGEST_DATABASE = 256


@dataclass(slots=True)
class Who:
    """The user of a session and its current database (empty: none)."""

    user: str
    database: str = ""


class Statements:
    """Runs one statement for a user. Raises SqlError, or Unparsable for the session to translate."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: tuple[tuple[tuple[str, ...], Callable[[Parser, Who], None]], ...] = (
            (("CREATE", "DATABASE"), self._create_database),
            (("DROP", "DATABASE"), self._drop_database),
            (("CREATE", "TABLE"), self._create_table),
            (("DROP", "TABLE"), self._drop_table),
            (("TRUNCATE", "TABLE"), self._truncate),
            (("ALTER", "TABLE"), self._alter_table),
        )

    def run(self, source: Parser, who: Who) -> bool:
        """Carry out the statement; False when it is none of these."""
        for words, action in self._known:
            if source.take(*words):
                action(source, who)
                return True
        return False

    def _create_database(self, source: Parser, who: Who) -> None:
        quiet = source.take("IF", "NOT", "EXISTS")
        name = source.name()
        if source.take("PROPERTIES"):
            source.properties()
        source.end()
        check_name(name, "database", LONGEST_DATABASE)
        self._require(who, "CREATE DATABASE", "")
        if quiet and name in self._services.catalog.databases:
            return
        self._services.catalog.create_database(name)

    def _drop_database(self, source: Parser, who: Who) -> None:
        quiet = source.take("IF", "EXISTS")
        name = source.name()
        source.take("FORCE")
        source.end()
        self._require(who, "DROP", name)
        if name not in self._services.catalog.databases:
            if quiet:
                return
            raise SqlError(f"Can't drop database '{name}'; database doesn't exist", 1008)
        self._services.catalog.drop_database(name)
        self._services.transactions.drop_database(name)

    def _create_table(self, source: Parser, who: Who) -> None:
        quiet = source.take("IF", "NOT", "EXISTS")
        database, name = read_name(source, who)
        check_name(name, "table", 1024)
        self._require(who, "CREATE TABLE", database)
        if database in SYSTEM:
            raise denied(f"cannot create tables in {database}")
        if source.take("LIKE"):
            like = self._table(source, who)
            self._require(who, "SELECT", like.database, like.name)
            source.end()
            table = replace(like, database=database, name=name)
        else:
            table = read_create(source, database, name, backends=1)
        catalog = self._services.catalog
        catalog.database_id(database)
        if quiet and catalog.find(database, name) is not None:
            return
        catalog.create_table(table)

    def _drop_table(self, source: Parser, who: Who) -> None:
        quiet = source.take("IF", "EXISTS")
        database, name = read_name(source, who)
        source.take("FORCE")
        source.end()
        self._require(who, "DROP", database, name)
        table = self._services.catalog.find(database, name)
        if table is None:
            if quiet:
                return
            self._services.catalog.database_id(database)
            raise SqlError(f"Unknown table '{database}.{name}'", 1051, "42S02")
        with self._services.catalog.lock:
            self._services.jobs.drop_table(table)
            self._services.catalog.drop_table(table)

    def _truncate(self, source: Parser, who: Who) -> None:
        table = self._table(source, who)
        source.end()
        self._require(who, "DELETE", table.database, table.name)
        with self._services.catalog.lock:
            self._services.jobs.check_idle(table)
            self._services.catalog.truncate(table)

    def _alter_table(self, source: Parser, who: Who) -> None:
        table = self._table(source, who)
        self._require(who, "ALTER", table.database, table.name)
        services = self._services
        with services.catalog.lock:
            table = services.catalog.table(table.database, table.name)
            services.jobs.check_idle(table)
            if source.take("RENAME", "COLUMN"):
                self._rename_column(source, table)
            elif source.take("RENAME"):
                name = source.name()
                source.end()
                check_name(name, "table", 1024)
                services.catalog.rename(table, name)
            elif source.take("SWAP", "WITH"):
                other = services.catalog.table(table.database, source.name())
                source.end()
                services.jobs.check_idle(other)
                services.catalog.swap(table, other)
            elif source.take("COMMENT"):
                source.need("=")
                comment = source.string()
                source.end()
                services.catalog.replace(table, replace(table, comment=comment))
            else:
                change = read_column_clauses(source, table)
                after = table.with_columns(change.columns)
                services.jobs.submit(table, after, fast=change.fast)

    def _rename_column(self, source: Parser, table: Table) -> None:
        old = source.name()
        source.need("TO")
        new = source.name()
        source.end()
        names = tuple(new if name.lower() == old.lower() else name for name in table.distribution)
        after = replace(table.with_columns(renamed(table, old, new)), distribution=names)
        self._services.catalog.replace(table, after)

    def _table(self, source: Parser, who: Who) -> Table:
        database, name = read_name(source, who)
        return self._services.catalog.table(database, name)

    def _require(self, who: Who, privilege: str, database: str, table: str = "") -> None:
        if not self._services.users.allowed(who.user, privilege, database, table):
            where = ".".join(part for part in (database, table) if part) or "SYSTEM"
            raise denied(f"you need (at least one of) the {privilege} privilege(s) on {where} for this operation.")


def read_name(source: Parser, who: Who) -> tuple[str, str]:
    """`[catalog.]database.table` or `table` in the current database. Raises SqlError without one."""
    parts = source.dotted()
    if len(parts) == 1:
        if not who.database:
            raise SqlError("No database selected", 1046, "3D000")
        return who.database, parts[0]
    if len(parts) == 3 and parts[0] == "default_catalog":
        parts = parts[1:]
    if len(parts) != 2:
        raise unknown_table(".".join(parts[:-1]), parts[-1])
    return parts[0], parts[1]
