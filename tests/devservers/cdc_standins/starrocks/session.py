"""A client's session on the MySQL port: which statement goes where."""

from __future__ import annotations

from cdc_standins.faults import Answer
from cdc_standins.http_server import Cut
from cdc_standins.sql_server import Result, SqlError, text_result
from cdc_standins.sql_text import Parser, Unparsable
from cdc_standins.starrocks.catalog import INFORMATION
from cdc_standins.starrocks.errors import analyzing, syntax
from cdc_standins.starrocks.grants import run_user_statement
from cdc_standins.starrocks.insert import Insert
from cdc_standins.starrocks.select import Select
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.show import VARIABLES, Show
from cdc_standins.starrocks.statements import Statements, Who


class Session:
    """One connection of one user."""

    def __init__(self, services: Services, select: Select, user: str) -> None:
        """`select` is one for all sessions: it keeps information_schema."""
        self._services, self._select = services, select
        self._who = Who(user)
        self._statements, self._show = Statements(services), Show(services)
        self._insert = Insert(services, select)

    def use(self, database: str) -> None:
        """Make this the current database."""
        if database != INFORMATION:
            self._services.catalog.database_id(database)
        self._who.database = database

    def query(self, sql: str) -> Result | int:
        """Run one statement."""
        self._meet("sql", sql)
        try:
            result = self._run(sql)
        except Unparsable as error:
            raise syntax(sql[:30], str(error)) from error
        self._meet("sql.done", sql)
        return result

    def _run(self, sql: str) -> Result | int:
        source = Parser(sql)
        who, users = self._who, self._services.users
        if source.sees("SELECT") and source.peek(1).text.startswith("@"):
            return _variables(source)
        if source.sees("SELECT") or source.sees("WITH") or source.sees("("):
            return self._select.run(sql, who)
        if source.take("SHOW"):
            return self._show.run(source, who)
        if source.take("DESC") or source.take("DESCRIBE"):
            return self._show.describe(source, who)
        if source.take("INSERT", "INTO"):
            return self._insert.run(source, who)
        if source.take("USE"):
            name = source.name()
            source.end()
            self.use(name)
            return 0
        if run_user_statement(source, users, who.user) or self._statements.run(source, who):
            return 0
        if source.take("SET"):
            return 0  # session variables change nothing here
        raise analyzing(f"the stand-in does not know this statement: {sql[:60]}")

    def _meet(self, point: str, sql: str) -> None:
        try:
            fault = self._services.faults.meet(point, sql=sql, db=self._who.database)
        except Answer as answer:
            raise Cut from answer
        if fault is not None:
            code = int(fault.args.get("code", 1064))
            raise SqlError(str(fault.args.get("message", "injected failure")), code)


def _variables(source: Parser) -> Result:
    """`SELECT @@a, @@session.b AS c`."""
    source.need("SELECT")
    names: list[str] = []
    values: list[object] = []
    while True:
        written = source.name()
        while source.take("."):
            written = source.name()
        name = written.lstrip("@").lower()
        if name not in VARIABLES:
            raise SqlError(f"Unknown system variable '{name}'", 1193)
        names.append(source.name() if source.take("AS") else f"@@{name}")
        values.append(VARIABLES[name])
        if not source.take(","):
            break
    if source.take("LIMIT"):
        source.integer()
    source.end()
    return text_result(names, [values])
