"""Runs planned steps on the server, and waits for the schema-change jobs that they start. Driver.

    ALTER TABLE -> (light) FINISHED at once
                -> PENDING -> WAITING_TXN -> RUNNING -> FINISHED | CANCELLED

A table has one job at a time, and a job in WAITING_TXN waits for every transaction that began before it, prepared ones
too. So all of this pipeline's transactions are decided when a step runs (`Sink.apply` is called between batches), and
those that are committed but not visible yet are waited for: a copy of a table would miss their rows.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

from cdc.errors import ChangeRefused, SinkUnavailable
from cdc.schema import TableId
from connectors.doris.alter import Step
from connectors.streamload.labels import LabelSpace
from connectors.streamload.patience import Patience, Waits
from connectors.streamload.sql import Refused, Session, quoted, text_literal

log = logging.getLogger(__name__)

_ENDED = ("FINISHED", "CANCELLED")
_BUSY = re.compile(
    r"is not NORMAL|transactions in the COMMITTED state|still some transactions|lock timeout|is not stable", re.I
)
_DENIED_CODES = frozenset({1044, 1045, 1142, 1227, 5203})


class Runner:
    """Carries out steps one after another in one session."""

    def __init__(self, session: Session, waits: Waits) -> None:
        self._session, self._waits = session, waits

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
            self._wait(table)

    def wait_for_running(self, tables: Iterable[TableId]) -> None:
        """Wait for jobs that an earlier run started: until they end, the tables do not show the change."""
        for table in tables:
            job = self._last_job(table)
            if job is not None and _state(job) not in _ENDED:
                log.info("%s: a schema change of an earlier run is still under way", table)
                self._wait(table)

    def wait_until_visible(self, databases: Iterable[str], space: LabelSpace) -> None:
        """Wait until all that this pipeline has committed in these databases can be read."""
        for database in databases:
            waiting = Patience(self._waits, f"{database}: waiting for committed loads to become visible")
            while left := self._committed(database, space):
                if not waiting.pause():
                    raise SinkUnavailable(
                        f"{left} is committed and has not become visible within {self._waits.limit_s:.0f} s",
                        where=database,
                        hint="see SHOW TRANSACTION and the back ends' logs; start again to go on waiting",
                    )

    def _committed(self, database: str, space: LabelSpace) -> str | None:
        query = f"SHOW TRANSACTION FROM {quoted(database)} WHERE status = 'committed'"
        labels = (str(record["Label"]) for record in self._session.records(query))
        return next((label for label in labels if space.read(label) is not None), None)

    def _execute(self, table: TableId, step: Step) -> None:
        """Run a statement; one that another operation on the table keeps from running is tried again."""
        waiting = Patience(self._waits, f"{table}: waiting for another operation on the table")
        while True:
            try:
                self._session.run(step.sql)
                return
            except Refused as error:
                if not _BUSY.search(error.message) or not waiting.pause():
                    raise _refusal(table, step, error) from error

    def _wait(self, table: TableId) -> None:
        waiting = Patience(self._waits, f"{table}: schema change")
        while True:
            job = self._last_job(table)
            state = "FINISHED" if job is None else _state(job)
            if job is None or state == "FINISHED":
                return
            said = str(job.get("Msg") or "")
            if state == "CANCELLED":
                hint = "see SHOW ALTER TABLE COLUMN in Doris; start again to try once more"
                raise ChangeRefused(f"the schema change was cancelled: {said}", where=str(table), hint=hint)
            if not waiting.pause(f"{state} {job.get('Progress') or ''} {said}".strip()):
                raise _too_long(table, state, self._waits.limit_s)

    def _last_job(self, table: TableId) -> dict[str, Any] | None:
        """The latest schema-change job of the table, None when there was none."""
        sql = (
            f"SHOW ALTER TABLE COLUMN FROM {quoted(table.database)} WHERE TableName = {text_literal(table.table)} "
            "ORDER BY CreateTime DESC LIMIT 1"
        )
        return next(iter(self._session.records(sql)), None)


def _state(job: dict[str, Any]) -> str:
    return str(job.get("State") or "").upper()


def _too_long(table: TableId, state: str, limit_s: float) -> SinkUnavailable:
    hint = "start again to go on waiting, with a longer table.schema-change.timeout if need be"
    if state == "WAITING_TXN":
        hint = "it waits for loads that began before it, of other writers or left over: see SHOW TRANSACTION, "
        hint += "let them end, then start again"
    reason = f"the schema change has not ended within {limit_s:.0f} s; it is {state}"
    return SinkUnavailable(reason, where=str(table), hint=hint)


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
