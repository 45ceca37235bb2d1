"""Runs planned steps on the server, and waits for the schema-change jobs that they start. Driver.

A table has one job at a time, and a job in WAITING_TXN waits for every transaction that began before it, prepared ones
too. So all of this pipeline's transactions are decided when a step runs (`Sink.apply` is called between batches).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cdc.errors import ChangeRefused, SinkUnavailable
from cdc.flow.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from connectors.doris.alter import Step
from connectors.shared.sql.client import Refused, Session
from connectors.streamload.alter_jobs import AlterJobs

_BUSY = re.compile(
    r"is not NORMAL|transactions in the COMMITTED state|still some transactions|lock timeout|is not stable", re.I
)
_DENIED_CODES = frozenset({1044, 1045, 1142, 1227, 5203})


class Runner:
    """Carries out steps one after another in one session."""

    def __init__(self, session: Session, waits: RetryPolicy) -> None:
        self._session, self._waits = session, waits
        self._jobs = AlterJobs(
            session,
            waits,
            "Doris",
            newest_by="CreateTime",
            blocked="see SHOW TRANSACTION, let them end, then start again",
        )

    def run(self, table: TableId, step: Step) -> None:
        """Carry out one step; returns when the table is as the step says. Raises ChangeRefused or SinkUnavailable."""
        if step.doubt is not None:
            if self._session.rows(step.sql):
                hint = "the values of such rows are not in the log: change or remove them in Doris, "
                hint += "or drop the table there and start anew"
                raise ChangeRefused(step.doubt.reason, where=str(table), hint=hint)
            return
        self._execute(table, step)
        if step.waits:
            self._jobs.wait(table)

    def wait_for_running(self, tables: Iterable[TableId]) -> None:
        """Wait for jobs that an earlier run started: until they end, the tables do not show the change."""
        self._jobs.wait_for_running(tables)

    def _execute(self, table: TableId, step: Step) -> None:
        """Run a statement; one that another operation on the table keeps from running is tried again."""
        waiting = Backoff(self._waits, f"{table}: waiting for another operation on the table")
        while True:
            try:
                self._session.run(step.sql)
                return
            except Refused as error:
                if not _BUSY.search(error.message) or not waiting.pause():
                    raise _refusal(table, step, error) from error


def _refusal(table: TableId, step: Step, error: Refused) -> ChangeRefused | SinkUnavailable:
    """The error for a statement that the server refused."""
    text = error.message.lower()
    if "not master" in text or "forward" in text:
        return SinkUnavailable(error.message, where=str(table), hint="no front end leads; start again")
    hint = f"the statement was: {step.sql[:300]}"
    if error.code in _DENIED_CODES or "denied" in text:
        hint = "GRANT CREATE_PRIV, ALTER_PRIV, DROP_PRIV, LOAD_PRIV and SELECT_PRIV on the database to the user"
    elif "replication num" in text:
        hint = "set table.create.properties.replication_num to at most the number of back ends"
    return ChangeRefused(error.message, where=str(table), hint=hint)
