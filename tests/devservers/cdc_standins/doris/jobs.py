"""Schema changes: at once when they are light, else a job that waits for older transactions and then rewrites.

A job sits in WAITING_TXN until every transaction on the table that began before it is final, PRECOMMITTED ones too.
Whoever holds one while waiting for the job waits for its timeout.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import duckdb

from cdc_standins.doris.catalog import Column, Table, _table
from cdc_standins.doris.engine import Engine, view_sql
from cdc_standins.doris.errors import sql_error
from cdc_standins.doris.types import DorisType
from cdc_standins.http_server import Cut
from cdc_standins.sql_text import quoted

PENDING, WAITING, RUNNING, FINISHED, CANCELLED = "PENDING", "WAITING_TXN", "RUNNING", "FINISHED", "CANCELLED"


@dataclass(slots=True)
class Draft:
    """A table on its way to another schema: columns in order, and what DuckDB has to do."""

    table: Table
    columns: list[Column] = field(init=False)
    statements: list[str] = field(default_factory=list)
    heavy: bool = False
    added: int = 0

    def __post_init__(self) -> None:
        self.columns = list(self.table.columns)
        self.heavy = not self.table.light

    def find(self, name: str) -> Column | None:
        """A column by name as the draft has it."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)

    def insert(self, column: Column, after: str) -> None:
        """Put a column that is no key at its place: at the end unless told. Raises SqlError."""
        at = len(self.columns)
        if after:
            before = self.find(after)
            if before is None:
                raise sql_error(f"Column[{after}] does not found")
            at = self.columns.index(before) + 1
        if at < sum(one.is_key for one in self.columns):
            raise sql_error(f"Invalid column order. value should be after key. index[{self.table.name}]")
        self.columns.insert(at, column)

    def type_statement(self, before: Column, after: Column) -> str:
        """What DuckDB does to change a column's type."""
        name = quoted(before.stored)
        return f"ALTER COLUMN {name} TYPE {after.type.duck} USING {_cast(name, before.type, after.type)}"

    def result(self) -> Table:
        """The table as it will be."""
        from dataclasses import replace

        return replace(self.table, columns=tuple(self.columns), next_uid=self.table.next_uid + self.added, busy=False)


@dataclass(slots=True)
class Job:
    """One schema change as SHOW ALTER TABLE COLUMN lists it. `txn`: transactions before it must be final first."""

    id: int
    db: str
    table: str
    table_id: int
    state: str
    txn: int
    created_ms: int
    finished_ms: int | None = None
    message: str = ""
    statements: list[str] = field(default_factory=list)
    result: dict[str, Any] | None = None


class Jobs:
    """Jobs of all tables; a thread carries the heavy ones out, also those that a killed process left."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._jobs = {int(key): Job(**one) for key, one in engine.journal.all("job").items()}

    def start(self) -> None:
        """Begin to work."""
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the step that runs now."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(5)

    def listed(self, db: str) -> list[Job]:
        """Jobs of a database, oldest first."""
        with self._wake:
            return [job for _, job in sorted(self._jobs.items()) if job.db == db]

    def add(self, table: Table, *, finished: bool, statements: list[str], result: Table) -> Job:
        """A new job; a finished one is only for the list."""
        engine = self._engine
        now = engine.clock.now_ms()
        job = Job(
            engine.journal.next_number("id", 10001), table.db, table.name, table.id, FINISHED if finished else PENDING,
            engine.transactions.next_id(), now, now if finished else None,
            statements=[] if finished else statements, result=None if finished else result.to_json(),
        )  # fmt: skip
        self._keep(job)
        with self._wake:
            self._jobs[job.id] = job
            self._wake.notify_all()
        return job

    def poke(self) -> None:
        """A transaction ended."""
        with self._wake:
            self._wake.notify_all()

    def _unfinished(self) -> list[Job]:
        with self._wake:
            return [job for _, job in sorted(self._jobs.items()) if job.state not in (FINISHED, CANCELLED)]

    def _run(self) -> None:
        while True:
            for job in self._unfinished():
                self._step(job)
            with self._wake:
                if self._stopping:
                    return
                self._wake.wait(0.1 if self._jobs_open() else 1.0)
                if self._stopping:
                    return

    def _jobs_open(self) -> bool:
        return any(job.state not in (FINISHED, CANCELLED) for job in self._jobs.values())

    def _step(self, job: Job) -> None:
        if job.state == PENDING:
            job.state = WAITING
            self._keep(job)
        if job.state == WAITING and not self._engine.transactions.open_before(job.table_id, job.txn):
            with self._engine.catalog.lock:
                job.state = RUNNING
                self._keep(job)
        if job.state == RUNNING:
            try:
                self._engine.faults.meet("job", table=job.table, db=job.db)
            except Cut:
                return
            self._carry_out(job)

    def _carry_out(self, job: Job) -> None:
        engine = self._engine
        with engine.catalog.lock:
            table = engine.catalog.by_id(job.table_id)
            if table is None or job.result is None:
                self._over(job, CANCELLED, "table or database dropped")
                return
            try:
                change_rows(engine, table, job.statements, _table(job.result))
            except duckdb.Error as error:
                self._over(job, CANCELLED, f"[DATA_QUALITY_ERROR]{str(error).splitlines()[0]}")
                return
            self._over(job, FINISHED, "")

    def _over(self, job: Job, state: str, message: str) -> None:
        engine = self._engine
        job.state, job.message, job.finished_ms = state, message, engine.clock.now_ms()
        with engine.journal.together():
            self._keep(job)
            table = engine.catalog.by_id(job.table_id)
            if table is not None and table.busy:
                engine.catalog.change(table.id, busy=False)

    def _keep(self, job: Job) -> None:
        from dataclasses import asdict

        self._engine.journal.put("job", job.id, asdict(job))


def submit(engine: Engine, draft: Draft) -> None:
    """Carry a checked draft out: now when it is light, else as a job. Hold the catalog's lock."""
    result = draft.result()
    if draft.heavy:
        engine.catalog.change(draft.table.id, busy=True)
        engine.jobs.add(draft.table, finished=False, statements=draft.statements, result=result)
        return
    change_rows(engine, draft.table, draft.statements, result)
    engine.jobs.add(draft.table, finished=True, statements=[], result=result)


def change_rows(engine: Engine, table: Table, statements: list[str], result: Table) -> None:
    """Change the physical table, its view and the catalog."""
    physical = f"main.{quoted(table.stored)}"
    todo = [f"ALTER TABLE {physical} {text}" for text in statements]
    engine.change(result, *todo, view_sql(result))


def needs_rewrite(before: Column, after: Column) -> bool:
    """Whether a change of a column is a heavy one: all are but a longer VARCHAR, or only another comment."""
    if (before.type, before.nullable) == (after.type, after.nullable):
        return False
    widened = before.type.kind == after.type.kind == "VARCHAR" and before.nullable == after.nullable
    return not widened or before.is_key


def _cast(name: str, before: DorisType, after: DorisType) -> str:
    if before.kind == "INT" and after.kind == "DATE":
        return f"CAST(strptime(CAST({name} AS VARCHAR), '%Y%m%d') AS DATE)"
    if after.kind == "DATETIME" == before.kind and after.scale < before.scale:
        step = 10 ** (6 - after.scale)
        moved = f"(epoch_us({name}) + {step // 2})"
        return f"make_timestamp({moved} - (({moved} % {step}) + {step}) % {step})"
    return f"CAST({name} AS {after.duck})"
