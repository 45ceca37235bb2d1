"""The back end: loads in memory, by label alone. A transaction's context is gone after its prepare, commit or rollback.

Every answer is HTTP 200; what went wrong is in the body. Contexts are lost with the process; the front end aborts what
they belonged to (`coordinate BE restart`), and what is prepared survives.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_standins.http_server import Body, ClientGone, Cut
from cdc_standins.starrocks.errors import LoadFailure, internal
from cdc_standins.starrocks.headers import LoadHeaders, prepared_timeout_s, read_headers
from cdc_standins.starrocks.load import Load
from cdc_standins.starrocks.services import Services
from cdc_standins.starrocks.transactions import Transaction

Numbers = dict[str, int]
BUSY = "Transaction in processing, please retry later"


@dataclass(slots=True)
class LoadContext:
    """What the back end holds of one label. `busy` is taken by the request that works on it."""

    transaction: Transaction
    busy: threading.Lock = field(default_factory=threading.Lock)
    headers: LoadHeaders | None = None
    load: Load | None = None


class Backend:
    """The steps of transactions and plain loads as the back end takes them. Methods raise LoadFailure."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._contexts: dict[str, LoadContext] = {}
        self._beginning: set[str] = set()
        self._lock = threading.Lock()
        services.transactions.on_abort = self._aborted

    def begin(self, wanted: Transaction) -> tuple[Transaction, Numbers]:
        """Open a transaction; a label that is live here is refused without asking the front end."""
        begun = time.monotonic()
        with self._lock:
            if wanted.label in self._contexts or wanted.label in self._beginning:
                raise LoadFailure("LABEL_ALREADY_EXISTS", "", existing="")
            self._beginning.add(wanted.label)
        try:  # the front end may abort others meanwhile, which needs the lock
            transaction = self._services.transactions.begin(wanted)
            with self._lock:
                self._contexts[wanted.label] = LoadContext(transaction)
        finally:
            self._beginning.discard(wanted.label)
        return transaction, {"BeginTxnTimeMs": int((time.monotonic() - begun) * 1000)}

    def load(
        self, database: str, table: str, label: str, headers: Mapping[str, str], body: Body
    ) -> tuple[Transaction, Numbers]:
        """Append a body to the transaction of a label."""
        context = self._taken(label)
        try:
            transaction = context.transaction
            _same(context, database, table)
            load = self._load_of(context, headers)
            self._receive(context, load, body)
            self._services.transactions.used(transaction)
            times = {"StreamLoadPlanTimeMs": load.plan_ms, "ReceivedDataTimeMs": load.read_ms}
            return transaction, {"LoadBytes": load.body_bytes, **times}
        except LoadFailure as failure:
            self._failed(context, failure)
            raise
        finally:
            context.busy.release()

    def prepare(self, label: str, headers: Mapping[str, str]) -> tuple[Transaction, Numbers]:
        """Make the rows durable and forget the context."""
        services = self._services
        context = self._taken(label)
        try:
            timeout = prepared_timeout_s(
                headers, services.transactions.default("prepared_transaction_default_timeout_second")
            )
            counts = self._finish(context)
            services.transactions.prepared(context.transaction, counts, timeout)
            return self._ended(context, counts)
        except LoadFailure as failure:
            self._failed(context, failure)
            raise
        finally:
            context.busy.release()

    def commit(self, label: str, wait_s: float) -> tuple[Transaction, Numbers]:
        """Commit what is not prepared, in one phase."""
        context = self._taken(label)
        try:
            counts = self._finish(context)
            self._services.transactions.committed(context.transaction, counts)
            ended = self._ended(context, counts)
        except LoadFailure as failure:
            self._failed(context, failure)
            raise
        finally:
            context.busy.release()
        if not self._services.published(context.transaction, wait_s):
            raise LoadFailure("PUBLISH_TIMEOUT", f"publish timeout: {int(wait_s * 1000)}")
        return ended

    def rollback(self, label: str) -> tuple[Transaction, Numbers]:
        """Abort what is not prepared."""
        context = self._taken(label)
        try:
            self._forget(context)
            self._services.transactions.abort(context.transaction, "transaction is rolled back by the user")
            return context.transaction, {}
        finally:
            context.busy.release()

    def lose(self, reason: str | None) -> None:
        """Forget every context, as a crash does; with a reason the front end notices and aborts what they held."""
        with self._lock:
            self._contexts.clear()
        if reason is not None:
            self._services.transactions.abort_unprepared(reason)

    def _taken(self, label: str) -> LoadContext:
        """The context of a label, for this request alone."""
        self._services.transactions.expire()
        with self._lock:
            context = self._contexts.get(label)
        if context is None:
            raise LoadFailure("TXN_NOT_EXISTS", f"Transaction with label {label} not exists")
        if not context.busy.acquire(blocking=False):
            raise LoadFailure("TXN_IN_PROCESSING", BUSY)
        return context

    def _load_of(self, context: LoadContext, headers: Mapping[str, str]) -> Load:
        asked = read_headers(headers)
        if context.load is None:
            services, transaction = self._services, context.transaction
            table = services.catalog.table_of(transaction)
            context.load = Load(table, asked, count_only=services.count_only)
            context.headers = asked
        elif asked != context.headers:
            raise internal("load request not equal last.")
        return context.load

    def _receive(self, context: LoadContext, load: Load, body: Body) -> None:
        try:
            load.receive(body, self._services.watch(context.transaction))
        except (ClientGone, Cut):
            self._failed(context, LoadFailure("CANCELLED", "client has disconnected", aborts=True))
            raise

    def _finish(self, context: LoadContext) -> Numbers:
        if context.load is None:
            raise internal(f"transaction {context.transaction.label} hasn't send any data yet")
        counts = context.load.finish()
        self._services.stage(context.transaction, context.load)
        self._services.count(counts)
        return counts

    def _ended(self, context: LoadContext, counts: Numbers) -> tuple[Transaction, Numbers]:
        self._forget(context)
        assert context.load is not None
        load = context.load
        return context.transaction, {
            **counts,
            "LoadTimeMs": load.read_ms + load.write_ms + load.plan_ms,
            "StreamLoadPlanTimeMs": load.plan_ms,
            "ReceivedDataTimeMs": load.read_ms,
            "WriteDataTimeMs": load.write_ms,
        }

    def _failed(self, context: LoadContext, failure: LoadFailure) -> None:
        """What a failed step does to the transaction."""
        if failure.aborts:
            self._forget(context)
            self._services.transactions.abort(context.transaction, failure.message)

    def _forget(self, context: LoadContext) -> None:
        with self._lock:
            if self._contexts.get(context.transaction.label) is context:
                del self._contexts[context.transaction.label]

    def _aborted(self, transaction: Transaction) -> None:
        """The front end aborted it: the context goes too, and rows that were staged."""
        with self._lock:
            context = self._contexts.get(transaction.label)
            if context is not None and context.transaction is transaction:
                del self._contexts[transaction.label]
        self._services.data.unstage(transaction.id)


def _same(context: LoadContext, database: str, table: str) -> None:
    transaction = context.transaction
    if database != transaction.database:
        raise LoadFailure(
            "INVALID_ARGUMENT", f"Request database {database} not equal transaction database {transaction.database}"
        )
    if table != transaction.table:
        raise LoadFailure("INVALID_ARGUMENT", f"Request table {table} not equal transaction table {transaction.table}")
