"""The tables of the sink's server and their schema changes: a few queries however many tables there are. Driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from cdc.errors import ChangeRefused, SinkUnavailable
from cdc.evolution.session import SchemaSession
from cdc.evolution.steps import Statement
from cdc.evolution.table import ActualColumn, Layout
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from connectors.mysql.server.information_schema import read_tables, rows_of_databases
from connectors.mysql.sink.dialect import ServerDialect, ServerTable
from connectors.mysql.sink.refusal import is_of_the_server, of_the_table
from connectors.mysql.sink.session import SinkSession
from connectors.mysql.sink.types import ServerType, canonical, key_collation
from connectors.mysql.table import MySqlTable, spelled
from connectors.shared.sql.client import StatementRefused
from connectors.shared.sql.text import quoted

_COLLATIONS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLLATION_NAME FROM information_schema.COLUMNS "
    "WHERE COLLATION_NAME IS NOT NULL AND"
)
_UNIQUE = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, SEQ_IN_INDEX FROM information_schema.STATISTICS "
    "WHERE NON_UNIQUE = 0 AND INDEX_NAME <> 'PRIMARY' AND"
)


_NOT_TRANSACTIONAL = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLES.ENGINE FROM information_schema.TABLES "
    "JOIN information_schema.ENGINES ON ENGINES.ENGINE = TABLES.ENGINE AND TRANSACTIONS <> 'YES' WHERE"
)
_ROW_TOO_LONG, _KEY_TOO_LONG = 1118, 1071
_HINTS = {
    _ROW_TOO_LONG: "text takes four bytes a character here: create or alter the table yourself, with TEXT or another "
    "character set, and it is taken as it is; or SET GLOBAL innodb_strict_mode = OFF",
    _KEY_TOO_LONG: "text takes four bytes a character here: create the table yourself, its key in another character "
    "set and a collation that tells all values apart (CHARACTER SET latin1 COLLATE latin1_bin)",
}
_CHANGES = ("ALTER ", "CREATE ", "DROP ", "RENAME ", "TRUNCATE ")
"""Prefixes of the dialect's schema changes."""

_RUNNING = (
    "SELECT INFO FROM information_schema.PROCESSLIST "
    "WHERE USER = SUBSTRING_INDEX(USER(), '@', 1) AND COMMAND = 'Query' AND INFO IS NOT NULL"
)

_NO_GENERATED_KEYS = "SET SESSION sql_generate_invisible_primary_key = OFF"


class MySqlSchemas(SchemaSession[ServerType]):
    """Applies schema changes in an open session."""

    def __init__(self, session: SinkSession, own_database: str, waits: RetryPolicy) -> None:
        self._session, self._waits = session, waits
        folds = int(session.rows("SELECT @@GLOBAL.lower_case_table_names")[0][0]) > 0
        self._dialect = ServerDialect(
            session.flavor, own_database, key_collation(session.flavor, session.version), folds
        )
        if session.flavor == "mysql":
            with suppress(StatementRefused):  # an older server, or no privilege: it refuses such tables later
                session.run(_NO_GENERATED_KEYS)

    @property
    def dialect(self) -> ServerDialect:
        """The dialect for this server."""
        return self._dialect

    def read(self, tables: Sequence[TableId]) -> Layout[ServerType]:
        """Return the existing tables, with collations and unique keys."""
        found = read_server_tables(self._session, tables, ignore_case=self._dialect.ignore_case)
        databases = (str(row[0]) for row in self._session.rows("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA"))
        return Layout(found, databases, ignore_case=self._dialect.ignore_case)

    def wait_for_earlier(self, tables: Sequence[TableId]) -> None:
        """Wait for schema changes of these tables begun by this account: a server completes statements of a killed run.

        Raises SinkUnavailable when that takes too long.
        """
        waiting = Backoff(self._waits, "a schema change of an earlier run")
        while (statement := self._statement_on(tables)) is not None:
            if not waiting.pause(statement):
                message = f"an earlier run's schema change goes on in the server: {statement}"
                raise SinkUnavailable(message, where=self._session.where, hint="wait for it, or KILL it there")

    def _statement_on(self, tables: Sequence[TableId]) -> str | None:
        names = [quoted(table.database, table.table) for table in tables]
        for (statement,) in self._session.rows(_RUNNING):
            if statement.startswith(_CHANGES) and any(name in statement for name in names):
                return str(statement[:200])
        return None

    def execute(self, statement: Statement) -> None:
        """Run a statement. Raises ChangeRefused if the server refuses it for this table, SinkError for all tables."""
        try:
            self._session.run(statement.sql)
        except StatementRefused as error:
            if is_of_the_server(error):
                raise of_the_table(error, statement.table) from None
            hint = _HINTS.get(error.code, "change the values or the table in the server, or start with a new table")
            raise ChangeRefused(str(error), where=str(statement.table), hint=hint, resnapshot_helps=True) from None
        except SinkUnavailable as error:
            error.where = f"{statement.table} on {error.where}"
            raise

    def finds(self, query: str) -> bool:
        """Return whether the query finds a row."""
        return bool(self._session.rows(query))


def read_server_tables(session: SinkSession, tables: Sequence[TableId], *, ignore_case: bool) -> list[ServerTable]:
    """Return the definitions of those tables that exist."""

    def name(table: TableId) -> tuple[str, str]:
        pair = table.database, table.table
        return (pair[0].casefold(), pair[1].casefold()) if ignore_case else pair

    wanted = {name(table) for table in tables}
    found = read_tables(session.connection, lambda table: name(table) in wanted)
    databases = sorted({table.database for table in found})
    collations: dict[tuple[str, str, str], str] = {}
    for database, table, column, collation in rows_of_databases(session.connection, _COLLATIONS, databases):
        collations[str(database), str(table), str(column)] = str(collation)
    unique: dict[TableId, dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for database, table, index, column, place in rows_of_databases(session.connection, _UNIQUE, databases):
        unique[TableId(str(database), str(table))][str(index)].append((int(place), str(column)))
    engines: dict[TableId, str] = {}
    if session.flavor != "oceanbase":
        for database, table, engine in rows_of_databases(session.connection, _NOT_TRANSACTIONAL, databases):
            engines[TableId(str(database), str(table))] = str(engine)
    return [
        replace(_server_table(definition, collations, unique[table]), engine=engines.get(table, ""))
        for table, definition in found.items()
    ]


def _server_table(
    definition: MySqlTable, collations: dict[tuple[str, str, str], str], unique: dict[str, list[tuple[int, str]]]
) -> ServerTable:
    table = definition.id
    columns = tuple(
        ActualColumn(
            column.name,
            ServerType(canonical(spelled(column)), collations.get((table.database, table.table, column.name), "")),
            column.nullable,
            column.default,
            column.comment,
        )
        for column in definition.columns
    )
    return ServerTable(
        table,
        columns,
        definition.primary_key,
        definition.comment,
        tuple(tuple(column for _, column in sorted(parts)) for parts in unique.values()),
        tuple(column.name for column in definition.columns if column.generated),
    )
