"""Runs planned steps on the server, and waits for the schema-change jobs that they start. Driver.

A table has one job at a time, and a job in WAITING_TXN waits for every transaction that began before it, prepared ones
too. So all of this pipeline's transactions have ended when a step runs (`Sink.apply` is called between batches).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from cdc.errors import ChangeRefused, SinkUnavailable
from cdc.flow.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from connectors.shared.sql.client import Refused, Session
from connectors.starrocks.alter import Check, Remark, Statement, Step
from connectors.streamload.alter_jobs import AlterJobs

log = logging.getLogger(__name__)

_BUSY = (
    "schema change operation is in progress", "optimize operation is in progress", "rollup operation is in progress",
    "in the committed state waiting to be completed", "there are still some transactions",
)  # fmt: skip
_DENIED_CODES = frozenset({1044, 1045, 1142, 1227, 5203})
_NO_LEADER = ("leader", "forward")


class Runner:
    """Carries out steps one after another in one session."""

    def __init__(self, session: Session, waits: RetryPolicy) -> None:
        self._session, self._waits = session, waits
        self._jobs = AlterJobs(
            session,
            waits,
            "StarRocks",
            newest_by="JobId",
            blocked="see SHOW PROC '/transactions'; roll them back, then start again",
        )

    def run(self, step: Step) -> None:
        """Carry out one step; returns when the table is as the step says. Raises ChangeRefused or SinkUnavailable."""
        match step:
            case Remark(table=table, text=text):
                log.warning("%s: %s", table, text)
            case Check(table=table, sql=sql, reason=reason):
                if self._session.rows(sql):
                    hint = "the values of those rows are not in the log: change or remove them in StarRocks, "
                    raise ChangeRefused(reason, where=str(table), hint=hint + "or drop the table there and start anew")
            case Statement():
                before = self._jobs.last(step.table) if step.job else None
                self._execute(step)
                if step.job:
                    self._jobs.wait(step.table, None if before is None else str(before.get("JobId")))

    def wait_for_running(self, tables: Iterable[TableId]) -> None:
        """Wait for jobs that an earlier run started: until they end, the tables do not show the change."""
        self._jobs.wait_for_running(tables)

    def _execute(self, step: Statement) -> None:
        """Run a statement; one that another operation on the table keeps from running is tried again."""
        waiting = Backoff(self._waits, f"{step.table}: waiting for another operation on the table")
        while True:
            try:
                self._session.run(step.sql)
                return
            except Refused as error:
                if not any(part in error.message.lower() for part in _BUSY) or not waiting.pause():
                    raise _refusal(step, error) from error


def _refusal(step: Statement, error: Refused) -> ChangeRefused | SinkUnavailable:
    """The error for a statement that the server refused."""
    text = error.message.lower()
    if any(part in text for part in _NO_LEADER) and "not" in text:
        return SinkUnavailable(error.message, where=str(step.table), hint="no front end leads; start again")
    hint = f"the statement was: {step.sql[:300]}"
    if error.code in _DENIED_CODES or "access denied" in text:
        hint = "GRANT CREATE DATABASE and CREATE TABLE, and on the tables ALTER, DROP, INSERT and SELECT, to the user"
    elif "replication num" in text or "alive be" in text:
        hint = "set table.create.properties.replication_num to at most the number of back ends"
    elif "syntax error" in text and "RENAME COLUMN" in step.sql:
        hint = "columns can be renamed from StarRocks 3.3.2 on; rename it there by hand, or upgrade"
    elif "syntax error" in text and "RANDOM" in step.sql:
        hint = "tables without a key need StarRocks 3.1"
    return ChangeRefused(error.message, where=str(step.table), hint=hint)
