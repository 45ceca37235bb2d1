"""Load transactions of the front end: states, labels, limits, timeouts, and the history that is forgotten.

    PREPARE -> PREPARED -> COMMITTED -> VISIBLE      PREPARE, PREPARED -> ABORTED

A label belongs to one transaction of a database that is not aborted. The journal holds every transaction, so
nothing here is lost by a crash; what a back end held in memory is (see `backend`).
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc_standins.clock import Clock
from cdc_standins.journal import Journal
from cdc_standins.starrocks.errors import LoadFailure, analysis

PREPARE, PREPARED, COMMITTED, VISIBLE, ABORTED = "PREPARE", "PREPARED", "COMMITTED", "VISIBLE", "ABORTED"
FINAL = (VISIBLE, ABORTED)
_LABEL = re.compile(r"[-\w]{1,128}", re.ASCII)
_KIND = "transaction"
_NEVER_MS = 1 << 62

LIMITS: dict[str, float] = {
    "stream_load_default_timeout_second": 600,
    "prepared_transaction_default_timeout_second": 86_400,
    "max_running_txn_num_per_db": 1000,
    "label_keep_max_second": 259_200,
    "label_keep_max_num": 1000,
}
"""Settings of the front end by the server's own names; options of the same names change them."""


@dataclass(slots=True)
class Transaction:
    """One load. Times are milliseconds since 1970, 0 for what has not happened; `counts` as the replies name them."""

    id: int
    database: str
    database_id: int
    label: str
    table: str
    table_id: int
    data: int
    timeout_s: float
    prepare_ms: int
    idle_timeout_s: float = 0
    prepared_timeout_s: float = 0
    plain: bool = False
    state: str = PREPARE
    prepared_ms: int = 0
    commit_ms: int = 0
    publish_ms: int = 0
    finish_ms: int = 0
    used_ms: int = 0
    reason: str = ""
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        """Nothing happens to it any more."""
        return self.state in FINAL


class Transactions:
    """All transactions. Every method may be called from any thread; `lock` is reentrant."""

    def __init__(self, journal: Journal, clock: Clock, settings: Mapping[str, Any]) -> None:
        self.lock = threading.RLock()
        self._journal, self._clock = journal, clock
        self.limits = {name: float(settings.get(name, default)) for name, default in LIMITS.items()}
        self.on_abort: Callable[[Transaction], None] = lambda _: None
        loaded = (Transaction(**it) for it in journal.all(_KIND).values())
        self._all: dict[int, Transaction] = {}
        self._open: dict[int, Transaction] = {}
        self._labels: dict[tuple[str, str], list[Transaction]] = {}
        self._numbers: Counter[str] = Counter()
        self._oldest_ms = _NEVER_MS
        for transaction in sorted(loaded, key=lambda it: it.id):
            self._remember(transaction)

    def begin(self, wanted: Transaction) -> Transaction:
        """Open a transaction whose id is not set yet. Raises LoadFailure for a label that is taken or no label."""
        if not _LABEL.fullmatch(wanted.label):
            raise analysis(f"Label format error. regex: ^[-\\w]{{1,128}}$, label: {wanted.label}", aborts=False)
        with self.lock:
            self.expire()
            taken = self.latest(wanted.database, wanted.label)
            if taken is not None and taken.state != ABORTED:
                existing = "RUNNING" if taken.state in (PREPARE, PREPARED) else "FINISHED"
                message = f"Label [{wanted.label}] has already been used."
                raise LoadFailure("LABEL_ALREADY_EXISTS", message, existing=existing)
            running = sum(it.database == wanted.database for it in self._open.values())
            limit = int(self.limits["max_running_txn_num_per_db"])
            if running >= limit:
                where = f"current running txns on db {wanted.database_id} is {running}"
                raise analysis(f"{where}, larger than limit {limit}", aborts=False)
            wanted.id = self._journal.next_number("transaction", 1001)
            wanted.used_ms = wanted.prepare_ms = self._clock.now_ms()
            self._remember(wanted)
            self._save(wanted)
            return wanted

    def default(self, name: str) -> float:
        """A setting of the front end."""
        return self.limits[name]

    def latest(self, database: str, label: str) -> Transaction | None:
        """The newest transaction of a label, or None."""
        with self.lock:
            found = self._labels.get((database, label))
            return found[-1] if found else None

    def get(self, number: int) -> Transaction | None:
        """The transaction with that id, or None."""
        return self._all.get(number)

    def all(self) -> list[Transaction]:
        """Every transaction that is remembered, oldest first."""
        with self.lock:
            return list(self._all.values())

    def used(self, transaction: Transaction) -> None:
        """A load came: the idle timeout starts again."""
        transaction.used_ms = self._clock.now_ms()

    def prepared(self, transaction: Transaction, counts: Mapping[str, int], timeout_s: float) -> None:
        """The rows are durable and wait for the decision. Raises LoadFailure when it was aborted meanwhile."""
        with self.lock:
            self._still(transaction, PREPARE)
            transaction.counts, transaction.prepared_timeout_s = dict(counts), timeout_s
            transaction.state, transaction.prepared_ms = PREPARED, self._clock.now_ms()
            self._save(transaction)

    def committed(self, transaction: Transaction, counts: Mapping[str, int] | None = None) -> None:
        """The decision: rows will become visible. Raises LoadFailure when it was aborted meanwhile."""
        with self.lock:
            self._still(transaction, PREPARE, PREPARED)
            if counts is not None:
                transaction.counts = dict(counts)
            transaction.state, transaction.commit_ms = COMMITTED, self._clock.now_ms()
            self._save(transaction)

    def visible(self, transaction: Transaction) -> None:
        """The rows can be read."""
        with self.lock:
            transaction.state = VISIBLE
            transaction.publish_ms = transaction.finish_ms = self._clock.now_ms()
            self._save(transaction)

    def abort(self, transaction: Transaction, reason: str) -> None:
        """Give it up; the label may be used again at once. Nothing happens to one that has ended or is committed."""
        with self.lock:
            if transaction.state not in (PREPARE, PREPARED):
                return
            transaction.state, transaction.reason, transaction.finish_ms = ABORTED, reason, self._clock.now_ms()
            self._save(transaction)
        self.on_abort(transaction)

    def abort_unprepared(self, reason: str) -> None:
        """What happens when the back end that holds them is gone; PREPARED ones survive."""
        for transaction in self.all():
            if transaction.state == PREPARE:
                self.abort(transaction, reason)

    def unfinished(self, table_id: int, before: int) -> list[Transaction]:
        """Transactions on a table, begun before `before`, that have not ended; committed ones included."""
        return [it for it in self.all() if it.table_id == table_id and it.id < before and not it.final]

    def next_id(self) -> int:
        """An id that parts earlier transactions from later ones."""
        return self._journal.next_number("transaction", 1001)

    def drop_database(self, database: str) -> None:
        """Forget the transactions of a database that is gone."""
        for transaction in self.all():
            if transaction.database == database:
                self.abort(transaction, "database is dropped")
                self.forget(transaction)

    def expire(self) -> None:
        """Abort what waited too long and forget old labels. Called at every begin and look-up, and now and then."""
        with self.lock:
            now = self._clock.now_ms()
            for transaction in list(self._open.values()):
                reason = _overdue(transaction, now)
                if reason:
                    self.abort(transaction, reason)
            self._forget_old(now)

    def _forget_old(self, now: int) -> None:
        keep, oldest = int(self.limits["label_keep_max_num"]), now - self.limits["label_keep_max_second"] * 1000
        full = [database for database, number in self._numbers.items() if number > keep]
        if not full and self._oldest_ms >= oldest:
            return
        ended = sorted((it for it in self._all.values() if it.final), key=lambda it: (it.finish_ms, it.id))
        for transaction in ended:
            if transaction.finish_ms < oldest or self._numbers[transaction.database] > keep:
                self.forget(transaction)
        self._oldest_ms = min((it.finish_ms for it in self._all.values() if it.final), default=_NEVER_MS)

    def _remember(self, transaction: Transaction) -> None:
        self._all[transaction.id] = transaction
        self._labels.setdefault((transaction.database, transaction.label), []).append(transaction)
        self._numbers[transaction.database] += 1
        self._sort_in(transaction)

    def _sort_in(self, transaction: Transaction) -> None:
        """Keep what is looked up at every request: those that may time out, and when the first label grows too old."""
        if transaction.state in (PREPARE, PREPARED):
            self._open[transaction.id] = transaction
        else:
            self._open.pop(transaction.id, None)
        if transaction.final:
            self._oldest_ms = min(self._oldest_ms, transaction.finish_ms)

    def forget(self, transaction: Transaction) -> None:
        """Its label is as if it had never been."""
        with self.lock:
            if self._all.pop(transaction.id, None) is None:
                return
            self._open.pop(transaction.id, None)
            self._numbers[transaction.database] -= 1
            same = self._labels[transaction.database, transaction.label]
            same.remove(transaction)
            if not same:
                del self._labels[transaction.database, transaction.label]
            self._journal.remove(_KIND, transaction.id)

    def _still(self, transaction: Transaction, *states: str) -> None:
        self.expire()
        if transaction.state not in states:
            why = f"transaction [{transaction.id}] is already {transaction.state}"
            raise LoadFailure("TXN_NOT_EXISTS", f"{why}. {transaction.reason}".rstrip(". "))

    def _save(self, transaction: Transaction) -> None:
        self._sort_in(transaction)
        self._journal.put(_KIND, transaction.id, asdict(transaction))


def _overdue(transaction: Transaction, now_ms: int) -> str:
    """Why a transaction is aborted now, or an empty string."""
    if transaction.state == PREPARED and transaction.prepared_ms + transaction.prepared_timeout_s * 1000 <= now_ms:
        return "timeout by txn manager"
    if transaction.state != PREPARE:
        return ""
    if transaction.prepare_ms + transaction.timeout_s * 1000 <= now_ms:
        return f"transaction is aborted by timeout {transaction.timeout_s:.0f} seconds."
    idle = transaction.idle_timeout_s
    if idle and transaction.used_ms + idle * 1000 <= now_ms:
        return f"transaction is aborted by idle timeout {idle:.0f} seconds."
    return ""
