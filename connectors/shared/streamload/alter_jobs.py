"""Schema-change jobs of Doris and StarRocks, which have them, and the statement that shows them, in common. Driver.

    ALTER TABLE -> FINISHED at once
                -> PENDING -> WAITING_TXN -> RUNNING -> FINISHED | CANCELLED

A table has one job at a time, and a job in WAITING_TXN waits for every transaction that began before it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cdc.errors import ChangeRefused, SinkUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import TableId
from connectors.shared.sql.client import SqlSession
from connectors.shared.sql.text import quoted, text_literal

log = logging.getLogger(__name__)

_SAME_TIME = 20
"""More jobs than one table has in a second, the step of CreateTime."""

_ENDED = ("FINISHED", "CANCELLED")


@dataclass(frozen=True, slots=True)
class AlterJobs:
    """The jobs that one session sees.

    Attributes:
        server: the server's name, for messages.
        newest_by: the column of SHOW ALTER TABLE COLUMN by which a later job is greater.
        blocked: what to do about transactions that a job in WAITING_TXN waits for.
    """

    session: SqlSession
    waits: RetryPolicy
    server: str
    newest_by: str
    blocked: str

    def last(self, table: TableId) -> dict[str, Any] | None:
        """The latest job of the table, None when there was none. Times may be the same for some, ids only grow."""
        sql = (
            f"SHOW ALTER TABLE COLUMN FROM {quoted(table.database)} WHERE TableName = {text_literal(table.table)} "
            f"ORDER BY {self.newest_by} DESC LIMIT {_SAME_TIME}"
        )
        return max(self.session.records(sql), key=lambda job: int(job["JobId"]), default=None)

    def wait(self, table: TableId, before: str | None = None) -> None:
        """Wait for the latest job; a change that was made at once may have none after the job with the id `before`.

        Raises ChangeRefused when the server cancels it, SinkUnavailable when it has not ended in time.
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
                    f"the schema change was cancelled: {message}", where=str(table), hint=hint, curable=True
                )
            if not waiting.pause(f"{state} {job.get('Progress') or ''} {message}".strip()):
                raise self._too_long(table, state)

    def wait_for_running(self, tables: Iterable[TableId]) -> None:
        """Wait for jobs that an earlier run started: until they end, the tables do not show the change."""
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
