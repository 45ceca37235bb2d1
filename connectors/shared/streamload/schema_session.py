"""Schema changes in Doris and StarRocks, the common part: statements that wait for others, jobs. Driver.

    ALTER TABLE -> FINISHED at once
                -> PENDING -> WAITING_TXN -> RUNNING -> FINISHED | CANCELLED

A table has one job at a time, and a job in WAITING_TXN waits for every transaction that began before it, including
prepared ones. So all of this pipeline's transactions have ended when a statement runs: schema changes come between
batches.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.errors import ChangeRefused, SinkError, SinkUnavailable
from cdc.evolution.dialect import Dialect
from cdc.evolution.session import SchemaSession
from cdc.evolution.steps import Statement
from cdc.evolution.table import T
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from connectors.shared.sql.client import SqlSession, StatementRefused
from connectors.shared.sql.text import quoted, text_literal

_DENIED_CODES = frozenset({1044, 1045, 1142, 1227, 5203})
_DATABASES = "SELECT SCHEMA_NAME FROM information_schema.schemata"
log = logging.getLogger(__name__)
_SAME_TIME = 20
"""More jobs than a table can have in a second, the resolution of CreateTime."""
_ENDED = ("FINISHED", "CANCELLED")


FEWER_REPLICAS = "set table.create.properties.replication_num to at most the number of back ends"
"""Hint for a table that wants more replicas than there are back ends."""


@dataclass(frozen=True, slots=True)
class ServerVocabulary:
    """The vocabulary of one server.

    Attributes:
        newest_job: the column of SHOW ALTER TABLE COLUMN that grows with each job.
        blocked: hint for transactions that a job waits for.
        busy: parts of messages, in lower case, of statements that must wait for another operation on the table.
        not_leading: the same for a front end that cannot run DDL; all parts of one tuple must occur.
        grants: hint on the required grants.
        hints: hints for a part of the message combined with a part of the statement.
    """

    newest_job: str
    blocked: str
    busy: tuple[str, ...]
    not_leading: tuple[tuple[str, ...], ...]
    grants: str
    hints: tuple[tuple[str, str, str], ...] = ()


class ServerSchemas(SchemaSession[T]):
    """An open SQL session with its wait limits."""

    words: ServerVocabulary

    def __init__(self, session: SqlSession, dialect: Dialect[T], waits: RetryPolicy) -> None:
        self._session, self._dialect, self._waits = session, dialect, waits
        self._jobs = AlterJobs(
            session, waits, dialect.name, newest_by=self.words.newest_job, blocked=self.words.blocked
        )

    @property
    def dialect(self) -> Dialect[T]:
        """The dialect given by the options."""
        return self._dialect

    def finds(self, query: str) -> bool:
        """Return whether the query finds a row."""
        return bool(self._session.rows(query))

    def execute(self, statement: Statement) -> None:
        """Run a statement and wait for its job; a change that is made immediately has none."""
        before = self._jobs.last(statement.table) if statement.job else None
        self._run(statement)
        if statement.job:
            self._jobs.wait(statement.table, None if before is None else str(before.get("JobId")))

    def wait_for_earlier(self, tables: Sequence[TableId]) -> None:
        """Wait for committed but invisible loads, and for jobs, until the tables show them."""
        there = self._existing(tables)
        self.wait_for_loads(sorted({table.database for table in there}))
        self._jobs.wait_for_running(there)

    def wait_for_loads(self, databases: Sequence[str]) -> None:
        """Wait until all that this pipeline committed in these databases is readable. Does nothing by default."""

    def missing(self, tables: Sequence[TableId]) -> list[TableId]:
        """Return the missing tables with two queries per database, without definitions.

        Some servers lower-case all names.
        """
        known = {name.casefold(): name for name in self.databases()}
        wanted = {table.database.casefold() for table in tables} & known.keys()
        there = {(name, table.casefold()) for name in wanted for table in self.comments(known[name])}
        return [table for table in tables if (table.database.casefold(), table.table.casefold()) not in there]

    def databases(self) -> list[str]:
        """Return the names of all databases."""
        return [str(name) for (name,) in self._session.rows(_DATABASES)]

    def comments(self, database: str) -> dict[str, str]:
        """Return the tables of a database with their comments."""
        columns = "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.tables"
        rows = self._session.rows(f"{columns} WHERE TABLE_SCHEMA = {text_literal(database)}")
        return {str(name): str(comment or "") for name, comment in rows}

    def _existing(self, tables: Sequence[TableId]) -> list[TableId]:
        known = set(self.databases())
        names = {name: self.comments(name) for name in {table.database for table in tables} & known}
        return sorted(table for table in set(tables) if table.table in names.get(table.database, {}))

    def _run(self, statement: Statement) -> None:
        """Run a statement; retry one that another operation on the table blocks."""
        waiting = Backoff(self._waits, f"{statement.table}: waiting for another operation on the table")
        while True:
            try:
                self._session.run(statement.sql)
                return
            except StatementRefused as error:
                busy = any(part in error.message.lower() for part in self.words.busy)
                if not busy or not waiting.pause():
                    raise self._refusal(statement, error) from error

    def _refusal(self, statement: Statement, error: StatementRefused) -> SinkError:
        """Return the error for a statement that the server refused."""
        text, words = error.message.lower(), self.words
        if any(all(part in text for part in parts) for parts in words.not_leading):
            return SinkUnavailable(error.message, where=str(statement.table), hint="no front end leads; start again")
        if error.code in _DENIED_CODES or "denied" in text:
            return SinkError(error.message, where=str(statement.table), hint=words.grants)
        hints = (hint for part, sql, hint in words.hints if part in text and sql in statement.sql)
        hint = next(hints, f"the statement was: {statement.sql[:300]}")
        return ChangeRefused(error.message, where=str(statement.table), hint=hint, resnapshot_helps=True)


@dataclass(frozen=True, slots=True)
class AlterJobs:
    """The jobs seen by one session.

    Attributes:
        server: the server's name, for messages.
        newest_by: the column of SHOW ALTER TABLE COLUMN that grows with each job.
        blocked: hint for transactions that a job in WAITING_TXN waits for.
    """

    session: SqlSession
    waits: RetryPolicy
    server: str
    newest_by: str
    blocked: str

    def last(self, table: TableId) -> dict[str, Any] | None:
        """Return the latest job of the table, None without one. Several may have the same time, but ids only grow."""
        sql = (
            f"SHOW ALTER TABLE COLUMN FROM {quoted(table.database)} WHERE TableName = {text_literal(table.table)} "
            f"ORDER BY {self.newest_by} DESC LIMIT {_SAME_TIME}"
        )
        return max(self.session.records(sql), key=lambda job: int(job["JobId"]), default=None)

    def wait(self, table: TableId, before: str | None = None) -> None:
        """Wait for the latest job; an immediate change may have none after the job with the id `before`.

        Raises ChangeRefused when the server cancels it, SinkUnavailable when it does not end in time.
        """
        waiting = Backoff(self.waits, f"{table}: schema change")
        while True:
            job = self.last(table)
            if job is None or str(job.get("JobId")) == before:
                return
            state, message = _state(job), str(job.get("Msg") or "")
            if state == "FINISHED":
                return
            if state == "CANCELLED":
                hint = f"see SHOW ALTER TABLE COLUMN in {self.server}; start again to try once more"
                raise ChangeRefused(
                    f"the schema change was cancelled: {message}", where=str(table), hint=hint, resnapshot_helps=True
                )
            if not waiting.pause(f"{state} {job.get('Progress') or ''} {message}".strip()):
                raise self._too_long(table, state)

    def wait_for_running(self, tables: Iterable[TableId]) -> None:
        """Wait for jobs of an earlier run: until they end, the tables do not show the change."""
        for table in tables:
            job = self.last(table)
            if job is not None and _state(job) not in _ENDED:
                log.info("%s: a schema change of an earlier run is still under way", table)
                self.wait(table)

    def _too_long(self, table: TableId, state: str) -> SinkUnavailable:
        hint = "start again to go on waiting, with a longer table.schema-change.timeout if need be"
        if state == "WAITING_TXN":
            hint = f"it waits for loads that began before it, of other writers or left over: {self.blocked}"
        reason = f"the schema change has not ended within {self.waits.timeout_s:.0f} s; it is {state}"
        return SinkUnavailable(reason, where=str(table), hint=hint)


def _state(job: dict[str, Any]) -> str:
    return str(job.get("State") or "").upper()
