"""Stops whose hint is to leave a table out until the log is read, and to take it in again: the sink ends equal."""

from __future__ import annotations

from pathlib import Path

import comparison
import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns

from cdc.errors import UnsupportedChange
from cdc.source import Limits
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow, pytest.mark.usefixtures("files_stay_open")]
LIMITS = Limits(1 << 26, 10**6)

STOPS = {
    "part of a row": ("SET binlog_row_image = minimal", "UPDATE t SET b = 'y'"),
    "a table that came in, and was altered": (
        "RENAME TABLE {other}.t TO v", "ALTER TABLE v ADD c INT", "INSERT INTO v VALUES (2, 'y', 3)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("part of a row", "initial"),
        ("part of a row", "earliest-offset"),
        ("a table that came in, and was altered", "earliest-offset"),  # where tables are copied, it is copied at once
    ],
)
def test_a_table_that_is_left_out_and_taken_in_again_is_copied(
    any_server: MySqlServer, tmp_path: Path, name: str, mode: str
) -> None:
    database, other = any_server.new_database("hint"), any_server.new_database("hint")
    create = ("CREATE TABLE t (id INT PRIMARY KEY, b TEXT)", "INSERT INTO t VALUES (1, 'x')")
    any_server.execute(*create, "CREATE TABLE u (id INT PRIMARY KEY)", database=database)
    any_server.execute(*create, database=other)
    pipeline = mysql_pipeline(tmp_path, any_server, rf"{database}.\.*", scan__startup__mode=mode)
    runs = DirectRuns(pipeline)
    runs.catch_up(LIMITS)
    any_server.execute(*(each.format(other=other) for each in STOPS[name]), database=database)
    any_server.execute("INSERT INTO u VALUES (2)", database=database)
    with pytest.raises(UnsupportedChange) as caught:
        runs.catch_up(LIMITS)
    assert "take it in again: it is copied" in caught.value.hint
    pipeline.source["tables.exclude"] = f"{database}.[tv]"
    runs.catch_up(LIMITS)
    del pipeline.source["tables.exclude"]
    runs.catch_up(LIMITS)
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, pipeline, [database]) == []
