"""Schema changes that take time: one job per table, which waits for the transactions that began before it.

    PENDING -> WAITING_TXN -> RUNNING -> FINISHED      any of them -> CANCELLED

A change that only touches metadata (fast schema evolution) is a job that is FINISHED at once.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from cdc_standins.clock import Clock
from cdc_standins.faults import Answer, Faults
from cdc_standins.http_server import Cut
from cdc_standins.journal import Journal
from cdc_standins.starrocks.catalog import Catalog
from cdc_standins.starrocks.errors import refused
from cdc_standins.starrocks.schema import Table, from_json, to_json
from cdc_standins.starrocks.transactions import Transactions

PENDING, WAITING, RUNNING, FINISHED, CANCELLED = "PENDING", "WAITING_TXN", "RUNNING", "FINISHED", "CANCELLED"
_KIND = "job"
_TICK_S = 0.02


@dataclass(slots=True)
class Job:
    """One schema change: `before` and `after` are tables as JSON, `boundary` parts earlier transactions from later."""

    id: int
    database: str
    table: str
    table_id: int
    create_ms: int
    boundary: int
    timeout_s: int
    before: dict[str, Any]
    after: dict[str, Any]
    state: str = PENDING
    finish_ms: int = 0
    message: str = ""

    @property
    def ended(self) -> bool:
        """Finished or cancelled."""
        return self.state in (FINISHED, CANCELLED)


class Jobs:
    """All schema changes; `start` runs them in a thread of its own."""

    def __init__(
        self, journal: Journal, clock: Clock, catalog: Catalog, transactions: Transactions, faults: Faults
    ) -> None:
        self._journal, self._clock, self._catalog = journal, clock, catalog
        self._transactions, self._faults = transactions, faults
        self._jobs = sorted((Job(**document) for document in journal.all(_KIND).values()), key=lambda it: it.id)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schema-change", daemon=True)

    def start(self) -> None:
        """Begin to work on jobs, also on those that an earlier process left."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; jobs go on after the next start."""
        self._ended.set()

    def all(self, database: str) -> list[Job]:
        """Jobs of a database, oldest first."""
        return [job for job in self._jobs if job.database == database]

    def check_idle(self, table: Table) -> None:
        """Raises SqlError when the table is under a schema change."""
        if any(job.table_id == table.id and not job.ended for job in self._jobs):
            raise refused(
                f'A schema change operation is in progress on the table "{table.name}". Please wait until the current '
                "operation completes.\nTo check the status of the operation, execute the following command: "
                f"SHOW ALTER TABLE COLUMN FROM `{table.database}`;"
            )

    def submit(self, before: Table, after: Table, *, fast: bool) -> None:
        """Begin a change, or carry it out when it is fast. The caller holds the catalog's lock."""
        number = self._journal.next_number("id", 10_001)
        job = Job(
            number, before.database, before.name, before.id, self._clock.now_ms(), self._transactions.next_id(),
            86_400, to_json(before), to_json(after),
        )  # fmt: skip
        if fast:
            self._catalog.replace(before, after)
            job.state, job.finish_ms = FINISHED, self._clock.now_ms()
        self._jobs.append(job)
        self._save(job)

    def drop_table(self, table: Table) -> None:
        """The table is gone: so is its job."""
        for job in self._jobs:
            if job.table_id == table.id and not job.ended:
                self._end(job, CANCELLED, "table is dropped")

    def _run(self) -> None:
        while not self._ended.wait(_TICK_S):
            for job in list(self._jobs):
                if not job.ended:
                    self._step(job)

    def _step(self, job: Job) -> None:
        if job.state == PENDING:
            self._go(job, WAITING)
        elif job.state == WAITING:
            if not self._transactions.unfinished(job.table_id, job.boundary):
                self._go(job, RUNNING)
        else:
            self._finish(job)

    def _finish(self, job: Job) -> None:
        try:
            fault = self._faults.meet("alter", table=job.table, db=job.database)
        except (Cut, Answer):
            fault = None  # there is no connection to end here
        if fault is not None:
            self._end(job, CANCELLED, str(fault.args.get("message", "schema change task failed")))
            return
        with self._catalog.lock:
            table = self._catalog.by_id(job.table_id)
            if table is None or job.ended:
                return
            after = from_json({**job.after, "name": table.name, "data": table.data})
            try:
                self._catalog.replace(table, after)
            except duckdb.Error as error:  # values that are none of the new type
                self._end(job, CANCELLED, str(error).partition("\n")[0])
                return
            self._end(job, FINISHED, "")

    def _go(self, job: Job, state: str) -> None:
        job.state = state
        self._save(job)

    def _end(self, job: Job, state: str, message: str) -> None:
        job.state, job.message, job.finish_ms = state, message, self._clock.now_ms()
        self._save(job)

    def _save(self, job: Job) -> None:
        self._journal.put(_KIND, job.id, asdict(job))
