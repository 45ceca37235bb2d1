"""The measured changes: a seeded generator that writes each workload into a binlog file of its own."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pymysql.constants import CLIENT

from cdc_services.server import StartedServer

DATABASE = "bench"
SEED = 20261121
TABLES = {
    "orders": """CREATE TABLE orders (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, customer_id INT NOT NULL, reference VARCHAR(64) NOT NULL,
        amount DECIMAL(12,2) NOT NULL, created_at DATETIME(3) NOT NULL, updated_at TIMESTAMP NOT NULL,
        is_paid TINYINT(1) NOT NULL, attrs JSON NULL, country CHAR(2) NOT NULL, note TEXT NOT NULL,
        weight DOUBLE NOT NULL, ship_date DATE NULL)""",
    "sbtest1": """CREATE TABLE sbtest1 (
        id INT NOT NULL PRIMARY KEY, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '',
        pad CHAR(60) NOT NULL DEFAULT '')""",
}
_COLUMNS = "customer_id,reference,amount,created_at,updated_at,is_paid,attrs,country,note,weight,ship_date"
_COUNTRIES = ("US", "DE", "FR", "CN", "BR", "IN", "GB", "JP", "CA", "AU")
_WORDS = ("parcel", "gift", "fragile", "köln", "größe", "leave", "with", "the", "neighbour", "ring", "twice", "réveil")
_FIRST_DAY = datetime.datetime(2025, 1, 1)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A position in the server's log, and the GTIDs executed up to there."""

    file: str
    position: int
    gtids: str


@dataclass(frozen=True, slots=True)
class Workload:
    """Rows of one table in one range of the log. `images` counts an update twice, as the log does."""

    name: str
    table: str
    rows: int
    images: int
    transactions: int
    start: LogEnd
    end: LogEnd

    @property
    def bytes(self) -> int:
        """Size in the log; both ends are in one file."""
        return self.end.position - self.start.position


class Generator:
    """Writes the workloads; the same seed and sizes give the same rows."""

    def __init__(self, server: StartedServer) -> None:
        self._connection = server.connect(client_flag=CLIENT.MULTI_STATEMENTS)
        self._random = random.Random(SEED)
        self._orders = self._sbtest = 0
        self.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        self._connection.select_db(DATABASE)

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def run(self, sql: str) -> tuple[tuple[Any, ...], ...]:
        """Run statements; the rows of the first."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            rows = cursor.fetchall()
            while cursor.nextset():
                pass
        return rows

    def place(self) -> LogEnd:
        """Where the log ends now."""
        row = self.run("SHOW BINARY LOG STATUS")[0]
        return LogEnd(str(row[0]), int(row[1]), str(row[4]).replace("\n", ""))

    def new_file(self) -> LogEnd:
        """Begin a new binlog file."""
        self.run("FLUSH BINARY LOGS")
        return self.place()

    def create_tables(self) -> None:
        """Make the tables again."""
        self._orders = self._sbtest = 0
        for name, sql in TABLES.items():
            self.run(f"DROP TABLE IF EXISTS {name}")
            self.run(sql)

    def workload(self, name: str, rows: int) -> Workload:
        """Write one of `orders_insert`, `orders_update`, `orders_delete`, `sbtest_insert`, in a file of its own."""
        table, transaction_rows, images, statements = {
            "orders_insert": ("orders", 1000, 1, self._insert_orders),
            "orders_update": ("orders", 100, 2, self._update_orders),
            "orders_delete": ("orders", 100, 1, self._delete_orders),
            "sbtest_insert": ("sbtest1", 10, 1, self._insert_sbtest),
        }[name]
        start = self.new_file()
        self._write(statements(rows), 1 if name == "orders_insert" else transaction_rows)
        end = self.place()
        if start.file != end.file:
            raise RuntimeError(f"{name} does not fit into one binlog file")
        return Workload(name, table, rows, images * rows, -(-rows // transaction_rows), start, end)

    def large_table(self, rows: int) -> Workload:
        """Make `orders_large` and fill it from `orders`, 1,000 rows a transaction; its ids go from 1 to `rows`."""
        self.run("DROP TABLE IF EXISTS orders_large; CREATE TABLE orders_large LIKE orders")
        columns = f"(id,{_COLUMNS}) SELECT id + {{}},{_COLUMNS} FROM orders"
        return self._ranges("large_insert", rows, 1000, 1, lambda first, last: (
            f"INSERT INTO orders_large {columns.format(first - first % self._orders)} "
            f"WHERE id > {first % self._orders} AND id <= {(last - 1) % self._orders + 1}"
        ))  # fmt: skip

    def update_large_table(self, rows: int) -> Workload:
        """Change three columns of every row of `orders_large`, 100 rows a transaction."""
        return self._ranges("large_update", rows, 100, 2, lambda first, last: (
            f"UPDATE orders_large SET amount = 5000 * rand({first}), is_paid = rand({last}) < 0.9, "
            f"updated_at = '2026-03-{first % 27 + 1:02d} 10:00:00' WHERE id > {first} AND id <= {last}"
        ))  # fmt: skip

    def delete_large_table(self, rows: int) -> Workload:
        """Delete every row of `orders_large`, 100 rows a transaction."""
        return self._ranges("large_delete", rows, 100, 1, lambda first, last: (
            f"DELETE FROM orders_large WHERE id > {first} AND id <= {last}"
        ))  # fmt: skip

    def _ranges(
        self, name: str, rows: int, per_transaction: int, images: int, statement: Callable[[int, int], str]
    ) -> Workload:
        """One statement, and so one transaction, for each range of ids (first, last]."""
        start = self.new_file()
        for first in range(0, rows, per_transaction):
            self.run(statement(first, min(rows, first + per_transaction)))
        end = self.place()
        return Workload(name, "orders_large", rows, images * rows, -(-rows // per_transaction), start, end)

    def _write(self, statements: Iterable[str], per_transaction: int) -> None:
        part: list[str] = []
        for statement in statements:
            part.append(statement)
            if len(part) == per_transaction:
                self._transaction(part)
                part = []
        if part:
            self._transaction(part)

    def _transaction(self, statements: list[str]) -> None:
        self.run(statements[0] if len(statements) == 1 else ";".join(["BEGIN", *statements, "COMMIT"]))

    def _insert_orders(self, rows: int) -> Iterator[str]:
        for first in range(0, rows, 1000):
            values = ",".join(self._order() for _ in range(min(1000, rows - first)))
            yield f"INSERT INTO orders ({_COLUMNS}) VALUES {values}"
        self._orders += rows

    def _update_orders(self, rows: int) -> Iterator[str]:
        choose = self._random
        for key in choose.sample(range(1, self._orders + 1), rows):
            amount, paid = choose.random() * 5000, choose.random() < 0.9
            when = f"2026-03-{choose.randrange(1, 28):02d} {choose.randrange(24):02d}:00:00"
            yield f"UPDATE orders SET amount={amount:.2f},is_paid={paid:d},updated_at='{when}' WHERE id={key}"

    def _delete_orders(self, rows: int) -> Iterator[str]:
        for key in self._random.sample(range(1, self._orders + 1), rows):
            yield f"DELETE FROM orders WHERE id={key}"

    def _insert_sbtest(self, rows: int) -> Iterator[str]:
        for key in range(self._sbtest + 1, self._sbtest + rows + 1):
            number, text, pad = self._random.randrange(rows), self._digits(10), self._digits(5)
            yield f"INSERT INTO sbtest1 VALUES ({key},{number},'{text}','{pad}')"
        self._sbtest += rows

    def _digits(self, groups: int) -> str:
        return "-".join(f"{self._random.randrange(10**11):011d}" for _ in range(groups))

    def _order(self) -> str:
        choose = self._random
        made = _FIRST_DAY + datetime.timedelta(milliseconds=choose.randrange(365 * 86_400_000))
        changed = made + datetime.timedelta(seconds=choose.randrange(10 * 86_400))
        shipped = "NULL" if choose.random() < 0.2 else f"'{made.date() + datetime.timedelta(choose.randrange(1, 15))}'"
        return (
            f"({choose.randrange(1, 500_000)},'ORD-{made:%Y%m%d}-{choose.getrandbits(32):08x}',"
            f"{choose.random() * 5000:.2f},'{made:%Y-%m-%d %H:%M:%S}.{made.microsecond // 1000:03d}',"
            f"'{changed:%Y-%m-%d %H:%M:%S}',{choose.random() < 0.7:d},{self._attributes()},"
            f"'{choose.choice(_COUNTRIES)}','{self._note()}',{choose.random() * 50!r},{shipped})"
        )

    def _attributes(self) -> str:
        """A small JSON document in one row of ten."""
        choose = self._random
        if choose.random() < 0.9:
            return "NULL"
        tags = ["new", f"lot{choose.randrange(10)}"]
        document = {"sku": f"A-{choose.randrange(100_000)}", "pieces": choose.randrange(1, 20), "tags": tags}
        return f"'{json.dumps({**document, 'gift': choose.random() < 0.5, 'price': round(choose.random() * 100, 2)})}'"

    def _note(self) -> str:
        """About 60 characters."""
        note = ""
        while len(note) < 56:
            note += self._random.choice(_WORDS) + " "
        return note[:64].rstrip()


def copies_of_orders(generator: Generator, table: str, goal_bytes: int) -> tuple[LogEnd, int, int]:
    """Make `table` and fill it from `orders` on the server, 5,000 rows a transaction, until the log has grown enough.

    Returns where it starts, the number of rows and the bytes of log.
    """
    generator.run(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} LIKE orders")
    highest = int(generator.run("SELECT max(id) FROM orders")[0][0])
    start, before, first = generator.new_file(), _log_bytes(generator), 0
    while _log_bytes(generator) - before < goal_bytes:
        part = f"SELECT {_COLUMNS} FROM orders WHERE id > {first} AND id <= {first + 5000}"
        generator.run(f"INSERT INTO {table} ({_COLUMNS}) {part}")
        first = (first + 5000) % highest
    rows = int(generator.run(f"SELECT count(*) FROM {table}")[0][0])
    return start, rows, _log_bytes(generator) - before


def _log_bytes(generator: Generator) -> int:
    return sum(int(row[1]) for row in generator.run("SHOW BINARY LOGS"))
