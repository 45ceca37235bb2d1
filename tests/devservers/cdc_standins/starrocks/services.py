"""What the front end and the back end of one stand-in share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from cdc_standins.data import Data
from cdc_standins.faults import Faults
from cdc_standins.starrocks.catalog import Catalog
from cdc_standins.starrocks.jobs import Jobs
from cdc_standins.starrocks.load import Load
from cdc_standins.starrocks.publisher import Publisher
from cdc_standins.starrocks.transactions import Transaction, Transactions
from cdc_standins.starrocks.users import Users


@dataclass(slots=True)
class Services:
    """The parts of a stand-in. `count_only`: rows are counted and not kept."""

    folder: Path
    catalog: Catalog
    transactions: Transactions
    data: Data
    publisher: Publisher
    jobs: Jobs
    users: Users
    faults: Faults
    count_only: bool
    label_conflict_fails: bool = False
    be_http_port: int = 0
    _counting: threading.Lock = field(default_factory=threading.Lock)
    counters: dict[str, int] = field(default_factory=lambda: {"rows": 0, "bytes": 0, "loads": 0})

    def stage(self, transaction: Transaction, load: Load) -> None:
        """Make the rows of a load durable."""
        if not self.count_only:
            self.data.stage(transaction.id, load.rows())

    def count(self, counts: Mapping[str, int]) -> None:
        """Count what a load brought."""
        with self._counting:
            self.counters["loads"] += 1
            self.counters["rows"] += counts["NumberLoadedRows"]
            self.counters["bytes"] += counts["LoadBytes"]

    def published(self, transaction: Transaction, wait_s: float) -> bool:
        """Publish a committed transaction; whether it was visible within the time."""
        fault = self.faults.take("publish.wait", label=transaction.label, table=transaction.table)
        done = self.publisher.submit(transaction)
        if fault is not None and fault.action == "late":
            return False
        return done.wait(wait_s)

    def watch(self, transaction: Transaction) -> Callable[[int], None]:
        """What a load calls with the bytes that came so far: it meets the fault armed within the body."""
        where = {"label": transaction.label, "table": transaction.table, "db": transaction.database}

        def came(body_bytes: int) -> None:
            self.faults.meet("be.load.body", bytes=body_bytes, **where)

        return came

    def keep_errors(self, lines: tuple[str, ...] | list[str]) -> str:
        """Write an error log; its URL, or an empty string when there is nothing to write."""
        if not lines:
            return ""
        name = f"error_log_{uuid4().hex}"
        (self.folder / "errors").mkdir(exist_ok=True)
        (self.folder / "errors" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return f"http://127.0.0.1:{self.be_http_port}/api/_load_error_log?file={name}"

    def errors(self, name: str) -> str | None:
        """The text of an error log, or None."""
        file = self.folder / "errors" / name
        return file.read_text(encoding="utf-8") if name.isidentifier() and file.exists() else None
