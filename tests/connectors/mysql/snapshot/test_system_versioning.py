"""MariaDB's system versioning, turned on and off of a captured table: rows come and go that the log does not hold."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns

from cdc.source import Limits
from cdc_services.server import MySqlServer


@pytest.mark.mysql
def test_a_table_is_copied_anew_when_it_begins_or_ends_to_keep_old_versions(
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
