"""Records the demo's binlog: a small shop on a real MySQL server, written by a seeded workload.

    python scripts/record_demo.py

Starts the MySQL that `make services` installed, runs the workload, and writes

* `pipelines/demo/shop.binlog.000001`: the server's own binlog file, from position 4 to its end;
* `tests/golden/demo.json`: what the server's tables held at the end: columns, number of rows, a digest of all values.

The statements are the same in every run; the file differs in server id, clock and GTIDs.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cdc_services.installation import find
from cdc_services.server import StartedServer

ROOT = Path(__file__).resolve().parent.parent
BINLOG = ROOT / "pipelines" / "demo" / "shop.binlog.000001"
EXPECTED = ROOT / "tests" / "golden" / "demo.json"
OPTIONS = ("--binlog-row-metadata=FULL", "--default-time-zone=+00:00")

TABLES = """
CREATE TABLE customers (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  email VARCHAR(120) NOT NULL UNIQUE,
  city VARCHAR(40) CHARACTER SET latin1 NOT NULL,
  balance DECIMAL(12,2) NOT NULL DEFAULT '0.00',
  newsletter TINYINT(1) NOT NULL DEFAULT '0',
  born DATE NULL,
  note VARCHAR(100) NULL COMMENT 'what support wrote down'
) COMMENT 'people who bought something';
CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id INT UNSIGNED NOT NULL,
  status ENUM('new','paid','shipped','returned') NOT NULL DEFAULT 'new',
  total DECIMAL(12,2) NOT NULL,
  currency CHAR(3) NOT NULL DEFAULT 'EUR',
  weight_kg DOUBLE NULL,
  items SMALLINT UNSIGNED NOT NULL,
  ordered_at DATETIME(3) NOT NULL,
  shipped_on DATE NULL,
  gift TINYINT(1) NOT NULL DEFAULT '0',
  details JSON NULL,
  updated_at TIMESTAMP(3) NULL,
  KEY by_customer (customer_id)
);
CREATE TABLE order_items (
  order_id BIGINT UNSIGNED NOT NULL,
  line SMALLINT NOT NULL,
  sku VARCHAR(24) NOT NULL,
  quantity INT NOT NULL,
  price DECIMAL(10,2) NOT NULL,
  PRIMARY KEY (order_id, line)
);
CREATE TABLE events_log (
  at DATETIME(6) NOT NULL,
  kind VARCHAR(20) NOT NULL,
  took TIME(3) NULL,
  payload BLOB NULL
) COMMENT 'no primary key on purpose';
"""

FIRST = ("Ada", "Bo", "Chloé", "Dmitri", "Eun-ji", "Fatima", "Günther", "Hana", "Iñaki", "Jürgen", "李雷", "Søren")
LAST = ("Ødegård", "Müller", "García", "Nowak", "O'Neil", "Tanaka", "Smith", "Kowalski", "Dubois", "Rossi")
CITIES = ("Köln", "München", "Málaga", "Zürich", "Paris", "Oslo", "Porto", "Graz")


def main() -> int:
    """Record, and say what was written; the exit code."""
    installation = find("mysql")
    if installation is None:
        sys.stderr.write("no MySQL server on this machine: run `make services` first\n")
        return 1
    server = StartedServer(installation, OPTIONS)
    try:
        expected = record(server)
    finally:
        server.close()
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    rows = ", ".join(f"{table} {content['rows']}" for table, content in expected.items())
    sys.stdout.write(f"{BINLOG.relative_to(ROOT)}: {BINLOG.stat().st_size:,} bytes; rows at the end: {rows}\n")
    return 0


def record(server: StartedServer) -> dict[str, dict[str, Any]]:
    """Run the workload on a fresh binlog and copy the file; what the tables hold afterwards."""
    connection = server.connect(autocommit=False)
    with connection.cursor() as cursor:
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        cursor.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
        connection.select_db("shop")
        for statement in filter(str.strip, TABLES.split(";")):
            cursor.execute(statement.strip())
        for step in workload(random.Random(97)):
            if step is None:
                connection.commit()
            else:
                run(cursor, *step)
        connection.commit()
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW TABLES")
        expected = {table: content(cursor, table) for (table,) in cursor.fetchall()}
    connection.close()
    BINLOG.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(server.datadir / "binlog.000001", BINLOG)
    return expected


def run(cursor: Any, sql: str, rows: list[tuple[Any, ...]] | None = None) -> None:
    """One statement; with rows one multi-row statement, and so one row event."""
    cursor.executemany(sql, rows) if rows else cursor.execute(sql)


def content(cursor: Any, table: str) -> dict[str, Any]:
    """Columns, number of rows and digest of a table."""
    cursor.execute(f"SELECT * FROM {table}")
    rows = cursor.fetchall()
    return {"columns": [column[0] for column in cursor.description], "rows": len(rows), "sha256": digest(rows)}


def digest(rows: Iterable[Sequence[Any]]) -> str:
    """The same for the same rows in any order, from whatever database they were read."""
    lines = sorted("\x1f".join(plain(value) for value in row) for row in rows)
    return hashlib.sha256("\x1e".join(lines).encode()).hexdigest()


def plain(value: Any) -> str:
    """A value as text, so that drivers agree: instants in UTC, truth as 0 and 1, bytes as digits."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(int(value)) if isinstance(value, bool) else str(value)


Step = tuple[str] | tuple[str, list[tuple[Any, ...]]] | None


def workload(pick: random.Random) -> Iterator[Step]:
    """The shop's life as statements; None ends a transaction."""
    yield from sign_up(pick, 1, 300)
    yield from sell(pick, 1, 500)
    yield from work_on_orders(pick, 1, 500)
    yield ("ALTER TABLE orders ADD COLUMN channel VARCHAR(12) NOT NULL DEFAULT 'shop' AFTER currency",)
    yield from sell(pick, 501, 1_000, channels=("web", "app", "phone"))
    yield from log_events(pick, 300)
    yield ("TRUNCATE TABLE events_log",)
    yield ("ALTER TABLE customers RENAME COLUMN note TO remark",)
    yield from sign_up(pick, 301, 400, note="remark")
    yield from work_on_orders(pick, 300, 1_000)
    yield from move_keys(pick)
    yield from log_events(pick, 400)
    yield ("UPDATE events_log SET took = NULL WHERE kind = 'search' LIMIT 20",)
    yield ("DELETE FROM events_log WHERE kind = 'logout' LIMIT 15",)
    yield None


def sign_up(pick: random.Random, first: int, last: int, note: str = "note") -> Iterator[Step]:
    """New customers, 25 in a transaction."""
    columns = f"id, name, email, city, balance, newsletter, born, {note}"
    sql = f"INSERT INTO customers ({columns}) VALUES (%s,%s,%s,%s,%s,%s,%s,%s)"
    for start in range(first, last + 1, 25):
        yield (sql, [customer(pick, number) for number in range(start, min(start + 25, last + 1))])
        yield None


def customer(pick: random.Random, number: int) -> tuple[Any, ...]:
    """One customer's row."""
    name = f"{pick.choice(FIRST)} {pick.choice(LAST)}"
    born = (
        f"{pick.randint(1940, 2007)}-{pick.randint(1, 12):02}-{pick.randint(1, 28):02}" if pick.random() < 0.7 else None
    )
    note = pick.choice((None, None, "prefers e-mail", "called on Monday ☎", ""))
    balance = f"{pick.randint(-5_000, 90_000) / 100:.2f}"
    return number, name, f"user{number}@example.org", pick.choice(CITIES), balance, pick.randint(0, 1), born, note


def sell(pick: random.Random, first: int, last: int, channels: tuple[str, ...] = ()) -> Iterator[Step]:
    """New orders with their lines, ten orders in a transaction."""
    columns = "id, customer_id, total, weight_kg, items, ordered_at, gift, details, updated_at"
    marks = "%s,%s,%s,%s,%s,%s,%s,%s,%s"
    if channels:
        columns, marks = columns + ", channel", marks + ",%s"
    for start in range(first, last + 1, 10):
        orders, lines = [], []
        for number in range(start, start + 10):
            bought = [item(pick, number, line) for line in range(1, pick.randint(1, 4) + 1)]
            orders.append((*order(pick, number, bought), *([pick.choice(channels)] if channels else [])))
            lines.extend(bought)
        yield (f"INSERT INTO orders ({columns}) VALUES ({marks})", orders)
        yield ("INSERT INTO order_items VALUES (%s,%s,%s,%s,%s)", lines)
        yield None


def item(pick: random.Random, number: int, line: int) -> tuple[Any, ...]:
    """One order line."""
    return number, line, f"SKU-{pick.randint(1, 120):05}", pick.randint(1, 5), f"{pick.randint(99, 19_999) / 100:.2f}"


def order(pick: random.Random, number: int, lines: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """One order's row, its total the sum of its lines."""
    cents = sum(quantity * round(float(price) * 100) for _, _, _, quantity, price in lines)
    total = f"{cents // 100}.{cents % 100:02}"
    at = f"2026-{1 + number % 12:02}-{1 + number % 28:02} {number % 24:02}:{number % 60:02}:07.{number % 1000:03}"
    weight = round(pick.uniform(0.05, 30), 3) if pick.random() < 0.9 else None
    gift = number % 9 == 0
    return number, pick.randint(1, 300), total, weight, len(lines), at, gift, details(pick, number), at


def details(pick: random.Random, number: int) -> str | None:
    """The JSON column: an object with nesting, numbers, null and booleans; sometimes NULL."""
    if pick.random() < 0.2:
        return None
    place = {"zip": f"{number:05}", "geo": [round(pick.uniform(-90, 90), 4), round(pick.uniform(-180, 180), 4)]}
    coupon = pick.choice([None, "SPRING", "LOYAL"])
    return json.dumps({"coupon": coupon, "wrap": number % 9 == 0, "address": place, "visits": number})


def work_on_orders(pick: random.Random, first: int, last: int) -> Iterator[Step]:
    """Pay, ship, return and delete orders; every eleventh transaction is rolled back."""
    for turn in range(first, last + 1, 4):
        number = pick.randint(first, last)
        status = pick.choice(("paid", "shipped", "returned"))
        shipped = ", shipped_on = '2026-11-02'" if status == "shipped" else ""
        yield (f"UPDATE orders SET status = '{status}', updated_at = '2026-11-01 10:00:00.{turn % 1000:03}'{shipped} "
               f"WHERE id BETWEEN {number} AND {number + 2}",)  # fmt: skip
        yield (f"UPDATE customers SET balance = balance - {turn % 50}.25 WHERE id = {1 + turn % 300}",)
        if turn % 11 == 0:
            yield ("ROLLBACK",)
        elif turn % 7 == 0:
            yield (f"DELETE FROM order_items WHERE order_id = {number}",)
            yield (f"DELETE FROM orders WHERE id = {number}",)
        yield None


def move_keys(pick: random.Random) -> Iterator[Step]:
    """Updates that change the primary key: whole keys, and one part of a composite key."""
    for number in pick.sample(range(1, 300), 12):
        yield (f"UPDATE customers SET id = id + 100000 WHERE id = {number}",)
    yield ("UPDATE order_items SET line = line + 10 WHERE order_id BETWEEN 700 AND 740",)
    yield None


def log_events(pick: random.Random, count: int) -> Iterator[Step]:
    """Rows of the table without a key; some are equal in every column."""
    rows = []
    for number in range(count):
        kind = pick.choice(("login", "search", "search", "logout", "error"))
        payload = bytes([number % 256, 0, 255]) if kind == "error" else None
        rows.append((f"2026-11-03 09:00:{number % 60:02}.{number // 3:06}", kind, f"{number % 840}:00:01.5", payload))
    for start in range(0, count, 50):
        yield ("INSERT INTO events_log VALUES (%s,%s,%s,%s)", rows[start : start + 50] + rows[start : start + 2])
        yield None


if __name__ == "__main__":
    sys.exit(main())
