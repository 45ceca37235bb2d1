"""Keyless tables that are given numbers by the server, changed and then renamed, dropped or emptied: none stops.

The numbers are in no row event, so the table is copied. By the time the copy is planned, its columns have other names,
or the table has; whichever changes share a batch with the copy, the sink ends equal.
"""

from __future__ import annotations

from pathlib import Path

import comparison
import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns

from cdc.source import Limits
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql
CHANGES = ("MODIFY i BIGINT AUTO_INCREMENT", "CHANGE i j INT AUTO_INCREMENT", "RENAME COLUMN i TO j", "DROP COLUMN i")
ENDS = (
    "RENAME TABLE {0} TO {0}_old",
    "DROP TABLE {0}",
    "DROP TABLE {0}; CREATE TABLE {0} (a INT); INSERT INTO {0} VALUES (5)",
    "INSERT INTO {0} VALUES ()",
    "TRUNCATE TABLE {0}",
)


@pytest.mark.parametrize("rows", [1, 10**6])
@pytest.mark.parametrize("change", CHANGES)
def test_the_tables_end_equal(any_server: MySqlServer, tmp_path: Path, change: str, rows: int) -> None:
    database = any_server.new_database("given_a_key")
    tables = [f"t{number}" for number in range(len(ENDS))]
    for table in tables:
        filled = f"INSERT INTO {table} VALUES (1), (1), (2)"
        any_server.execute(f"CREATE TABLE {table} (a INT DEFAULT 3)", filled, database=database)
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(Limits(1 << 26, 10**6))
    for table, end in zip(tables, ENDS, strict=True):
        key = f"ALTER TABLE {table} ADD i INT AUTO_INCREMENT PRIMARY KEY"
        any_server.execute(key, f"ALTER TABLE {table} {change}", *end.format(table).split("; "), database=database)
    runs.catch_up(Limits(1 << 26, rows))
    assert comparison.differences(any_server, runs.pipeline, [database]) == []
