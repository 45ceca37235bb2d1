"""One client's session at the SQL port: which statement it is, whether the user may, and what happens."""

from __future__ import annotations

import re
from collections.abc import Callable

import duckdb

from cdc_standins.doris.alter import alter_table, parse_alter
from cdc_standins.doris.copy import insert_select
from cdc_standins.doris.create import create_table, parse_create
from cdc_standins.doris.engine import Engine
from cdc_standins.doris.errors import sql_error
from cdc_standins.doris.maintenance import Maintenance
from cdc_standins.doris.query import run_query
from cdc_standins.doris.show import show, show_columns
from cdc_standins.faults import Answer
from cdc_standins.http_server import Cut
from cdc_standins.sql_server import Result, Session, SqlError
from cdc_standins.sql_text import Parser, Unparsable

_READING = ("SELECT", "WITH", "VALUES", "(")


class DorisAccounts:
    """The accounts of the SQL port."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def password(self, user: str) -> str | None:
        """The user's password, or None."""
        return self._engine.accounts.password(user.partition("@")[0])

    def session(self, user: str) -> Session:
        """A new session."""
        return DorisSession(self._engine, user)


class DorisSession:
    """Runs statements, one after another."""

    def __init__(self, engine: Engine, user: str) -> None:
        self._engine, self._user = engine, user
        self._db = ""
        self._variables: dict[str, str] = {}

    def use(self, database: str) -> None:
        """Make this the current database."""
        self._engine.catalog.need_database(database)
        if not self._engine.accounts.sees(self._user, database) and database != "information_schema":
            raise sql_error(f"Access denied for user '{self._user}' to database '{database}'", 1044, "42000")
        self._db = database

    def query(self, sql: str) -> Result | int:
        """Run a statement. Raises SqlError; Cut where a fault says so."""
        faults = self._engine.faults
        try:
            self._refused(faults.meet("sql", sql=sql))
            result = self._run(sql)
            self._refused(faults.meet("sql.done", sql=sql))
            return result
        except Answer:
            raise Cut from None  # an HTTP status has no meaning here
        except Unparsable as error:
            raise sql_error(f"Syntax error in {error}") from error
        except duckdb.Error as error:
            raise sql_error(f"the stand-in could not run this: {str(error).splitlines()[0]}") from error

    @staticmethod
    def _refused(fault: object) -> None:
        if fault is not None:
            raise sql_error(str(getattr(fault, "args", {}).get("message", "the stand-in was told to refuse")))

    def _run(self, sql: str) -> Result | int:
        parser = Parser(sql)
        if parser.at_end:
            return 0
        first = parser.peek().text.upper()
        if first in _READING:
            return run_query(self._engine, sql, self._db, self._user, self._variables)
        handlers: dict[str, Callable[[Parser], Result | int]] = {
            "USE": self._use, "SET": self._set, "SHOW": self._show, "DESC": self._describe, "DESCRIBE": self._describe,
            "CREATE": self._create, "DROP": self._drop, "ALTER": self._alter, "TRUNCATE": self._truncate,
            "GRANT": self._grant, "INSERT": self._insert,
        }  # fmt: skip
        handler = handlers.get(first)
        if handler is None:
            raise parser.wrong("a statement that the stand-in knows")
        return handler(parser)

    def name_of(self, parts: tuple[str, ...]) -> tuple[str, str]:
        """Database and table of a name with or without a database."""
        if len(parts) > 2:
            raise sql_error(f"Unknown catalog '{parts[0]}'")
        if len(parts) == 1 and not self._db:
            raise sql_error("No database selected", 1046, "3D000")
        return (parts[0], parts[1]) if len(parts) == 2 else (self._db, parts[0])

    def need(self, privilege: str, db: str, table: str = "") -> None:
        """SqlError when the user lacks the privilege."""
        if self._engine.accounts.may(self._user, privilege, db, table):
            return
        if not table:
            raise sql_error(f"Access denied for user '{self._user}'@'%' to database '{db}'", 1044, "42000")
        raise sql_error(
            f"Access denied; you need (at least one of) the ({privilege.removesuffix('_PRIV')}) privilege(s) "
            f"for this operation, table '{table}'",
            1227,
            "42000",
        )

    def _use(self, parser: Parser) -> int:
        parser.need("USE")
        self.use(parser.dotted()[-1])
        parser.end()
        return 0

    def _set(self, parser: Parser) -> int:
        parser.need("SET")
        text = re.sub(r"(?i)^(global|session)\s+|^@@(session|global)\.|^@@", "", parser.rest())
        for item in text.split(","):
            name, _, value = item.partition("=")
            self._variable(name.strip().lower(), value.strip().strip("'\""))
        return 0

    def _variable(self, name: str, value: str) -> None:
        if name == "show_hidden_columns" and value.lower() in ("1", "true"):
            raise sql_error("the stand-in keeps no hidden columns to show")
        self._variables[name] = value

    def _show(self, parser: Parser) -> Result:
        return show(self._engine, parser, self._db, self._user)

    def _describe(self, parser: Parser) -> Result:
        parser.next()
        db, name = self.name_of(parser.dotted())
        parser.end()
        return show_columns(self._engine.catalog.need(db, name), full=False)

    def _create(self, parser: Parser) -> int:
        parser.need("CREATE")
        if parser.take("TABLE"):
            statement = parse_create(parser)
            db, name = self.name_of(statement.name)
            self.need("CREATE_PRIV", db, name)
            like = None
            if statement.like:
                of_db, of_name = self.name_of(statement.like)
                self.need("SELECT_PRIV", of_db, of_name)
                like = self._engine.catalog.need(of_db, of_name)
            create_table(self._engine, statement, db, like)
            return 0
        return Maintenance(self._engine).create(parser, self)

    def _drop(self, parser: Parser) -> int:
        parser.need("DROP")
        return Maintenance(self._engine).drop(parser, self)

    def _alter(self, parser: Parser) -> int:
        parser.need("ALTER", "TABLE")
        db, name = self.name_of(parser.dotted())
        self.need("ALTER_PRIV", db, name)
        alter_table(self._engine, db, name, parse_alter(parser))
        return 0

    def _truncate(self, parser: Parser) -> int:
        parser.need("TRUNCATE", "TABLE")
        db, name = self.name_of(parser.dotted())
        parser.take("FORCE")
        parser.end()
        self.need("LOAD_PRIV", db, name)
        Maintenance(self._engine).truncate(db, name)
        return 0

    def _grant(self, parser: Parser) -> int:
        return Maintenance(self._engine).grant(parser, self)

    def _insert(self, parser: Parser) -> int:
        return insert_select(self._engine, parser, self, self._user)


__all__ = ["DorisAccounts", "DorisSession", "SqlError"]
