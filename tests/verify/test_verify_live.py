"""`cdc verify` over a real MySQL or MariaDB and a DuckDB file, which a pipeline has filled in this process."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_runner import CliRunner
from running import ShortPipeline

from cdc.cli import app
from cdc.verify.report import DifferenceKind, Verdict
from cdc_services.server import MySqlServer
from connectors.mysql.verify.current_rows import CurrentRows

pytestmark = pytest.mark.mysql

TYPES = (
    "CREATE TABLE types (k VARCHAR(20) COLLATE utf8mb4_general_ci, n INT, i TINYINT UNSIGNED, b BIGINT UNSIGNED, "
    "d DECIMAL(40, 5), e DECIMAL(30, 3), f FLOAT, g DOUBLE, bits BIT(12), flag BIT(1), day DATE, at DATETIME(6), "
    "stamp TIMESTAMP(3) NULL, span TIME(2), y YEAR, c CHAR(10), l VARCHAR(30) CHARACTER SET latin1, t TEXT, "
    "bin BINARY(4), blb BLOB, j JSON, en ENUM('a', 'ö'), s SET('x', 'y'), p POINT NULL, PRIMARY KEY (k, n))",
    "INSERT INTO types VALUES ('Ä', 1, 255, 18446744073709551615, 12345678901234567890123456789012345.12345, "
    "-123.456, 1.1, 0.1, b'101010101010', b'1', '2024-02-29', '2024-01-01 00:00:00.123456', "
    "'2024-01-01 00:00:00.123', '-838:59:59.00', 2024, 'pad  ', 'é', 'long', 'ab', x'00ff', '{\"b\": 1, \"a\": 1.50}', "
    "'ö', 'x,y', ST_GeomFromText('POINT(1 2)'))",
    "INSERT INTO types (k, n) VALUES ('a', 2), ('B', 2), ('', 3)",
)  # fmt: skip
KEYLESS = ("CREATE TABLE plain (a INT, b TEXT)", "INSERT INTO plain VALUES (1, 'x'), (1, 'x'), (2, NULL)")


def test_every_type_and_kind_of_key_compares_equal_and_each_difference_is_named(
    any_server: MySqlServer, tmp_path: Path
) -> None:
    pipeline = ShortPipeline(any_server, tmp_path, any_server.new_database("verify"))
    pipeline.source(*TYPES, *KEYLESS)
    pipeline.run()
    found = pipeline.verify()
    assert [(table.state, table.source_rows, table.sink_rows) for table in found.tables] == [
        (Verdict.EQUAL, 3, 3),
        (Verdict.EQUAL, 4, 4),
    ]
    assert found.equal
    pipeline.sink(
        "UPDATE types SET j = '{}', f = 1.2 WHERE n = 1",
        "DELETE FROM types WHERE k = 'B'",
        "INSERT INTO types (k, n) VALUES ('c', 4)",
        "DELETE FROM plain WHERE a = 1 AND rowid = (SELECT min(rowid) FROM plain WHERE a = 1)",
    )
    report = pipeline.report("types", deep=True)
    assert (report.state, report.missing, report.extra, report.other) == (Verdict.DIFFERENT, 1, 1, 1)
    by_kind = {row.kind: row for row in report.rows}
    assert by_kind[DifferenceKind.MISSING].key == {"k": "B", "n": "2"}
    assert by_kind[DifferenceKind.EXTRA].key == {"k": "c", "n": "4"}
    assert set(by_kind[DifferenceKind.OTHER].columns) == {"j", "f"}
    assert by_kind[DifferenceKind.OTHER].columns["j"][1] == "{}"
    lines = pipeline.report("plain")
    assert (lines.state, lines.missing, lines.extra, lines.other) == (Verdict.DIFFERENT, 1, 0, 0)


def test_what_a_pipeline_has_not_got_to_yet_is_no_difference(mysql_server: MySqlServer, tmp_path: Path) -> None:
    pipeline = ShortPipeline(mysql_server, tmp_path, mysql_server.new_database("verify"))
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY, a TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    pipeline.run()
    elsewhere = mysql_server.new_database("elsewhere")
    mysql_server.execute("CREATE TABLE other (x INT)", database=elsewhere)
    assert pipeline.report().state is Verdict.EQUAL
    pipeline.sink("UPDATE t SET a = 'z' WHERE id = 1")
    assert pipeline.report().other == 1, "the log after the pipeline says nothing of the table"
    mysql_server.execute("FLUSH BINARY LOGS", f"INSERT INTO {elsewhere}.other VALUES (1)", "FLUSH BINARY LOGS")
    assert pipeline.report().other == 1, "nor do two more files of it, as after a restart"
    pipeline.source("INSERT INTO t VALUES (3, 'c')")
    behind = pipeline.report()
    assert (behind.state, behind.open, behind.other) == (Verdict.OPEN, 2, 0)
    assert "run it until it has caught up" in behind.note
    pipeline.run()
    assert [row.key for row in pipeline.report().rows] == [{"id": "1"}]


RULES = """
transform:
  - source-table: {database}.orders_\\.*
    projection: id, upper(name) AS name, phone, now() AS seen
    filter: id > 1
    mask:
      phone: MASK(2)
route:
  - source-table: {database}.orders_\\.*
    sink-table: {database}.orders
    shard-column: origin
pipeline:
  schema.change.behavior: lenient
"""


def test_rules_merged_tables_and_kept_columns_are_taken_into_account(mysql_server: MySqlServer, tmp_path: Path) -> None:
    database = mysql_server.new_database("verify")
    pipeline = ShortPipeline(mysql_server, tmp_path, database, RULES.format(database=database))
    for number in (1, 2):
        pipeline.source(
            f"CREATE TABLE orders_{number} (id INT PRIMARY KEY, name VARCHAR(20), phone VARCHAR(20), old INT)",
            f"INSERT INTO orders_{number} VALUES (1, 'none', '1', 1), (2, 'two', '555-{number}', 2), (3, 'c', NULL, 3)",
        )
    pipeline.run()
    report = pipeline.report()
    assert (report.state, report.source_rows, len(report.sources)) == (Verdict.EQUAL, 4, 2)
    assert report.left_out == ("seen (computed from the change, not from the row)",)
    pipeline.sink("UPDATE orders SET phone = 'x', name = 'y' WHERE id = 2 AND origin LIKE '%orders_1'")
    (row,) = pipeline.report(deep=True).rows
    assert row.key == {"id": "2", "origin": f"{database}.orders_1"}
    assert row.columns == {"name": ("TWO", "y"), "phone": ("(masked)", "(masked)")}


def test_the_command_reports_json_repairs_and_has_exit_codes(mysql_server: MySqlServer, tmp_path: Path) -> None:
    database = mysql_server.new_database("verify")
    pipeline = ShortPipeline(mysql_server, tmp_path, database, "pipeline:\n  schema.change.behavior: evolve\n")
    pipeline.source(
        "CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)"
    )
    pipeline.run()
    command, runner = ["verify", str(pipeline.file)], CliRunner()
    done = runner.invoke(app, command)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{database}.a: equal, 1 rows",
        f"{database}.b: equal, 0 rows",
        "2 of 2 tables equal",
    ]
    pipeline.sink("INSERT INTO b VALUES (7)")
    assert runner.invoke(app, [*command, "--tables", rf"{database}.a"]).exit_code == 0
    done = runner.invoke(app, [*command, "--json", "--repair"])
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert (told["equal"], [table["state"] for table in told["tables"]]) == (False, ["equal", "different"])
    assert f"{database}.b: will be re-snapshotted" in done.stderr


@pytest.mark.slow
def test_a_running_pipeline_is_compared_while_rows_change(mysql_server: MySqlServer, tmp_path: Path) -> None:
    pipeline = ShortPipeline(mysql_server, tmp_path, mysql_server.new_database("verify"))
    pipeline.source(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)",
        "INSERT INTO t WITH RECURSIVE r AS (SELECT 0 i UNION ALL SELECT i + 1 FROM r WHERE i < 999) SELECT i, 0 FROM r",
    )
    pipeline.run()
    pipeline.sink("UPDATE t SET a = -1 WHERE id = 0")
    with pipeline.followed(), written_to(pipeline):
        command = [sys.executable, "-m", "cdc", "verify", str(pipeline.file), "--json", "--wait", "60"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "leaked" not in done.stderr, "objects of DuckDB's binding"
    (report,) = json.loads(done.stdout)["tables"]
    found = [report[name] for name in ("state", "other", "missing", "extra")]
    assert found == ["different", 1, 0, 0]
    assert [row["key"] for row in report["rows"]] == [{"id": "0"}]


@contextmanager
def written_to(pipeline: ShortPipeline) -> Iterator[None]:
    """A writer that changes, adds and removes rows after the first, until the block ends."""
    done = threading.Event()

    def write() -> None:
        connection = pipeline.server.connect(database=pipeline.database)
        with connection.cursor() as cursor:
            for number in itertools.count(1):
                if done.wait(0.05):
                    break
                cursor.execute(f"UPDATE t SET a = {number} WHERE id = {1 + number * 7 % 999}")
                cursor.execute(f"REPLACE INTO t VALUES ({2000 + number % 500}, {number})")
                cursor.execute(f"DELETE FROM t WHERE id = {2000 + number * 3 % 500}")
        connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_table_that_cannot_be_read_is_open_and_the_others_are_compared(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    """A table of an engine without transactions is followed from the log all the same."""
    pipeline = ShortPipeline(mysql_server, tmp_path, mysql_server.new_database("verify"))
    pipeline.source("CREATE TABLE a (id INT PRIMARY KEY) ENGINE=MEMORY", "CREATE TABLE b (id INT PRIMARY KEY)")
    pipeline.source("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    pipeline.file.write_text(
        pipeline.file.read_text().replace("sink:\n", "  scan.startup.mode: earliest-offset\nsink:\n", 1)
    )
    pipeline.run()
    a, b = pipeline.verify().tables
    assert (str(a.state), str(b.state)) == ("open", "equal")
    assert "engine MEMORY cannot be read" in a.note


def test_a_connection_that_is_lost_is_opened_again(
    mysql_server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the comparison of all tables."""
    pipeline = ShortPipeline(mysql_server, tmp_path, mysql_server.new_database("verify"))
    pipeline.source(*KEYLESS)
    pipeline.run()
    reading, lost = CurrentRows._select, iter([True])

    def select(self: CurrentRows, *arguments: Any) -> Any:
        if next(lost, False):
            sessions = (self.sessions.side, self.sessions.reader)
            mysql_server.execute(*(f"KILL {session.thread_id()}" for session in sessions))
        return reading(self, *arguments)

    monkeypatch.setattr(CurrentRows, "_select", select)
    assert pipeline.report().state is Verdict.EQUAL
    assert not next(lost, False)
