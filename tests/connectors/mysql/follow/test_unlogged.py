"""Tables that the server alters without a word in its log: noticed, re-snapshotted or refused, never read wrongly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from cdc_process import mysql_pipeline
from comparison import differences
from direct import DirectRuns
from servers import ServerFactory, source_of

from cdc.errors import SchemaUnknown, UnsupportedChange
from cdc.offsets import numbered
from cdc.schema import TableId
from cdc.source import Context, Limits, Offset
from cdc.state.store import LocalStore
from cdc.testing.local_pipeline import LocalPipeline
from cdc_services.server import MySqlServer
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.mysql.follow import unlogged
from connectors.mysql.follow.streams import Streams
from connectors.mysql.follow.unlogged import Unlogged
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_info import end_of_log
from connectors.mysql.source import MySqlSource

pytestmark = [pytest.mark.mysql, pytest.mark.usefixtures("files_stay_open")]
LIMITS = Limits(1 << 26, 10**6)
SWAPPED = ("SET sql_log_bin = 0", "ALTER TABLE t MODIFY a INT AFTER b")


@pytest.fixture(autouse=True)
def confirmed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement of these tests is on its way to the log when the server is asked."""
    monkeypatch.setattr(unlogged, "CONFIRM_S", 0.1)


@pytest.fixture
def database(any_server: MySqlServer) -> str:
    """A table with two columns of one type."""
    name = any_server.new_database("unlogged")
    any_server.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "CREATE TABLE other (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1, 10, 20)", database=name,
    )  # fmt: skip
    return name


def leave_out_and_take_in_again(runs: DirectRuns, server: MySqlServer, database: str) -> None:
    """What a hint of these errors says; the table is equal after it."""
    runs.pipeline.source["tables.exclude"] = rf"{database}.t"
    runs.catch_up(LIMITS)
    del runs.pipeline.source["tables.exclude"]
    runs.catch_up(LIMITS)
    assert differences(server, runs.pipeline, [database]) == []


def test_columns_that_changed_places_while_the_pipeline_stood_still(
    any_server: MySqlServer, database: str, tmp_path: Path
) -> None:
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute(*SWAPPED, database=database)
    any_server.execute("INSERT INTO t (id, a, b) VALUES (2, 10, 20)", database=database)
    runs.catch_up(LIMITS)
    assert differences(any_server, runs.pipeline, [database]) == []
    assert runs.catch_up(LIMITS).batches == 0


def test_a_column_that_was_added_and_nothing_written_since(
    any_server: MySqlServer, database: str, tmp_path: Path
) -> None:
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute("SET sql_log_bin = 0", "ALTER TABLE t ADD c INT DEFAULT 7", database=database)
    runs.catch_up(LIMITS)
    assert differences(any_server, runs.pipeline, [database]) == []


def test_statements_that_are_in_the_log_are_no_such_change(
    any_server: MySqlServer, database: str, tmp_path: Path
) -> None:
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute(
        "ALTER TABLE t MODIFY a INT AFTER b", "INSERT INTO t (id, a, b) VALUES (2, 10, 20)", "ALTER TABLE t ADD c INT",
        database=database,
    )  # fmt: skip
    run = runs.catch_up(LIMITS)
    assert run.inserts == 1
    assert differences(any_server, runs.pipeline, [database]) == []


def test_a_table_that_the_log_has_only_rows_of_is_copied(server_factory: ServerFactory, tmp_path: Path) -> None:
    """It was created without a word in the log, or its account may see it only now."""
    server = server_factory("mysql", ["--binlog-row-metadata=FULL"])
    database = server.new_database("seen")
    server.execute(
        "CREATE TABLE t (id INT)", "CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)", database=database
    )
    server.execute(
        f"CREATE USER '{database}'@'%' IDENTIFIED BY 'pw'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{database}'@'%'",
        f"GRANT SELECT ON {database}.t TO '{database}'@'%'",
    )
    pipeline = mysql_pipeline(tmp_path, server, rf"{database}.\.*", username=database)
    pipeline.password = "pw"
    runs = DirectRuns(pipeline)
    runs.catch_up(LIMITS)
    server.execute("INSERT INTO u VALUES (2)", database=database)
    with pytest.raises(SchemaUnknown, match="does not show the table to this account") as caught:
        runs.catch_up(LIMITS)
    assert f"GRANT SELECT ON {database}.u" in caught.value.hint
    server.execute(f"GRANT SELECT ON {database}.* TO '{database}'@'%'")
    server.execute(
        "SET sql_log_bin = 0", "CREATE TABLE v (id INT)", "INSERT INTO v VALUES (1)", "SET sql_log_bin = 1",
        "INSERT INTO v VALUES (2)", database=database,
    )  # fmt: skip
    runs.catch_up(LIMITS)
    assert differences(server, pipeline, [database]) == []


def test_a_table_that_the_log_has_only_rows_of_and_alters_later_is_copied_from_there_on(
    any_server: MySqlServer, database: str, tmp_path: Path
) -> None:
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute(
        "SET sql_log_bin = 0", "CREATE TABLE v (id INT PRIMARY KEY)", "INSERT INTO v VALUES (1)", "SET sql_log_bin = 1",
        "INSERT INTO v VALUES (2)", "ALTER TABLE v ADD a INT FIRST", "INSERT INTO v VALUES (3, 3)",
        "ALTER TABLE v ADD b INT FIRST", "INSERT INTO v VALUES (4, 4, 4)", database=database,
    )  # fmt: skip
    runs.catch_up(LIMITS)
    assert differences(any_server, runs.pipeline, [database]) == []


def test_where_nothing_is_copied_it_stops_and_the_named_way_leads_out(
    any_server: MySqlServer, database: str, tmp_path: Path
) -> None:
    pipeline = mysql_pipeline(tmp_path, any_server, rf"{database}.\.*", schema_change__uncertain="stop")
    runs = DirectRuns(pipeline)
    runs.catch_up(LIMITS)
    any_server.execute(*SWAPPED, database=database)
    any_server.execute("INSERT INTO t (id, a, b) VALUES (2, 10, 20)", database=database)
    with pytest.raises(UnsupportedChange, match="its definition on the server differs") as caught:
        runs.catch_up(LIMITS)
    assert "tables.exclude" in caught.value.hint
    pipeline.source["tables.exclude"] = rf"{database}.t"
    runs.catch_up(LIMITS)
    del pipeline.source["tables.exclude"]
    pipeline.source["scan.newly-added-table.enabled"] = True
    runs.catch_up(LIMITS)
    assert differences(any_server, pipeline, [database]) == []


def test_rows_that_do_not_fit_stop_it_and_the_named_way_leads_out(
    any_server: MySqlServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute("SET sql_log_bin = 0", "ALTER TABLE t ADD c INT DEFAULT 7", database=database)
    any_server.execute("INSERT INTO t VALUES (2, 1, 1, 1)", database=database)
    with monkeypatch.context() as far:
        far.setattr(unlogged, "_NEAR_BYTES", -1)  # from far behind the server's present tells nothing
        with pytest.raises(SchemaUnknown, match="rows have 4 columns") as caught:
            runs.catch_up(LIMITS)
    assert "tables.exclude" in caught.value.hint
    leave_out_and_take_in_again(runs, any_server, database)


class Counted(Streams):
    """Counts the sessions that are opened."""

    opened = 0

    def session(self, *, patient: bool = True) -> MySqlConnection:
        self.opened += 1
        return super().session(patient=patient)


def test_a_server_that_numbers_its_many_tables_again_all_the_time_is_asked_seldom(
    any_server: MySqlServer, database: str
) -> None:
    any_server.execute(*(f"CREATE TABLE t{number} (id INT PRIMARY KEY)" for number in range(30)), database=database)
    streams = Counted(MySqlSourceOptions.model_validate(source_of(any_server, rf"{database}.\.*")))
    session = streams.session()
    known = read_tables(session, lambda table: table.database == database)
    begin = LogPosition(*end_of_log(session)[:2])
    any_server.execute("INSERT INTO other VALUES (1)", database=database)
    end = LogPosition(*end_of_log(session)[:2])
    session.close()
    compare, streams.opened = Unlogged(streams), 0
    for _ in range(2):
        assert [compare({table: known[table]}, begin, lambda: known) for table in known] == [{}] * len(known)
    assert 0 < streams.opened < len(known)
    any_server.execute(*SWAPPED, database=database)
    assert [*(compare(known, begin, dict) or {})] == []  # what was written before it was altered
    assert [*(compare(known, end, dict) or {})] == [TableId(database, "t")]


def test_a_server_whose_log_is_far_ahead_is_asked_once(
    any_server: MySqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Counted(MySqlSourceOptions.model_validate(source_of(any_server, rf"{database}.\.*")))
    session = streams.session()
    known = read_tables(session, lambda table: table.database == database)
    at = LogPosition(*end_of_log(session)[:2])
    any_server.execute("INSERT INTO other VALUES (1)", database=database)
    session.close()
    monkeypatch.setattr("connectors.mysql.follow.unlogged._NEAR_BYTES", 0)
    compare, streams.opened = Unlogged(streams), 0
    assert [compare(known, at, dict) for _ in range(3)] == [None] * 3
    assert streams.opened == 1


class Live:
    """A pipeline that follows the log in this process."""

    def __init__(self, server: MySqlServer, database: str, folder: Path) -> None:
        options = MySqlSourceOptions.model_validate(source_of(server, rf"{database}.\.*"))
        self.source = MySqlSource(options, Context("live", LocalStore(folder / "source")))
        self.file = folder / "sink.duckdb"
        sink = DuckDbSinkOptions.model_validate({"type": "duckdb", "path": str(self.file)})
        sink_context = Context("live", LocalStore(folder / "sink"))
        self._at: Offset = self.source.initial_offset()
        self._batch = 0
        self._pipeline = LocalPipeline(
            self.source, sink.build(sink_context), folder / "engine", numbered(self._at, 0),
            lambda: sink.build(sink_context),
        )  # fmt: skip

    def until(self, reached: Callable[[duckdb.DuckDBPyConnection], bool]) -> None:
        """Batch after batch, until the sink's file holds what is waited for."""
        for _ in range(400):
            end = self.source.latest_offset(self._at, LIMITS, 0.2)
            if end != self._at:
                self._pipeline.batch(numbered(self._at, self._batch), numbered(end, self._batch + 1), 1)
                self._at, self._batch = end, self._batch + 1
            self._pipeline.wait()
            with duckdb.connect(str(self.file), read_only=True) as file:
                if reached(file):
                    return
        raise AssertionError("it never came")


def test_columns_that_change_places_under_a_running_pipeline(
    any_server: MySqlServer, database: str, tmp_path: Path
) -> None:
    live = Live(any_server, database, tmp_path)

    def holds(*rows: tuple[int, int, int]) -> Callable[[duckdb.DuckDBPyConnection], bool]:
        query = f"SELECT id, a, b FROM {database}.t ORDER BY id"
        return lambda file: file.execute(query).fetchall() == [*rows]

    try:
        live.until(holds((1, 10, 20)))
        any_server.execute("INSERT INTO t VALUES (2, 10, 20)", database=database)
        live.until(holds((1, 10, 20), (2, 10, 20)))
        any_server.execute(*SWAPPED, database=database)
        any_server.execute("INSERT INTO t (id, a, b) VALUES (3, 10, 20)", database=database)
        live.until(holds((1, 10, 20), (2, 10, 20), (3, 10, 20)))
        any_server.execute(
            "ALTER TABLE t ADD c INT", "SET sql_log_bin = 0", "ALTER TABLE t MODIFY a INT AFTER id", database=database
        )  # right after one that is in the log
        any_server.execute("INSERT INTO t (id, a, b) VALUES (4, 10, 20)", database=database)
        live.until(holds((1, 10, 20), (2, 10, 20), (3, 10, 20), (4, 10, 20)))
    finally:
        live.source.stop()


def test_a_table_that_is_altered_under_a_running_pipeline_before_its_first_rows(
    any_server: MySqlServer, database: str, tmp_path: Path
) -> None:
    live = Live(any_server, database, tmp_path)

    def holds(table: str, *rows: tuple[int, ...]) -> Callable[[duckdb.DuckDBPyConnection], bool]:
        columns = "id, a, b" if table == "t" else "id"
        query = f"SELECT {columns} FROM {database}.{table} ORDER BY id"
        return lambda file: file.execute(query).fetchall() == [*rows]

    try:
        live.until(holds("t", (1, 10, 20)))
        any_server.execute("INSERT INTO other VALUES (1)", database=database)
        live.until(holds("other", (1,)))
        any_server.execute(*SWAPPED, database=database)
        any_server.execute("INSERT INTO t (id, a, b) VALUES (3, 10, 20)", database=database)
        live.until(holds("t", (1, 10, 20), (3, 10, 20)))
    finally:
        live.source.stop()


def test_rows_that_are_not_whole_stop_it_and_the_named_way_leads_out(
    any_server: MySqlServer, database: str, tmp_path: Path
) -> None:
    runs = DirectRuns(mysql_pipeline(tmp_path, any_server, rf"{database}.\.*"))
    runs.catch_up(LIMITS)
    any_server.execute("SET binlog_row_image = MINIMAL", "UPDATE t SET b = 21", database=database)
    with pytest.raises(UnsupportedChange, match="logged without all of their columns") as caught:
        runs.catch_up(LIMITS)
    assert "tables.exclude" in caught.value.hint
    leave_out_and_take_in_again(runs, any_server, database)
