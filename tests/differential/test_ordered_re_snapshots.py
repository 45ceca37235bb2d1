"""Copies that the engine asks a live server for: a change that the sink refuses, and a table that goes elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import comparison
import duckdb
import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns
from servers import FLAVORS, ServerFactory

from cdc import events as on
from cdc.errors import ChangeRefused, UnsupportedChange
from cdc.flow.middle import Middle
from cdc.route import RouteTable, StoredRule
from cdc.schema import TableId
from cdc.source import Limits
from cdc_services.server import MySqlServer
from connectors.mysql.ddl import catalog as catalog_module
from connectors.shared.ddl.statements import Statement, Unparsed

pytestmark = [pytest.mark.mysql, pytest.mark.usefixtures("files_stay_open")]

LIMITS = Limits(1 << 26, 2_000)
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, c INT)"
FIRST = "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"


def stubborn(server: MySqlServer, folder: Path, **options: object) -> tuple[DirectRuns, str]:
    """A pipeline whose sink has an index on a column, so that DuckDB does not change its type."""
    database = server.new_database("asked")
    server.execute(CREATE, FIRST, "ANALYZE TABLE t", database=database)
    runs = DirectRuns(mysql_pipeline(folder, server, rf"{database}.\.*", **options))
    runs.catch_up(LIMITS)
    with duckdb.connect(str(runs.pipeline.database)) as connection:
        connection.execute(f"CREATE INDEX mine ON {database}.t (c)")
    server.execute(
        "ALTER TABLE t MODIFY c BIGINT", "INSERT INTO t VALUES (4, 40000000000)", "DELETE FROM t WHERE id = 2",
        database=database,
    )  # fmt: skip
    return runs, database


def test_a_table_whose_change_the_sink_refuses_is_copied_as_it_is_to_be(
    any_server: MySqlServer, tmp_path: Path
) -> None:
    runs, database = stubborn(any_server, tmp_path)
    run = runs.catch_up(LIMITS)
    assert run.events[-1] == on.SnapshotDone(TableId(database, "t"))
    assert comparison.differences(any_server, runs.pipeline, [database]) == []
    any_server.execute("ALTER TABLE t ADD d INT", "INSERT INTO t VALUES (9, 9, 9)", database=database)
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


def test_a_table_too_large_to_be_copied_unasked_stops_and_goes_on_as_the_hint_says(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    runs, database = stubborn(mysql_server, tmp_path, **{"schema-change.copy-max-rows": 2})
    with pytest.raises(UnsupportedChange, match="the sink does not take a change of its schema") as caught:
        runs.catch_up(LIMITS)
    assert "schema-change.uncertain" not in caught.value.hint
    runs.pipeline.source["schema-change.copy-max-rows"] = 1000
    runs.catch_up(LIMITS)
    assert comparison.differences(mysql_server, runs.pipeline, [database]) == []


def test_who_wants_no_copies_gets_none(mysql_server: MySqlServer, tmp_path: Path) -> None:
    runs, database = stubborn(mysql_server, tmp_path, **{"schema-change.uncertain": "stop"})
    with pytest.raises(ChangeRefused, match="depend"):
        runs.catch_up(LIMITS)
    with duckdb.connect(str(runs.pipeline.database)) as connection:
        connection.execute(f"DROP INDEX {database}.mine")
    runs.catch_up(LIMITS)
    assert comparison.differences(mysql_server, runs.pipeline, [database]) == []


def test_a_table_that_goes_elsewhere_is_copied_there_while_the_log_goes_on(
    any_server: MySqlServer, tmp_path: Path
) -> None:
    database = any_server.new_database("asked")
    any_server.execute(CREATE, FIRST, database=database)
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute("UPDATE t SET c = 9 WHERE id = 1", "DELETE FROM t WHERE id = 3", database=database)
    moved = Middle(RouteTable([StoredRule(f"{database}.t", f"{database}.u")]))
    runs.catch_up(LIMITS, middle=moved)
    any_server.execute("INSERT INTO t VALUES (7, 7)", database=database)
    runs.catch_up(LIMITS, middle=moved)
    assert runs.pipeline.query(f"SELECT id, c FROM {database}.u ORDER BY id") == [(1, 9), (2, 2), (7, 7)]
    assert runs.pipeline.query(f"SELECT id, c FROM {database}.t ORDER BY id") == [(1, 1), (2, 2), (3, 3)]


def test_numbers_that_the_sink_has_as_booleans_come_back_as_numbers(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("asked")
    any_server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, c TINYINT(1))", "INSERT INTO t VALUES (1, 0), (2, 1), (3, 5), (4, NULL)",
        database=database,
    )  # fmt: skip
    options = {"treat-tinyint1-as-boolean.enabled": True}
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*", **options))
    runs.catch_up(LIMITS)
    any_server.execute("ALTER TABLE t MODIFY c INT", "INSERT INTO t VALUES (5, 7)", database=database)
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


def not_understood(monkeypatch: pytest.MonkeyPatch, *, named: bool) -> None:
    """From here on no statement with the word STRANGE in it is understood."""
    understood = catalog_module.parse

    def parse(sql: str, *, database: str = "", **given: Any) -> tuple[Statement, ...]:
        if "STRANGE" not in sql:
            return understood(sql, database=database, **given)
        return (Unparsed("STRANGE is strange", (TableId(database, "t"),) if named else ()),)

    monkeypatch.setattr(catalog_module, "parse", parse)


@pytest.mark.parametrize("named", [True, False])
def test_a_statement_that_is_not_understood_has_its_table_read_and_re_snapshotted(
    any_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    not_understood(monkeypatch, named=named)
    database = any_server.new_database("asked")
    any_server.execute(CREATE, FIRST, "CREATE TABLE other (id INT PRIMARY KEY)", database=database)
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute(
        "ALTER TABLE t DROP c, ADD d INT DEFAULT 5, COMMENT 'STRANGE'", "INSERT INTO t VALUES (7, 7)",
        "INSERT INTO other VALUES (1)", database=database,
    )  # fmt: skip
    run = runs.catch_up(LIMITS)
    assert run.events[-1] == on.SnapshotDone(TableId(database, "t"))
    assert comparison.differences(any_server, runs.pipeline, [database]) == []
    any_server.execute("ALTER TABLE t ADD e INT", "INSERT INTO t VALUES (8, 8, 8)", database=database)
    runs.catch_up(LIMITS)
    assert comparison.differences(any_server, runs.pipeline, [database]) == []


@pytest.mark.parametrize("flavor", FLAVORS)
def test_what_was_logged_as_statements_is_copied_with_what_triggers_wrote(
    flavor: str, server_factory: ServerFactory, tmp_path: Path
) -> None:
    server = server_factory(flavor)  # an UPDATE in its log counts for the tables of every pipeline that reads there
    database, other = server.new_database("asked"), server.new_database("asked")
    server.execute(CREATE, FIRST, "CREATE TABLE noted (id INT PRIMARY KEY)", database=database)
    server.execute("CREATE TABLE beyond (id INT PRIMARY KEY)", database=other)
    server.execute(
        f"CREATE TRIGGER r BEFORE DELETE ON t FOR EACH ROW BEGIN INSERT INTO noted VALUES (OLD.id); "
        f"INSERT INTO {other}.beyond VALUES (OLD.id); END",
        database=database,
    )
    runs = DirectRuns(mysql_pipeline(tmp_path, server, rf"{database}.\.*,{other}.\.*"))
    runs.catch_up(LIMITS)
    server.execute(
        "SET SESSION binlog_format = STATEMENT", "BEGIN", "UPDATE t SET c = NULL", "DELETE FROM t ORDER BY id LIMIT 1",
        "COMMIT", "SET SESSION binlog_format = ROW", "INSERT INTO t (id) VALUES (71)", database=database,
    )  # fmt: skip
    run = runs.catch_up(LIMITS)
    copied = {change.table.table for change in run.events if isinstance(change, on.SnapshotDone)}
    assert copied == {"t", "noted", "beyond"}
    assert comparison.differences(server, runs.pipeline, [database, other]) == []


def test_one_that_the_log_follows_up_stops_and_goes_on_as_the_hint_says(
    mysql_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_understood(monkeypatch, named=True)
    database = mysql_server.new_database("asked")
    mysql_server.execute(CREATE, FIRST, "CREATE TABLE other (id INT PRIMARY KEY)", database=database)
    runs = DirectRuns(mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    mysql_server.execute(
        "ALTER TABLE t COMMENT 'STRANGE'", "ALTER TABLE t ADD d INT", "INSERT INTO other VALUES (1)", database=database
    )
    with pytest.raises(UnsupportedChange, match="the log changes it once more") as caught:
        runs.catch_up(LIMITS)
    assert "leave it out with tables.exclude until the log is read to its end" in caught.value.hint
    runs.pipeline.source["tables.exclude"] = f"{database}.t"
    runs.catch_up(LIMITS)
    del runs.pipeline.source["tables.exclude"]
    runs.pipeline.source["scan.newly-added-table.enabled"] = True
    runs.catch_up(LIMITS)
    assert comparison.differences(mysql_server, runs.pipeline, [database]) == []
