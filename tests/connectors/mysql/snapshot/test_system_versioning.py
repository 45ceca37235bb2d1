"""MariaDB's system versioning, turned on and off of a captured table: rows come and go that the log does not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns

from cdc.source import Limits
from cdc_services.server import MySqlServer

ON, OFF = "ALTER TABLE {0} ADD SYSTEM VERSIONING", "ALTER TABLE {0} DROP SYSTEM VERSIONING"
pytestmark = pytest.mark.usefixtures("files_stay_open")
DECLARED = (
    "ALTER TABLE {0} ADD s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, ADD e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, "
    "ADD PERIOD FOR SYSTEM_TIME (s, e), ADD SYSTEM VERSIONING"
)
UNDECLARED = "ALTER TABLE {0} DROP s, DROP e, DROP PERIOD FOR SYSTEM_TIME, DROP SYSTEM VERSIONING"
UPDATE = "UPDATE {0} SET note = 'z' WHERE id = 1"
ADDED, RENAMED = "ALTER TABLE {0} ADD b INT DEFAULT 4", "ALTER TABLE {0} CHANGE note n2 VARCHAR(30)"
TURNED_ON = (
    (ON, ADDED), (ADDED, ON), (ON, OFF), (ON, UPDATE, OFF),
    (ON, UPDATE, OFF, ADDED, "INSERT INTO {0} VALUES (9, 'n', 5)"), (ON, "RENAME TABLE {0} TO {0}_old"),
    (ON, "ALTER TABLE {0} MODIFY note VARCHAR(40)", "DELETE FROM {0} WHERE id = 1"),
    (ON, "DROP TABLE {0}"), (ON, "ALTER TABLE {0} DROP note"), (ON, UPDATE, RENAMED, "UPDATE {0} SET n2 = 'r'"),
    ("ALTER TABLE {0} ADD b INT, ADD SYSTEM VERSIONING",), (DECLARED, UPDATE),
    (DECLARED, UPDATE, "ALTER TABLE {0} DROP s, DROP e", ADDED),
    (DECLARED, ADDED, UPDATE, UNDECLARED, "ALTER TABLE {0} ADD c INT DEFAULT 5"),
    (ON, "CREATE TABLE {0}_like LIKE {0}", "INSERT INTO {0}_like SELECT * FROM {0}", "UPDATE {0}_like SET note = 'l'"),
)  # fmt: skip
TURNED_OFF = (
    (OFF, ADDED), (ADDED, OFF), (OFF, ON), (OFF, "ALTER TABLE {0} MODIFY note VARCHAR(40)"),
    (OFF, "ALTER TABLE {0} DROP note"), (OFF, RENAMED, "UPDATE {0} SET n2 = 'r'"), (OFF, "RENAME TABLE {0} TO {0}_old"),
    (OFF, "DROP TABLE {0}"), (OFF, "TRUNCATE TABLE {0}"), ("ALTER TABLE {0} ADD b INT, DROP SYSTEM VERSIONING",),
    (ADDED,), ("ALTER TABLE {0} DROP note", "INSERT INTO {0} VALUES (7)"), (UPDATE, OFF, ADDED, "UPDATE {0} SET b = 6"),
    ("DELETE HISTORY FROM {0}",), ("UPDATE {0} SET id = 10 WHERE id = 1", OFF, "ALTER TABLE {0} ADD UNIQUE (note)"),
    ("ALTER TABLE {0} PARTITION BY SYSTEM_TIME (PARTITION p0 HISTORY, PARTITION pc CURRENT)", UPDATE),
)  # fmt: skip


@pytest.mark.mysql
def test_a_table_is_re_snapshotted_when_it_begins_or_ends_to_keep_old_versions(
    mariadb_server: MySqlServer, tmp_path: Path
) -> None:
    database = mariadb_server.new_database("versions")
    mariadb_server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(9))", "INSERT INTO t VALUES (1, 'a'), (2, 'a')",
        database=database,
    )  # fmt: skip
    runs = DirectRuns(mysql_pipeline(tmp_path, mariadb_server, rf"{database}.\.*"))

    def rows(*statements: str) -> list[tuple[object, ...]]:
        mariadb_server.execute(*statements, database=database)
        runs.catch_up(Limits(1 << 26, 10**6))
        with duckdb.connect(str(runs.pipeline.database), read_only=True) as sink:
            return sink.execute(f'SELECT * FROM "{database}".t ORDER BY ALL').fetchall()

    assert rows() == [(1, "a"), (2, "a")]
    versions = rows("ALTER TABLE t ADD SYSTEM VERSIONING", "UPDATE t SET note = 'b' WHERE id = 1")
    assert [row[:2] for row in versions] == [(1, "a"), (1, "b"), (2, "a")]
    assert {len(row) for row in versions} == {4}
    turned_off = ("DELETE FROM t WHERE id = 2", "ALTER TABLE t DROP SYSTEM VERSIONING", "INSERT INTO t VALUES (3, 'c')")
    assert rows(*turned_off) == [(1, "b"), (3, "c")]


@pytest.mark.mysql
@pytest.mark.parametrize(("key", "rows"), [("PRIMARY KEY", 10**6), ("", 1)])
def test_a_table_may_be_changed_again_before_its_copy_is_planned(
    mariadb_server: MySqlServer, tmp_path: Path, key: str, rows: int
) -> None:
    database = mariadb_server.new_database("versions")
    cases = [("", statements) for statements in TURNED_ON]
    cases += [("WITH SYSTEM VERSIONING", statements) for statements in TURNED_OFF]
    for number, (option, _) in enumerate(cases):
        mariadb_server.execute(
            f"CREATE TABLE t{number} (id INT {key}, note VARCHAR(9)) {option}",
            f"INSERT INTO t{number} VALUES (1, 'a'), (2, 'b')", f"UPDATE t{number} SET note = 'c' WHERE id = 2",
            database=database,
        )  # fmt: skip
    runs = DirectRuns(mysql_pipeline(tmp_path, mariadb_server, rf"{database}.\.*"))
    runs.catch_up(Limits(1 << 26, 10**6))
    for number, (_, statements) in enumerate(cases):
        mariadb_server.execute(
            "SET SESSION system_versioning_alter_history = KEEP",
            *(statement.format(f"t{number}") for statement in statements),
            database=database,
        )
    mariadb_server.execute(
        f"CREATE TABLE late (id INT {key}, note INT WITH SYSTEM VERSIONING)", "INSERT INTO late VALUES (1, 2)",
        "UPDATE late SET note = 3", database=database,
    )  # fmt: skip
    runs.catch_up(Limits(1 << 26, rows))
    assert list(_differences(mariadb_server, runs.pipeline.database, database)) == []


def _differences(server: MySqlServer, sink: Path, database: str) -> Iterator[str]:
    """Of all versions of the rows, as far as the server keeps them."""
    kinds = f"SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = '{database}' ORDER BY 1"
    with duckdb.connect(str(sink), read_only=True) as connection:
        kept = f"SELECT table_name FROM duckdb_tables() WHERE schema_name = '{database}' ORDER BY 1"
        tables = server.execute(kinds)
        assert connection.execute(kept).fetchall() == [(table,) for table, _ in tables]
        for table, kind in tables:
            every = "FOR SYSTEM_TIME ALL" if kind == "SYSTEM VERSIONED" else ""
            columns = [str(row[0]) for row in server.execute(f"SHOW COLUMNS FROM {table}", database=database)]
            if every and "e" not in columns:
                columns += ["row_start", "row_end"]
            listed = ", ".join(columns)
            there = server.execute(
                "SET time_zone = '+00:00'", f"SELECT {listed} FROM {table} {every}", database=database
            )
            rows = connection.execute(f'SELECT {listed} FROM "{database}".{table}').fetchall()
            here = (tuple(_without_zone(value) for value in row) for row in rows)
            if Counter(there) != (found := Counter(here)):
                yield f"{table}: {there} in the source, {found} in the sink"


def _without_zone(value: object) -> object:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value
