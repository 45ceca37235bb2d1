"""Writes at random, from a thread, to tables that are being copied: rows, keys across chunk borders, definitions."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pymysql
from trials import trials

from cdc_services.server import MySqlServer

ROWS = 400
STEPS = trials(1500)
"""Transactions of one run at most, so that a slow machine does not get more of them."""

TABLES = {
    "numbers": "(id BIGINT PRIMARY KEY, v INT, note VARCHAR(40))",
    "small_keys": "(id TINYINT UNSIGNED, part SMALLINT, v INT, PRIMARY KEY (part, id))",
    "texts": "(name VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
    "western": "(name CHAR(12) CHARACTER SET latin1, num DECIMAL(12, 3), v INT, PRIMARY KEY (name, num))",
    "moments": "(at DATETIME(3), id INT, v INT, PRIMARY KEY (at, id))",
    "raw": "(b VARBINARY(12) PRIMARY KEY, v INT)",
    "unique_only": "(code INT NOT NULL, v INT, UNIQUE KEY (code))",
    "keyless": "(a INT, v INT, KEY (a))",
    "marks": "(e ENUM('z', 'y', 'x'), id INT, v INT, PRIMARY KEY (e, id))",
}
KEYLESS = frozenset({"keyless"})
_LETTERS = "abcABCxyzXYZ\u00e9\u00c9\u00e4\u00df'%_ 019"


class SnapshotWorkload:
    """One database with the tables above.

    Args:
        ddl: also change definitions, names, and whole tables.
    """

    def __init__(self, server: MySqlServer, seed: int, *, ddl: bool = False) -> None:
        self.server, self.random, self.ddl = server, random.Random(seed), ddl
        self.database = server.new_database("s")
        self.log: list[str] = []
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection = server.connect(database=self.database, autocommit=False)
        self._serial = 0

    def fill(self) -> None:
        """The tables and their first rows."""
        for name, columns in TABLES.items():
            self._do(f"CREATE TABLE `{name}` {columns} CHARACTER SET utf8mb4")
            for _ in range(ROWS // 20):
                rows = ", ".join(self._values(name) for _ in range(20))
                self._do(f"INSERT IGNORE INTO `{name}` VALUES {rows}")
        self._connection.commit()

    def start(self) -> None:
        """Write until `stop`, or until there were `STEPS` transactions."""
        self._thread = threading.Thread(target=self._run, name="workload", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the writing; raises what it failed with."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(60)
        if self._connection.open:
            self._connection.close()
        if self.error is not None:
            raise self.error

    def step(self) -> None:
        """One transaction, or one statement that changes a definition."""
        if self.ddl and self.random.random() < 0.03:
            self._change()
            return
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            self._write(self.random.choice(tuple(TABLES)))
        if self.random.random() < 0.05:
            self._connection.rollback()
        else:
            self._connection.commit()

    def _run(self) -> None:
        try:
            for _ in range(STEPS):
                if self._stop.is_set():
                    return
                self.step()
        except BaseException as error:  # noqa: BLE001 - raised by `stop`
            self.error = error

    def _write(self, table: str) -> None:
        pick = self.random.random()
        if pick < 0.35:
            self._do(f"INSERT IGNORE INTO `{table}` VALUES {self._values(table)}")
        elif pick < 0.6:
            self._do(f"UPDATE `{table}` SET v = {self.random.randrange(1000)} {self._some(table)}")
        elif pick < 0.8:
            self._do(f"UPDATE IGNORE `{table}` SET {self._new_key(table)} {self._some(table)}")
        else:
            self._do(f"DELETE FROM `{table}` {self._some(table)}")

    def _some(self, table: str) -> str:
        """A few rows, wherever they are."""
        return f"WHERE v = {self.random.randrange(1000)} LIMIT {self.random.choice((1, 1, 2, 10))}"

    def _change(self) -> None:
        table = self.random.choice(tuple(TABLES))
        columns = TABLES[table]
        self._serial += 1
        changes: list[Callable[[], list[str]]] = [
            lambda: [f"ALTER TABLE `{table}` ADD COLUMN x{self._serial} INT DEFAULT {self._serial}",
                     f"ALTER TABLE `{table}` DROP COLUMN x{self._serial}"],
            lambda: [f"ALTER TABLE `{table}` ADD COLUMN (p INT, q INT)", f"ALTER TABLE `{table}` DROP p, DROP q"],
            lambda: [f"TRUNCATE TABLE `{table}`"],
            lambda: [f"DROP TABLE `{table}`", f"CREATE TABLE `{table}` {columns} CHARACTER SET utf8mb4"],
            lambda: [f"RENAME TABLE `{table}` TO away", f"RENAME TABLE away TO `{table}`"],
            lambda: [f"CREATE TABLE other LIKE `{table}`", f"INSERT INTO other SELECT * FROM `{table}` LIMIT 5",
                     f"RENAME TABLE `{table}` TO third, other TO `{table}`, third TO other", "DROP TABLE other"],
            lambda: [f"ALTER TABLE `{table}` CHANGE v w INT", f"ALTER TABLE `{table}` CHANGE w v INT"],
        ]  # fmt: skip
        for statement in self.random.choice(changes)():
            self._do(statement)
            if self.random.random() < 0.5:
                self._connection.commit()
                for other in self.random.sample(tuple(TABLES), 2):
                    if other != table:
                        self._write(other)
        self._connection.commit()

    def _values(self, table: str) -> str:
        key = {
            "numbers": lambda: f"{self._number()}, {self._v()}, '{'n' * self.random.randrange(30)}'",
            "small_keys": lambda: f"{self.random.randrange(256)}, {self.random.randrange(-5, 5)}, {self._v()}",
            "texts": lambda: f"{self._text(8)}, {self._v()}",
            "western": lambda: f"{self._text(2)}, {self.random.randrange(-4000, 4000) / 1000}, {self._v()}",
            "moments": lambda: f"{self._moment()}, {self.random.randrange(3)}, {self._v()}",
            "raw": lambda: f"{self._bytes()}, {self._v()}",
            "unique_only": lambda: f"{self.random.randrange(-2000, 2000)}, {self._v()}",
            "keyless": lambda: f"{self.random.choice(('NULL', self.random.randrange(50)))}, {self._v()}",
            "marks": lambda: f"'{self.random.choice('xyz')}', {self.random.randrange(500)}, {self._v()}",
        }[table]
        return f"({key()})"

    def _new_key(self, table: str) -> str:
        return {
            "numbers": lambda: f"id = {self._number()}",
            "small_keys": lambda: f"id = {self.random.randrange(256)}, part = {self.random.randrange(-5, 5)}",
            "texts": lambda: self.random.choice(
                (f"name = {self._text(8)}", "name = UPPER(name)", "name = LOWER(name)")
            ),
            "western": lambda: f"name = {self._text(2)}",
            "moments": lambda: f"at = {self._moment()}",
            "raw": lambda: f"b = {self._bytes()}",
            "unique_only": lambda: f"code = {self.random.randrange(-2000, 2000)}",
            "keyless": lambda: f"a = {self.random.choice(('NULL', self.random.randrange(50)))}",
            "marks": lambda: f"e = '{self.random.choice('xyz')}'",
        }[table]()

    def _number(self) -> int:
        return self.random.choice((self.random.randrange(2000), self.random.randrange(-(2**63), 2**63)))

    def _v(self) -> int:
        return self.random.randrange(1000)

    def _text(self, most: int) -> str:
        text = "".join(self.random.choice(_LETTERS) for _ in range(self.random.randrange(most + 1)))
        return "'" + pymysql.converters.escape_string(text) + "'"

    def _bytes(self) -> str:
        return f"X'{self.random.randbytes(self.random.randrange(5)).hex()}'"

    def _moment(self) -> str:
        day, second = self.random.randrange(1, 29), self.random.randrange(60)
        return f"'20{self.random.randrange(10, 30)}-02-{day:02} 10:00:{second:02}.{self.random.randrange(1000):03}'"

    def _do(self, sql: str) -> Any:
        self.log.append(sql)
        with self._connection.cursor() as cursor:
            try:
                cursor.execute(sql)
            except pymysql.err.DataError:
                self.log.append("-- refused")
            return cursor.rowcount
