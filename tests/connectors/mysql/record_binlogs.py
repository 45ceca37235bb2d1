"""Records tests/fixtures/binlog/*.binlog from real servers: `python tests/connectors/mysql/record_binlogs.py`.

The files are small, and committed. Their contents are asserted by type counts, so a new recording may need new counts.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cdc_services.installation import find
from cdc_services.server import StartedServer

FIXTURES = Path(__file__).parents[2] / "fixtures" / "binlog"
_TABLE = "CREATE TABLE shop.orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(300), doc JSON, body LONGBLOB)"
_MYSQL = (
    "CREATE DATABASE shop",
    _TABLE,
    "INSERT INTO shop.orders (note) VALUES ('one'), ('two'), ('three')",
    "UPDATE shop.orders SET note = 'zwei' WHERE id = 2",
    "SET gtid_next = 'AUTOMATIC:nightly'",
    "INSERT INTO shop.orders (note) VALUES ('tagged')",
    "INSERT INTO shop.orders (note) VALUES ('tagged again')",
    "SET gtid_next = 'AUTOMATIC'",
    "SET binlog_rows_query_log_events = 1, binlog_row_value_options = PARTIAL_JSON",
    'UPDATE shop.orders SET doc = \'{"a": 1, "b": [1, 2, 3]}\' WHERE id = 1',
    "UPDATE shop.orders SET doc = JSON_SET(doc, '$.a', 2) WHERE id = 1",
    "SET binlog_rows_query_log_events = 0, binlog_row_value_options = ''",
    "BEGIN",
    "INSERT INTO shop.orders (note) VALUES ('kept')",
    "SAVEPOINT here",
    "INSERT INTO shop.orders (note) VALUES ('gone')",
    "ROLLBACK TO here",
    "COMMIT",
    "SET binlog_transaction_compression = 1",
    "INSERT INTO shop.orders (note) SELECT REPEAT('compressed ', 20) FROM shop.orders",
    "XA START 'x'",
    "DELETE FROM shop.orders WHERE id < 3",
    "XA END 'x'",
    "XA PREPARE 'x'",
    "XA COMMIT 'x'",
    "SET binlog_transaction_compression = 0",
    "ALTER TABLE shop.orders ADD COLUMN price DECIMAL(10, 2) DEFAULT 0",
    "FLUSH LOGS",
)
_MARIADB = (
    "CREATE DATABASE shop",
    _TABLE,
    "INSERT INTO shop.orders (note) VALUES ('one'), ('two'), ('three')",
    "SET GLOBAL log_bin_compress = 1, GLOBAL log_bin_compress_min_len = 10",
    "INSERT INTO shop.orders (note) SELECT REPEAT('compressed ', 20) FROM shop.orders",
    "UPDATE shop.orders SET note = REPEAT('changed ', 30)",
    "ALTER TABLE shop.orders ADD COLUMN price DECIMAL(10, 2) DEFAULT 0 COMMENT 'one two one two one two one two'",
    "DELETE FROM shop.orders WHERE id > 3",
    "SET GLOBAL log_bin_compress = 0",
    "SET gtid_domain_id = 7",
    "INSERT INTO shop.orders (note) VALUES ('other domain')",
    "FLUSH LOGS",
)


def record(flavor: str, name: str, statements: tuple[str, ...], options: tuple[str, ...] = ()) -> None:
    installation = find(flavor)
    if installation is None:
        raise SystemExit(f"no {flavor}: run `make services`")
    server = StartedServer(installation, options)
    try:
        server.execute(*statements)
        shutil.copyfile(server.datadir / "binlog.000001", FIXTURES / name)
    finally:
        server.close()


def main() -> None:
    FIXTURES.mkdir(parents=True, exist_ok=True)
    record("mysql", "mysql.binlog", _MYSQL)
    record("mysql", "mysql-no-checksum.binlog", _MYSQL, ("--binlog-checksum=NONE",))
    record("mariadb", "mariadb.binlog", _MARIADB)
    keys = FIXTURES / "keys.txt"
    keys.write_text("1;a7addd9adea9978fda19f21e6be987880e68ac92632ca052e5bb42b1a506939a\n")
    keys.chmod(0o644)
    encrypted = (
        "--plugin-load-add=file_key_management", f"--file-key-management-filename={keys}", "--encrypt-binlog=1",
    )  # fmt: skip
    try:
        record("mariadb", "mariadb-encrypted.binlog", _MARIADB[:3], encrypted)
    finally:
        keys.unlink()


if __name__ == "__main__":
    main()
