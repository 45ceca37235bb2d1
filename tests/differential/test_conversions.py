"""ALTER ... MODIFY with rows there: a sink converts them itself, and comes to the values that the server made.

Where it cannot, because the log has the statement and not the values, the change is refused. Never anything else.
"""

from __future__ import annotations

from pathlib import Path

import comparison
import pytest
from cdc_process import mysql_pipeline, present_end
from conversions import CONVERSIONS, UNSURE, Conversion
from direct import DirectRuns

from cdc.errors import ChangeRefused
from cdc.source import Limits
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.usefixtures("files_stay_open")]
_LIMITS = Limits(1 << 26, 10**6)
_NEVER_REFUSED = {("INT", "VARCHAR(20)"), ("INT", "DECIMAL(20,3)"), ("FLOAT", "DOUBLE"), ("DATE", "DATETIME")}
SURE = [conversion for conversion in CONVERSIONS if conversion[:2] in _NEVER_REFUSED]


def test_rows_that_are_there_are_converted_as_the_server_does(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("convert")
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*", **present_end(any_server)))
    for number, conversion in enumerate(CONVERSIONS):
        any_server.execute(*_rows(f"t{number:02}", conversion), database=database)
    runs.catch_up(_LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []
    alters = [f"ALTER TABLE t{number:02} MODIFY COLUMN c {after}" for number, (_, after, _) in enumerate(CONVERSIONS)]
    any_server.execute("SET sql_mode = 'STRICT_ALL_TABLES'", *alters, database=database)
    runs.catch_up(_LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_change_is_carried_out_exactly_or_refused(mysql_server: MySqlServer, tmp_path: Path) -> None:
    """By a session that is not strict and not in UTC, where the source copies no table anew. All sinks ask one planner
    what is refused; what Doris and StarRocks make of the changes that are carried out is in `test_uncertain.py`."""
    wrong: dict[tuple[str, str], list[str]] = {}
    refused = set()
    for number, conversion in enumerate((*UNSURE, *SURE)):
        before, after, _ = conversion
        database = mysql_server.new_database(f"c{number:02}")
        made = mysql_pipeline(tmp_path / str(number), mysql_server, rf"{database}.\.*", **present_end(mysql_server))
        runs = DirectRuns(made)
        mysql_server.execute(*_rows("t", conversion), database=database)
        runs.catch_up(_LIMITS)
        assert comparison.differences(mysql_server, runs.pipeline, [database]) == []
        alter = f"ALTER TABLE t MODIFY COLUMN c {after}"
        mysql_server.execute("SET sql_mode = '', time_zone = '+05:00'", alter, database=database)
        try:
            runs.catch_up(_LIMITS)
        except ChangeRefused:
            refused.add((before, after))
            continue
        if found := comparison.differences(mysql_server, runs.pipeline, [database]):
            wrong[before, after] = found
    assert wrong == {}
    assert ("TIMESTAMP", "DATETIME") in refused
    assert not refused & {(before, after) for before, after, _ in SURE}


def _rows(table: str, conversion: Conversion) -> list[str]:
    before, _, values = conversion
    create = f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, c {before} NULL)"
    return [create, *(f"INSERT INTO {table} (c) VALUES ({value})" for value in (*values, "NULL"))]
