"""`cdc pause` and `cdc resume` of a table of a live server: what the commands say, and what the sink has."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runner import CliRunner
from running import ShortPipeline

from cdc.cli import app
from cdc.errors import CdcError, NotNow, SourceError
from cdc.job.resync import request_resync
from cdc.job.run import refresh
from cdc.verify.report import Verdict
from cdc_services.server import MySqlServer

pytestmark = pytest.mark.mysql

MIRROR = "pipeline:\n  schema.change.behavior: evolve\n"


def cdc(pipeline: ShortPipeline, *arguments: str) -> str:
    """What a command prints. Raises what it ends with."""
    command, *rest = arguments
    done = CliRunner().invoke(app, [command, str(pipeline.file), *rest])
    if isinstance(done.exception, CdcError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output.strip()


def test_a_paused_table_stays_and_a_resumed_one_is_the_sources_again(any_server: MySqlServer, tmp_path: Path) -> None:
    database = any_server.new_database("paused")
    pipeline = ShortPipeline(any_server, tmp_path, database, MIRROR)
    orders = f"{database}.orders"
    pipeline.source(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))", "INSERT INTO orders VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE users (id INT PRIMARY KEY)", "INSERT INTO users VALUES (1)",
    )  # fmt: skip
    with pytest.raises(NotNow, match="no batch of a pipeline was decided"):
        cdc(pipeline, "pause", orders)
    pipeline.run()
    with pytest.raises(SourceError, match="has no such table") as caught:
        cdc(pipeline, "pause", f"{database}.Orders")
    assert orders in caught.value.hint
    with pytest.raises(NotNow, match="not paused"):
        cdc(pipeline, "resume", orders)

    assert cdc(pipeline, "pause", orders) == (
        f"{orders} is paused from the next batch on: its rows in the sink stay as they are."
    )
    pipeline.source(
        "INSERT INTO orders VALUES (3, 'c')", "DELETE FROM orders WHERE id = 1", "ALTER TABLE orders ADD paid DATE",
        "UPDATE orders SET note = 'x', paid = '2026-01-01' WHERE id = 2", "INSERT INTO users VALUES (2)",
    )  # fmt: skip
    pipeline.run()
    assert sorted(pipeline.sink(f"SELECT * FROM {orders}")) == [(1, "a"), (2, "b")]
    assert pipeline.sink(f"SELECT count(*) FROM {database}.users") == [(2,)]
    report = pipeline.report("orders")
    assert (report.state, report.note) == (Verdict.SKIPPED, f"{orders} is paused (`cdc resume` ends that)")
    assert pipeline.report("users").state is Verdict.EQUAL
    assert cdc(pipeline, "pause", orders) == f"{orders} is paused already."
    with pytest.raises(NotNow, match="it is paused"):
        request_resync(pipeline.spec, orders, None)
    assert refresh(pipeline.spec, pipeline.state) == 1, "a schedule copies the others"

    assert cdc(pipeline, "resume", orders) == f"{orders} will be re-snapshotted, and followed again."
    assert cdc(pipeline, "resume", orders) == f"{orders} is resumed already, and will be re-snapshotted."
    pipeline.source("INSERT INTO orders VALUES (4, 'd', NULL)")
    pipeline.run()
    pipeline.source("DELETE FROM orders WHERE id = 3", "INSERT INTO orders VALUES (5, 'e', NULL)")
    pipeline.run()
    assert [row[0] for row in sorted(pipeline.sink(f"SELECT id FROM {orders}"))] == [2, 4, 5]
    assert pipeline.verify().equal


def test_a_table_that_no_copy_could_bring_back_is_not_paused(mysql_server: MySqlServer, tmp_path: Path) -> None:
    database = mysql_server.new_database("paused")
    pipeline = ShortPipeline(mysql_server, tmp_path, database)
    text = pipeline.file.read_text()
    pipeline.file.write_text(text.replace("sink:", "  schema-change.uncertain: stop\nsink:"))
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pipeline.run()
    with pytest.raises(SourceError, match="would not re-snapshot it"):
        cdc(pipeline, "pause", f"{database}.t")


def test_a_paused_table_that_is_left_out_stops_nothing_and_is_copied_when_it_is_taken_in_again(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    database = mysql_server.new_database("paused")
    pipeline = ShortPipeline(mysql_server, tmp_path, database, MIRROR)
    text, table = pipeline.file.read_text(), f"{database}.t"
    left_out = text.replace("sink:", f"  tables.exclude: {table}\nsink:")
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    pipeline.run()
    cdc(pipeline, "pause", table)
    pipeline.source("INSERT INTO u VALUES (1)")
    pipeline.run()
    pipeline.file.write_text(left_out)
    with pytest.raises(SourceError, match="cannot be resumed: its source does not re-snapshot it"):
        cdc(pipeline, "resume", table)
    pipeline.source("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (2)")
    pipeline.run()
    pipeline.file.write_text(text)
    cdc(pipeline, "resume", table)
    pipeline.file.write_text(left_out)  # between the request and the run
    pipeline.source("INSERT INTO t VALUES (2)", "INSERT INTO u VALUES (3)")
    pipeline.run()
    assert pipeline.sink(f"SELECT count(*) FROM {database}.u") == [(3,)]
    pipeline.file.write_text(text)
    pipeline.run()
    assert sorted(pipeline.sink(f"SELECT id FROM {table}")) == [(1,), (2,)]


def test_a_bounded_run_reads_to_its_end_when_a_table_that_was_asked_for_is_left_out(
    mysql_server: MySqlServer, tmp_path: Path
) -> None:
    database = mysql_server.new_database("asked")
    pipeline = ShortPipeline(mysql_server, tmp_path, database, MIRROR)
    pipeline.source("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    pipeline.run()
    request_resync(pipeline.spec, f"{database}.t", None)
    pipeline.file.write_text(pipeline.file.read_text().replace("sink:", f"  tables.exclude: {database}.t\nsink:"))
    pipeline.source("INSERT INTO u VALUES (1)")
    pipeline.run()
    assert pipeline.sink(f"SELECT id FROM {database}.u") == [(1,)]
