"""After a random workload on a real server every sink table equals its source table, value by value.

`CDC_DIFF_SEEDS=1-50` runs these seeds instead of the few that every test run gets, `CDC_DIFF_STEPS=1000` more steps of
each. A failing seed leaves its statements in `workload.sql` in the test's folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cdc_process import TWO_CORES, Pipeline, ended, mysql_pipeline, present_end, wait_for
from comparison import differences
from direct import DirectRuns
from servers import ServerFactory
from trials import trials
from workload import Workload

from cdc.source import Limits
from cdc_services.server import MySqlServer

_STEPS = int(os.environ.get("CDC_DIFF_STEPS", trials(200)))
_FIRST, _, _LAST = os.environ.get("CDC_DIFF_SEEDS", "1").partition("-")
_SEEDS = range(int(_FIRST), int(_LAST or _FIRST) + 1)

_ERAS: dict[str, tuple[tuple[str, ...], ...]] = {
    "mysql": (
        (),
        (
            "SET GLOBAL binlog_row_metadata = FULL",
            "SET GLOBAL binlog_transaction_compression = ON",
            "SET GLOBAL max_binlog_size = 65536",
            "SET GLOBAL time_zone = '+09:00'",
        ),
        (
            "SET GLOBAL binlog_row_value_options = PARTIAL_JSON",
            "SET GLOBAL binlog_checksum = NONE",
            "SET GLOBAL explicit_defaults_for_timestamp = OFF",
        ),
        (
            "SET GLOBAL binlog_row_metadata = MINIMAL",
            "SET GLOBAL binlog_transaction_compression = OFF",
            "SET GLOBAL gtid_mode = ON_PERMISSIVE",
            "SET GLOBAL gtid_mode = OFF_PERMISSIVE",
            "SET GLOBAL character_set_server = latin1",
        ),
        (
            "SET GLOBAL binlog_checksum = CRC32",
            "SET GLOBAL binlog_rows_query_log_events = ON",
            "SET GLOBAL gtid_mode = ON_PERMISSIVE",
        ),
    ),
    "mariadb": (
        (),
        (
            "SET GLOBAL binlog_row_metadata = FULL",
            "SET GLOBAL log_bin_compress = ON",
            "SET GLOBAL time_zone = '+09:00'",
        ),
        (
            "SET GLOBAL binlog_checksum = NONE",
            "SET GLOBAL log_bin_compress_min_len = 10",
            "SET GLOBAL max_binlog_size = 65536",
            "SET GLOBAL explicit_defaults_for_timestamp = OFF",
        ),
        (
            "SET GLOBAL binlog_row_metadata = MINIMAL",
            "SET GLOBAL log_bin_compress = OFF",
            "SET GLOBAL character_set_server = latin1",
        ),
        (
            "SET GLOBAL binlog_checksum = CRC32",
            "SET GLOBAL binlog_annotate_row_events = OFF",
            "SET GLOBAL binlog_alter_two_phase = ON",
        ),
    ),
}
"""Settings of the server that change how the log is written, or what statements in it mean, one after the other."""

_LIMITS = (Limits(1 << 26, 10**6), Limits(20_000, 50), Limits(1 << 20, 1000))


@contextmanager
def _workload(server: MySqlServer, seed: int, folder: Path) -> Iterator[Workload]:
    server.execute("CREATE DATABASE IF NOT EXISTS elsewhere")
    work = Workload(server, [server.new_database("d"), server.new_database("e")], seed)
    work.connect()
    try:
        yield work
    finally:
        work.close()
        (folder / "workload.sql").write_text("\n".join(work.log), encoding="utf-8")


def _pipeline(server: MySqlServer, work: Workload, folder: Path, **options: object) -> Pipeline:
    tables = ",".join(rf"{database}.\.*" for database in work.databases)
    return mysql_pipeline(folder, server, tables, **options)


def _fill(work: Workload) -> None:
    for table in list(work.tables):
        for _ in range(5):
            work.insert(table)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.mysql
@pytest.mark.timeout(900)
def test_a_live_pipeline_keeps_its_tables_equal(server_factory: ServerFactory, tmp_path: Path) -> None:
    """`cdc run` follows MySQL while rows, definitions and the form of the log change. The same workload is followed
    without Spark in the other tests; whole runs follow a smaller one in `tests/crash`."""
    server = server_factory("mysql")
    with _workload(server, 1000 + _SEEDS[0], tmp_path) as work:
        work.create_all_kinds(2)
        pipeline = _pipeline(
            server, work, tmp_path, scan__startup__mode="latest-offset", max_batch_rows=400, max_batch_bytes="128 kb"
        )
        with ended(pipeline):
            run = pipeline.start(*TWO_CORES)
            offset = pipeline.state / "initial_offset.json"
            wait_for("the first offset", lambda: offset.exists() or not run.alive)
            _fill(work)
            for _ in _eras(server, work):
                pass
            _mark(server, work, 1)
            run.shows(f"SELECT count(*) FROM {work.databases[0]}.marker1", "the marker")
            run.stop()
            assert differences(server, pipeline, work.databases) == []


def _eras(server: MySqlServer, work: Workload) -> Iterator[None]:
    """The workload goes on under one set of settings after the other: in a session of before, then in a new one."""
    for settings in _ERAS[server.flavor]:
        server.execute(*settings)
        work.steps(_STEPS // 6)
        work.connect()
        work.steps(_STEPS // 6)
        yield


@pytest.mark.slow
@pytest.mark.mysql
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("files_stay_open")
def test_the_form_of_mariadbs_log_may_change(server_factory: ServerFactory, tmp_path: Path) -> None:
    """Between runs and within one, without Spark."""
    server = server_factory("mariadb")
    with _workload(server, 1000 + _SEEDS[0], tmp_path) as work:
        work.create_all_kinds(2)
        runs = DirectRuns(_pipeline(server, work, tmp_path, scan__startup__mode="earliest-offset"))
        _fill(work)
        for number, _ in enumerate(_eras(server, work)):
            if number % 2 == 0:
                runs.catch_up(_LIMITS[-1])
                assert differences(server, runs.pipeline, work.databases) == []


def _mark(server: MySqlServer, work: Workload, number: int) -> None:
    """A row after everything else: when it is in the sink, so is all before it."""
    name = f"`{work.databases[0]}`.marker{number}"
    server.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1)")


@pytest.mark.slow
@pytest.mark.mysql
@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("files_stay_open")
def test_runs_in_pieces_keep_tables_equal(any_server: MySqlServer, seed: int, tmp_path: Path) -> None:
    """From the beginning of the tables, in runs of large, tiny and middling batches, without Spark."""
    with _workload(any_server, seed, tmp_path) as work:
        runs = DirectRuns(_pipeline(any_server, work, tmp_path, **present_end(any_server)))
        work.create_all_kinds(3)
        _fill(work)
        for limits in _LIMITS:
            work.steps(_STEPS // len(_LIMITS))
            runs.catch_up(limits)
            assert differences(any_server, runs.pipeline, work.databases) == []
