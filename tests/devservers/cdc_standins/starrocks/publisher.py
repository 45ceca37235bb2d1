"""Making committed transactions visible, in the order of their commits within a table, in threads of its own.

What is ready at the same moment is written together: whoever comes first writes for all that wait after it.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress

from cdc_standins.data import Data, Publication
from cdc_standins.faults import Answer, Faults
from cdc_standins.http_server import Cut
from cdc_standins.starrocks.catalog import Catalog
from cdc_standins.starrocks.transactions import COMMITTED, VISIBLE, Transaction, Transactions


class Publisher:
    """`submit` after the commit; the event it returns is set when the rows are visible."""

    def __init__(self, transactions: Transactions, catalog: Catalog, data: Data, faults: Faults) -> None:
        self._transactions, self._catalog, self._data, self._faults = transactions, catalog, data, faults
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[tuple[Transaction, threading.Event]]] = {}
        self._ready: list[Transaction] = []
        self._writing = threading.Lock()

    def submit(self, transaction: Transaction) -> threading.Event:
        """Queue a committed transaction after the others of its table."""
        done = threading.Event()
        with self._lock:
            queue = self._waiting.get(transaction.table_id)
            if queue is not None:
                queue.append((transaction, done))
                return done
            self._waiting[transaction.table_id] = deque([(transaction, done)])
        name = f"publish-{transaction.table_id}"
        threading.Thread(target=self._drain, args=(transaction.table_id,), name=name, daemon=True).start()
        return done

    def resume(self) -> None:
        """After a start: publish what was committed before, and remove rows that nobody will commit."""
        for transaction in sorted(self._transactions.all(), key=lambda it: it.commit_ms):
            if transaction.state == COMMITTED:
                self.submit(transaction)
        alive = {it.id for it in self._transactions.all() if not it.final}
        for number in self._data.staged_numbers() - alive:
            self._data.unstage(number)

    def _drain(self, table_id: int) -> None:
        while True:
            with self._lock:
                queue = self._waiting[table_id]
                if not queue:
                    del self._waiting[table_id]
                    return
                transaction, done = queue.popleft()
            self._publish(transaction)
            if transaction.state == VISIBLE:  # not when the writing failed for all that were ready
                done.set()

    def _publish(self, transaction: Transaction) -> None:
        with suppress(Cut, Answer):  # there is no connection to end here
            self._faults.meet("publish", label=transaction.label, table=transaction.table, db=transaction.database)
        with self._lock:
            self._ready.append(transaction)
        with self._writing:
            with self._lock:
                together, self._ready = self._ready, []
            if together:
                self._write(together)

    def _write(self, together: list[Transaction]) -> None:
        with self._catalog.lock:
            found = [one for one in map(self._publication, together) if one is not None]
            self._data.publish([one for one, _ in found], dict(defaults for _, defaults in found))
        for transaction in together:
            self._transactions.visible(transaction)
            self._data.unstage(transaction.id)
        self._data.forget_published([transaction.id for transaction in together])

    def _publication(self, transaction: Transaction) -> tuple[Publication, tuple[str, dict[str, str]]] | None:
        """What is to be written, and the defaults of its table; None when that is not the table it was loaded into."""
        table = self._catalog.by_id(transaction.table_id)
        if table is None or table.data != transaction.data or not self._data.staged(transaction.id).exists():
            return None
        keys = tuple(column.staged for column in table.keys) if table.primary else ()
        defaults = {column.staged: self._catalog.default(column) for column in table.columns}
        one = Publication(transaction.id, table.physical, keys)
        return one, (table.physical, defaults)
