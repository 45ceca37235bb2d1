"""A small shop that somebody keeps writing to: three tables, orders that come, change and go. For trials.

It stays small: old orders go when there are more than `MOST_ORDERS`.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pymysql

from cdc_services.server import MySqlServer

CUSTOMERS, ORDERS, MOST_ORDERS = 200, 1_000, 10_000
TABLES = ("customers", "order_items", "orders")
_AGAIN_S = 1.0
_DEFINITIONS = (
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "USE shop",
    "CREATE TABLE customers (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(60) NOT NULL, "
    "city VARCHAR(40) NOT NULL, since DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    "CREATE TABLE orders (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, customer_id INT UNSIGNED NOT NULL, "
    "status ENUM('new','paid','shipped','returned') NOT NULL DEFAULT 'new', total DECIMAL(10,2) NOT NULL, "
    "ordered_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3))",
    "CREATE TABLE order_items (order_id BIGINT UNSIGNED NOT NULL, line SMALLINT NOT NULL, sku VARCHAR(24) NOT NULL, "
    "quantity INT NOT NULL, price DECIMAL(8,2) NOT NULL, PRIMARY KEY (order_id, line))",
)
_NAMES = ("Ada", "Bo", "Chloé", "Dmitri", "Eun-ji", "Fatima", "Günther", "Hana", "Iñaki", "李雷", "Søren")
_CITIES = ("Köln", "Málaga", "Zürich", "Paris", "Oslo", "Porto", "Graz", "Łódź")
_NEXT = {"new": "paid", "paid": "shipped", "shipped": "returned", "returned": "paid"}


class Shop:
    """The database `shop` of a server. `written` counts the transactions since `open`."""

    def __init__(self, server: MySqlServer, *, seed: int = 97) -> None:
        self._server, self._pick = server, random.Random(seed)
        self.written = 0

    def open(self) -> None:
        """Create the tables, with customers and orders in them."""
        self._server.execute(*_DEFINITIONS)
        connection = self._connect()
        with connection, connection.cursor() as cursor:
            for _ in range(CUSTOMERS):
                self._sign_up(cursor)
            for _ in range(ORDERS):
                self._order(cursor)
            connection.commit()

    def write_until(self, over: threading.Event, per_second: float, say: Callable[[str], None]) -> None:
        """Write transactions until told to stop. What a transaction fails with is said, and the next one is tried."""
        connection = None
        while not over.wait(1 / per_second):
            try:
                connection = connection or self._connect()
                self._write(connection)
            except pymysql.MySQLError as error:
                say(f"a write to the shop failed: {error}")
                connection = None
                over.wait(_AGAIN_S)

    def _connect(self) -> Any:
        return self._server.connect(database="shop", autocommit=False)

    def _write(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT MIN(id), MAX(id), COUNT(*) FROM orders")
            first, last, number = cursor.fetchone()
            choice = self._pick.random()
            if number > MOST_ORDERS:
                self._forget(cursor, first, first + number - MOST_ORDERS)
            elif choice < 0.5 or not number:
                self._order(cursor)
            elif choice < 0.9:
                self._move_on(cursor, self._pick.randint(first, last))
            elif choice < 0.95:
                self._sign_up(cursor)
            else:
                self._forget(cursor, first, first)
        connection.commit()
        self.written += 1

    def _sign_up(self, cursor: Any) -> None:
        name = f"{self._pick.choice(_NAMES)} {self._pick.randint(1, 999)}"
        cursor.execute("INSERT INTO customers (name, city) VALUES (%s, %s)", (name, self._pick.choice(_CITIES)))

    def _order(self, cursor: Any) -> None:
        lines = [
            (line, f"SKU-{self._pick.randint(1, 120):05}", self._pick.randint(1, 5), self._pick.randint(99, 9_999))
            for line in range(1, self._pick.randint(1, 4) + 1)
        ]
        total = sum(quantity * cents for _, _, quantity, cents in lines)
        sql = "INSERT INTO orders (customer_id, total) VALUES (%s, %s)"
        cursor.execute(sql, (self._pick.randint(1, CUSTOMERS), _euros(total)))
        number = cursor.lastrowid
        rows = [(number, line, sku, quantity, _euros(cents)) for line, sku, quantity, cents in lines]
        sql = "INSERT INTO order_items (order_id, line, sku, quantity, price) VALUES (%s, %s, %s, %s, %s)"
        cursor.executemany(sql, rows)

    def _move_on(self, cursor: Any, number: int) -> None:
        cursor.execute("SELECT status FROM orders WHERE id = %s", (number,))
        found = cursor.fetchone()
        if found is not None:
            cursor.execute("UPDATE orders SET status = %s WHERE id = %s", (_NEXT[found[0]], number))

    def _forget(self, cursor: Any, first: int, last: int) -> None:
        cursor.execute("DELETE FROM order_items WHERE order_id BETWEEN %s AND %s", (first, last))
        cursor.execute("DELETE FROM orders WHERE id BETWEEN %s AND %s", (first, last))


def _euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"
