"""What front end, back end and SQL port of the stand-in share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdc_standins.clock import Clock
from cdc_standins.data import Data
from cdc_standins.doris.accounts import Accounts
from cdc_standins.doris.catalog import Catalog, Table
from cdc_standins.doris.publisher import Publisher
from cdc_standins.doris.transactions import Transactions
from cdc_standins.faults import Faults
from cdc_standins.journal import Journal
from cdc_standins.sql_text import quoted

if TYPE_CHECKING:
    from cdc_standins.doris.jobs import Jobs

POINTS = {
    "fe.load": "the front end got a load, before it redirects",
    "fe.2pc": "the front end got a commit or abort, before it redirects",
    "fe.state": "the front end was asked for a label's state",
    "be.load": "the back end got a load, nothing happened yet",
    "be.load.body": "the back end is within the body, `after_bytes`",
    "be.load.done": "the load took effect (precommitted, or committed), before the answer",
    "be.2pc": "the back end got a commit or abort, nothing happened yet",
    "be.2pc.done": "the commit or abort took effect, before the answer",
    "publish": "committed transactions are about to become visible",
    "ddl": "the catalog knows a change of a table, its rows do not yet",
    "job": "a schema change job is about to change rows",
    "sql": "a statement came, nothing happened yet",
    "sql.done": "the statement took effect, before the answer",
}


@dataclass(slots=True)
class Engine:
    """All state of one stand-in. Lock order: catalog, transactions, data."""

    options: Mapping[str, Any]
    journal: Journal
    clock: Clock
    catalog: Catalog
    transactions: Transactions
    data: Data
    accounts: Accounts
    faults: Faults
    publisher: Publisher
    counters: dict[str, int] = field(default_factory=lambda: {"rows": 0, "bytes": 0, "loads": 0})
    error_logs: dict[str, list[str]] = field(default_factory=dict)
    be_port: int = 0
    jobs: Jobs = field(init=False)
    backend_alive: Callable[[], bool] = lambda: True

    def change(self, table: Table, *statements: str) -> None:
        """Change the physical tables, and keep the table's new state in the catalog."""

        def keep() -> None:
            self.catalog.put(table)
            self.faults.meet("ddl", db=table.db, table=table.name)

        self.data.execute(*statements, before_commit=keep)

    def now(self) -> dt.datetime:
        """The stand-in's local time, to the second."""
        return dt.datetime.fromtimestamp(self.clock.now_ms() // 1000)


def view_sql(table: Table) -> str:
    """The view that queries see instead of the physical table."""
    items = ", ".join(f"{quoted(column.stored)} AS {quoted(column.name)}" for column in table.columns)
    select = f"SELECT {items} FROM main.{quoted(table.stored)}"
    return f"CREATE OR REPLACE VIEW {quoted(table.db)}.{quoted(table.name)} AS {select}"


def physical_sql(table: Table) -> str:
    """Makes the physical table, empty."""
    items = [f"{quoted(column.stored)} {column.type.duck}" for column in table.columns]
    return f"CREATE OR REPLACE TABLE main.{quoted(table.stored)} ({', '.join(items)})"


__all__ = ["POINTS", "Engine", "physical_sql", "view_sql"]
