"""Tables that are written to while they are copied end equal, also in a sink that can only append.

`CDC_DIFF_SEEDS=1-50` runs these seeds instead of the few that every test run gets. A failing seed leaves its statements
in `workload.sql` in the test's folder.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from cdc_process import mysql_pipeline
from comparison import differences
from counting_sink import CountingSink
from direct import DirectRuns
from servers import source_of
from snapshot_workload import KEYLESS, TABLES, SnapshotWorkload

from cdc.schema import TableId
from cdc.source import Context, Limits
from cdc.state.store import LocalStore
from cdc.testing import run_in_memory
from cdc_services.server import MySqlServer
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.source import MySqlSource

pytestmark = [pytest.mark.slow, pytest.mark.mysql, pytest.mark.timeout(600), pytest.mark.usefixtures("files_stay_open")]

_FIRST, _, _LAST = os.environ.get("CDC_DIFF_SEEDS", "1").partition("-")
_SEEDS = range(int(_FIRST), int(_LAST or _FIRST) + 1)
_LIMITS = Limits(1 << 20, 300)


@pytest.mark.parametrize("ddl", [False, True], ids=["rows", "definitions"])
@pytest.mark.parametrize("seed", _SEEDS)
def test_nothing_is_lost_or_doubled_where_rows_can_only_be_appended(
    any_server: MySqlServer, seed: int, ddl: bool, tmp_path: Path
) -> None:
    """Every row image of the whole run adds up: no second insert, no delete of a row that is not there."""
    work = SnapshotWorkload(any_server, seed, ddl=ddl)
    work.fill()
    sink = CountingSink(keyless=KEYLESS)
    offset, batches = None, 0
    try:
        work.start()
        for _ in range(2):
            source = _source(any_server, work.database, tmp_path)
            source.stop_at_current()
            run = run_in_memory(
                source, sink, limits=_LIMITS, parallelism=3, start=offset, first_batch=batches,
                state=tmp_path / "engine",
            )  # fmt: skip
            offset, batches = run.offset, batches + run.batches
            assert sink.problems == []
            work.stop()
        for table in TABLES:
            assert _missing(any_server, work.database, table, sink) == []
    finally:
        (tmp_path / "workload.sql").write_text(";\n".join(work.log), encoding="utf-8")
        work.stop()


@pytest.mark.parametrize("seed", _SEEDS)
def test_tables_are_equal_in_duckdb(any_server: MySqlServer, seed: int, tmp_path: Path) -> None:
    """Copied in one run and followed in the next, with definitions that change meanwhile."""
    work = SnapshotWorkload(any_server, 1000 + seed, ddl=True)
    work.fill()
    tables = rf"{work.database}.\.*"
    pipeline = mysql_pipeline(tmp_path, any_server, tables, scan__incremental__snapshot__chunk__size=60)
    runs = DirectRuns(pipeline)
    try:
        work.start()
        runs.catch_up(_LIMITS)
        work.stop()
        runs.catch_up(_LIMITS)
        assert differences(any_server, pipeline, [work.database]) == []
    finally:
        (tmp_path / "workload.sql").write_text(";\n".join(work.log), encoding="utf-8")
        work.stop()


def _source(server: MySqlServer, database: str, folder: Path) -> MySqlSource:
    fields = source_of(server, rf"{database}.\.*", **{"scan.incremental.snapshot.chunk.size": 50})
    return MySqlSource(MySqlSourceOptions.model_validate(fields), Context("differential", LocalStore(folder)))


def _missing(server: MySqlServer, database: str, table: str, sink: CountingSink) -> list[str]:
    """Rows of which the sink has another number than the server."""
    connection = server.connect(database=database)
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(f"SELECT * FROM `{table}`")
            names = [column[0] for column in cursor.description]
            source = Counter(tuple(sorted(zip(names, row, strict=True))) for row in cursor.fetchall())
    finally:
        connection.close()
    found = sink.tables[TableId(database, table)]
    wrong = {row for row in source.keys() | found.keys() if source[row] != found[row]}
    return [f"{table}: {row}: {source[row]} in the source, {found[row]} in the sink" for row in sorted(wrong, key=repr)]
