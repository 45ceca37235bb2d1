"""Keyless tables that are given numbers by the server, changed and then renamed, dropped or emptied: none stops.

The numbers are in no row event, so the table is copied. By the time the copy is planned, its columns have other names,
or the table has; whichever changes share a batch with the copy, the sink ends equal.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import comparison
import pytest
from cdc_process import mysql_pipeline, present_end
from direct import DirectRuns

from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import TableId
from cdc.sink_columns import Coercion
from cdc.source import Limits
from cdc.state.directory import StateDir
from cdc.tables.requests import Mailbox, RequestKind
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.usefixtures("files_stay_open")]
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


REFUSED = {
    "a key that rows do not have": ("id INT, a INT", "(NULL, 1)", "(7, 1)", "ADD PRIMARY KEY (id)"),
    "a smaller type, with another change": (
        "id INT PRIMARY KEY, a INT, b INT", "(1, -5, 2)", "(2, 5, 2)", "MODIFY a INT UNSIGNED, MODIFY b BIGINT UNSIGNED"
    ),
}  # fmt: skip


@pytest.mark.parametrize("behavior", ["evolve", "lenient", "try_evolve"])
@pytest.mark.parametrize("name", REFUSED)
def test_the_hint_of_a_refused_change_is_followed_where_nothing_is_copied_unasked(
    any_server: MySqlServer, tmp_path: Path, name: str, behavior: str
) -> None:
    """The log has all rows: a change of them that it does not tell stops the run."""
    columns, row, later, change = REFUSED[name]
    database, beginning = any_server.new_database("refused"), present_end(any_server)
    any_server.execute(f"CREATE TABLE t ({columns})", f"INSERT INTO t VALUES {row}", database=database)
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*", **beginning))
    how = Middle(RouteTable(()), Policy(Behavior(behavior)), Coercion("fail"))
    runs.catch_up(Limits(1 << 26, 10**6), middle=how)
    any_server.execute("SET sql_mode = ''", f"ALTER TABLE t {change}", database=database)
    any_server.execute(f"INSERT INTO t VALUES {later}", database=database)
    stops = behavior == "evolve" or change.startswith("ADD")
    hint = re.escape(f"`cdc resync FILE {database}.t`")
    with pytest.raises(ChangeRefused, match=hint) if stops else nullcontext():
        runs.catch_up(Limits(1 << 26, 10**6), middle=how)
    resync(runs, TableId(database, "t"))
    runs.catch_up(Limits(1 << 26, 10**6), middle=how)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


def resync(runs: DirectRuns, table: TableId) -> None:
    """As `cdc resync`."""
    Mailbox(StateDir(runs.pipeline.state / "engine").store).add(table, RequestKind.SNAPSHOT)
