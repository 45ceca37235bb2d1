"""Transactions and labels: PREPARE, PRECOMMITTED, COMMITTED, VISIBLE, ABORTED, and when they are forgotten.

PREPARE is in memory only, as on the real server: a restart frees its label. From PRECOMMITTED on every state is durable
before it is answered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc_standins.clock import Clock
from cdc_standins.doris.errors import LabelExists, LoadError, from_front_end
from cdc_standins.journal import Journal

PREPARE, PRECOMMITTED, COMMITTED, VISIBLE, ABORTED = "PREPARE", "PRECOMMITTED", "COMMITTED", "VISIBLE", "ABORTED"
FINAL = (VISIBLE, ABORTED)
TIMED_OUT = "timeout by txn manager"


@dataclass(slots=True)
class Transaction:
    """One transaction. Times are milliseconds since 1970; `table_id` and `generation` say whose rows it holds."""

    id: int
    db: str
    label: str
    table: str
    table_id: int
    generation: int
    timeout_s: int
    state: str = PREPARE
    reason: str = ""
    two_phase: bool = False
    rows: int = 0
    bytes: int = 0
    order: int = 0
    """Of its commit: rows become visible in this order."""
    times: dict[str, int] = field(default_factory=dict)


class Transactions:
    """All transactions of the stand-in; `limits` are options of `server.DEFAULTS`. Thread safe."""

    def __init__(
        self, journal: Journal, clock: Clock, limits: Mapping[str, Any], discard: Callable[[Transaction], None]
    ) -> None:
        self.lock = threading.Condition(threading.RLock())
        self._journal, self._clock, self._limits, self._discard = journal, clock, limits, discard
        self._all = {int(key): Transaction(**one) for key, one in sorted(
            journal.all("transaction").items(), key=lambda item: int(item[0]))}  # fmt: skip
        self._labels: dict[tuple[str, str], list[int]] = {}
        for one in self._all.values():
            self._labels.setdefault((one.db, one.label), []).append(one.id)
        self._committed = max((one.order for one in self._all.values()), default=0)
        self._open = {one.id for one in self._all.values() if one.state not in FINAL}

    def begin(self, txn_of: Transaction) -> Transaction:
        """Give the transaction a number; raises LabelExists, or LoadError when too many run in the database."""
        with self.lock:
            self.tick()
            for number in reversed(self._labels.get((txn_of.db, txn_of.label), [])):
                if self._all[number].state != ABORTED:
                    raise LabelExists(txn_of.label, number, self._all[number].state)
            running = sum(self._all[number].db == txn_of.db for number in self._open)
            limit = int(self._limits["max_running_txns"])
            if running >= limit:
                raise from_front_end(f"current running txns on db {txn_of.db} is {running}, larger than limit {limit}")
            txn_of.id = self._journal.next_number("txn", 1001)
            txn_of.times["prepare"] = self._clock.now_ms()
            self._all[txn_of.id] = txn_of
            self._labels.setdefault((txn_of.db, txn_of.label), []).append(txn_of.id)
            self._open.add(txn_of.id)
            return txn_of

    def precommit(self, one: Transaction) -> None:
        """PREPARE to PRECOMMITTED; LoadError when it was aborted meanwhile."""
        with self.lock:
            self._still_prepared(one)
            self._move(one, PRECOMMITTED, "precommit")

    def commit_now(self, one: Transaction) -> None:
        """PREPARE to COMMITTED: a load without two phases."""
        with self.lock:
            self._still_prepared(one)
            self._move(one, COMMITTED, "commit")

    def commit(self, db: str, number: int) -> Transaction:
        """PRECOMMITTED to COMMITTED; LoadError in every other state."""
        with self.lock:
            one = self._need(db, number)
            if one.state in (COMMITTED, VISIBLE):
                raise from_front_end(f"transaction [{number}] is already {one.state.lower()}, not pre-committed.")
            if one.state == ABORTED:
                raise from_front_end(f"transaction [{number}] is already aborted. abort reason: {one.reason}")
            if one.state == PREPARE:
                raise from_front_end(f"transaction [{number}] is prepare, not pre-committed.")
            self._move(one, COMMITTED, "commit")
            return one

    def abort(self, db: str, number: int, reason: str = "User Abort") -> Transaction:
        """PREPARE or PRECOMMITTED to ABORTED; LoadError in every other state."""
        with self.lock:
            one = self._need(db, number)
            if one.state == ABORTED:
                raise from_front_end(f"transaction [{number}] is already aborted, abort reason: {one.reason}")
            if one.state in (COMMITTED, VISIBLE):
                raise from_front_end(f"transaction [{number}] is already {one.state}, could not abort.")
            self._abort(one, reason)
            return one

    def roll_back(self, one: Transaction, reason: str) -> None:
        """Abort a transaction whose load failed, if it is not over already."""
        with self.lock:
            if one.state == PREPARE:
                self._abort(one, reason)

    def visible(self, ones: list[Transaction]) -> None:
        """COMMITTED to VISIBLE, after the rows were published."""
        with self.lock, self._journal.together():
            for one in ones:
                self._move(one, VISIBLE, "finish")

    def by_label(self, db: str, label: str) -> Transaction | None:
        """The newest transaction of a label."""
        with self.lock:
            self.tick()
            numbers = self._labels.get((db, label))
            return self._all[numbers[-1]] if numbers else None

    def by_id(self, number: int) -> Transaction | None:
        """A transaction of any database."""
        with self.lock:
            self.tick()
            return self._all.get(number)

    def listed(self, db: str | None = None) -> list[Transaction]:
        """Transactions, oldest first."""
        with self.lock:
            self.tick()
            return [one for one in self._all.values() if db is None or one.db == db]

    def open_before(self, table_id: int, number: int) -> list[int]:
        """Transactions on a table that began before `number` and are not final."""
        with self.lock:
            self.tick()
            return sorted(one for one in self._open if one < number and self._all[one].table_id == table_id)

    def next_id(self) -> int:
        """A number that later transactions are above of."""
        return self._journal.next_number("txn", 1001)

    def tick(self) -> None:
        """Let time have its effect: prepared transactions expire, final ones are forgotten."""
        with self.lock:
            now = self._clock.now_ms()
            for number in list(self._open):
                one = self._all[number]
                if self._expired(one, now):
                    self._abort(one, TIMED_OUT)
            self._forget(now)

    def forget(self, db: str, label: str) -> int:
        """Drop the final transactions of a label (of all labels when empty); how many there were."""
        with self.lock:
            gone = [
                one for one in self._all.values()
                if one.db == db and one.state in FINAL and (not label or one.label == label)
            ]  # fmt: skip
            self._drop(gone)
            return len(gone)

    def expire(self, db: str, label: str) -> None:
        """Abort the label's newest transaction as if its time were over; ValueError when it cannot expire."""
        with self.lock:
            one = self.by_label(db, label)
            if one is None or one.state not in (PREPARE, PRECOMMITTED):
                raise ValueError(f"label {label!r} in {db!r}: {one.state if one else 'UNKNOWN'} does not expire")
            self._abort(one, TIMED_OUT)

    def _still_prepared(self, one: Transaction) -> None:
        self.tick()
        if one.state != PREPARE:
            raise from_front_end(f"transaction [{one.id}] is already {one.state.lower()}. {one.reason}")

    def _need(self, db: str, number: int) -> Transaction:
        self.tick()
        one = self._all.get(number)
        if one is None or one.db != db:
            raise from_front_end(f"transaction [{number}] not found")
        return one

    def _expired(self, one: Transaction, now: int) -> bool:
        if one.state == PREPARE:
            return now - one.times["prepare"] > one.timeout_s * 1000
        limit_s = float(self._limits["precommit_timeout_s"])
        return one.state == PRECOMMITTED and now - one.times["precommit"] > limit_s * 1000

    def _abort(self, one: Transaction, reason: str) -> None:
        one.reason = reason
        self._move(one, ABORTED, "finish")
        self._discard(one)

    def _move(self, one: Transaction, state: str, time: str) -> None:
        now = self._clock.now_ms()
        if state == COMMITTED:
            self._committed += 1
            one.order = self._committed
        document = asdict(one) | {"state": state, "times": one.times | {time: now}}
        self._journal.put("transaction", one.id, document)
        one.state, one.times = state, document["times"]
        if state in FINAL:
            self._open.discard(one.id)
        self.lock.notify_all()

    def _forget(self, now: int) -> None:
        limit_ms = float(self._limits["label_keep_s"]) * 1000
        most = int(self._limits["label_keep_count"])
        final = [one for one in self._all.values() if one.id not in self._open]
        if len(final) <= most and not (final and now - final[0].times["finish"] > limit_ms):
            return
        by_db: dict[str, list[Transaction]] = {}
        for one in sorted(final, key=lambda one: one.times["finish"]):
            by_db.setdefault(one.db, []).append(one)
        for ones in by_db.values():
            count = len(ones) - most
            self._drop([one for at, one in enumerate(ones) if at < count or now - one.times["finish"] > limit_ms])

    def _drop(self, ones: list[Transaction]) -> None:
        with self._journal.together():
            for one in ones:
                self._journal.remove("transaction", one.id)
                del self._all[one.id]
                numbers = self._labels[one.db, one.label]
                numbers.remove(one.id)
                if not numbers:
                    del self._labels[one.db, one.label]


def number_of(text: str) -> int:
    """A transaction's number in a header, read as C's stoull does: leading digits count."""
    digits = text.strip()
    end = next((at for at, sign in enumerate(digits) if not sign.isdigit()), len(digits))
    if not end:
        raise LoadError("INTERNAL_ERROR", f"convert txn_id [{text}] failed")
    return int(digits[:end])
