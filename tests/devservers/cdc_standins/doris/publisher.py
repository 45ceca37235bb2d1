"""Making committed rows visible, in the order of commits: a thread of its own, as publishing is asynchronous."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

import duckdb

from cdc_standins.data import Data, Publication
from cdc_standins.doris.catalog import Catalog
from cdc_standins.doris.transactions import COMMITTED, Transaction, Transactions
from cdc_standins.faults import Faults
from cdc_standins.http_server import Cut

MOST_AT_ONCE = 200


class Publisher:
    """Takes COMMITTED transactions and makes them VISIBLE; many at once when many wait."""

    def __init__(self, catalog: Catalog, transactions: Transactions, data: Data, faults: Faults) -> None:
        self._catalog, self._transactions, self._data, self._faults = catalog, transactions, data, faults
        self._wake = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.on_visible: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Begin, with what an earlier process left committed."""
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after what is being published now; what a fault holds is left committed."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(5)

    def poke(self) -> None:
        """Something was committed."""
        with self._wake:
            self._wake.notify_all()

    def wait_visible(self, one: Transaction, timeout_s: float) -> bool:
        """Wait until a transaction is no more COMMITTED; False after the timeout."""
        with self._transactions.lock:
            return self._transactions.lock.wait_for(lambda: one.state != COMMITTED, timeout_s)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._stopping and not (waiting := self._waiting()):
                    self._wake.wait(1.0)
                if self._stopping:
                    return
            try:
                self._publish(waiting)
            except (duckdb.Error, OSError):  # nobody waits for an answer: into the log, and again
                traceback.print_exc()
                with self._wake:
                    self._wake.wait_for(lambda: self._stopping, 1.0)

    def _waiting(self) -> list[Transaction]:
        ones = [one for one in self._transactions.listed() if one.state == COMMITTED]
        return sorted(ones, key=lambda one: one.order)[:MOST_AT_ONCE]

    def _publish(self, ones: list[Transaction]) -> None:
        for one in ones:
            try:
                self._faults.meet("publish", label=one.label, table=one.table, db=one.db)
            except Cut:
                continue  # nobody is connected here
        with self._catalog.lock, self._transactions.lock:  # whoever sees the rows sees the state, too
            publications, defaults = [], {}
            for one in ones:
                table = self._catalog.by_id(one.table_id)
                if table is None or table.generation != one.generation or not self._data.staged(one.id).exists():
                    continue  # dropped or truncated meanwhile: the rows have no place any more
                keys = tuple(column.stored for column in table.keys) if table.unique else ()
                publications.append(Publication(one.id, table.stored, keys))
                defaults[table.stored] = {column.stored: column.default_sql for column in table.columns}
            self._data.publish(publications, defaults)
            self._transactions.visible(ones)
        self._data.forget_published([one.id for one in ones])
        for one in ones:
            self._data.unstage(one.id)
        self.on_visible()
