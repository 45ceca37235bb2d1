"""Commits to an Iceberg catalog that loses answers, and to tables that others write to at the same time."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from iceberg_harness import IcebergHarness
from iceberg_judge import duckdb_rows
from iceberg_rest import rest_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from cdc.errors import SinkError, SinkUnavailable
from cdc.schema import (
    AddColumn,
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropTable,
    Kind,
    SwapShadow,
    TableId,
    TableSchema,
)
from cdc.sink import Prepared, TaskAttempt
from cdc.testing.blocks import block
from connectors.iceberg import index, row_positions, snapshots, upkeep
from connectors.iceberg.library import Catalog
from connectors.iceberg.manifest_cache import live_files
from connectors.iceberg.sink import IcebergSink

pytestmark = pytest.mark.slow

TABLE = TableId("shop", "orders")
SCHEMA = TableSchema(
    (Column("id", DataType(Kind.BIGINT), nullable=False), Column("name", DataType(Kind.VARCHAR, 20))), ("id",)
)


@pytest.fixture
def harness(tmp_path: Path) -> IcebergHarness:
    made = IcebergHarness(
        tmp_path, {"sink.compaction": "off", "sink.snapshots.keep": "1", "sink.snapshots.keep-for": "0s"}
    )
    sink = made.sink()
    sink.apply(0, [CreateTable(TABLE, SCHEMA)])
    commit(sink, 0, ("+I", 1, "a"), ("+I", 2, "b"))
    return made


def prepared(
    sink: IcebergSink, batch: int, *changes: tuple[str, int, str], noted: list[Any] | None = None
) -> list[Prepared]:
    rows = [(kind, {"id": id_, "name": name}) for kind, id_, name in changes]
    noting = [].append if noted is None else noted.append
    return list(sink.prepare(TaskAttempt(batch, 0, 0, noting=noting), iter([block(TABLE, SCHEMA, rows)])))


def commit(sink: IcebergSink, batch: int, *changes: tuple[str, int, str]) -> None:
    sink.commit(batch, prepared(sink, batch, *changes))


def rows(harness: IcebergHarness) -> list[str]:
    return sorted(f"{row['id']} {row['name']}" for row in harness.rows(TABLE) or [])


@contextmanager
def around(
    harness: IcebergHarness, monkeypatch: pytest.MonkeyPatch, call: Callable[[Callable[[], Any]], Any]
) -> Iterator[None]:
    """The next commit of the catalog goes through `call`, those after it as usual."""
    catalog = harness.catalog.open()
    real, calls = catalog.commit_table, []

    def commit_table(*arguments: Any) -> Any:
        calls.append(arguments)
        return call(lambda: real(*arguments)) if len(calls) == 1 else real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "commit_table", commit_table)
        yield
    assert calls


@pytest.mark.parametrize(
    "error",
    [ConnectionError("reset"), CommitFailedException("409"), CommitStateUnknownException("502")],
    ids=["lost", "conflict", "unknown"],
)
@pytest.mark.parametrize("done", [True, False], ids=["committed", "not-committed"])
def test_an_answer_that_tells_nothing_is_settled_by_the_property(
    harness: IcebergHarness, monkeypatch: pytest.MonkeyPatch, error: Exception, done: bool
) -> None:
    """A 409 may be about our own commit, sent twice below us."""

    def fail(real: Callable[[], Any]) -> Any:
        if done:
            real()
        raise error

    with around(harness, monkeypatch, fail):
        commit(harness.sink(), 1, ("-U", 1, "a"), ("+U", 1, "z"), ("-D", 2, "b"), ("+I", 3, "c"))
    assert rows(harness) == ["1 z", "3 c"]
    assert harness.table(TABLE).batch("pipeline-1") == 1


@pytest.mark.parametrize("indexed", [False, True], ids=["scan", "index"])
def test_places_are_looked_for_again_when_another_writer_came_first(
    harness: IcebergHarness, monkeypatch: pytest.MonkeyPatch, indexed: bool
) -> None:
    """The other one moves all rows to other files, and adds some."""
    if indexed:
        monkeypatch.setattr(index, "FROM_ROWS", 0)
        monkeypatch.setattr(index, "MOST_SHARE", 0)
    commit(harness.sink(), 1, ("+I", 4, "d"))

    def behind_another(real: Callable[[], Any]) -> Any:
        table = harness.table(TABLE).library
        found = table.scan().to_arrow()
        table.overwrite(pa.concat_tables([found, pa.table({"id": [9], "name": ["other"]}, found.schema)]))
        return real()

    with around(harness, monkeypatch, behind_another):
        commit(harness.sink(), 2, ("-U", 1, "a"), ("+U", 1, "z"), ("-D", 9, "other"))
    assert rows(harness) == ["1 z", "2 b", "4 d"]
    commit(harness.sink(), 3, ("-D", 1, "z"), ("-D", 4, "d"))
    assert rows(harness) == ["2 b"]


def test_a_table_that_was_recreated_is_not_written_to(harness: IcebergHarness) -> None:
    handles = prepared(harness.sink(), 1, ("+I", 3, "c"))
    harness.sink().apply(1, [DropTable(TABLE), CreateTable(TABLE, SCHEMA)])
    with pytest.raises(SinkError, match="dropped or recreated"):
        harness.sink().commit(1, handles)


def test_an_older_pipelines_numbers_are_not_this_ones(tmp_path: Path, harness: IcebergHarness) -> None:
    """A pipeline with a new state begins at batch 0 again, in the same table."""
    other = IcebergHarness(tmp_path, pipeline="pipeline-2")
    commit(other.sink(), 0, ("+I", 3, "c"))
    assert rows(harness) == ["1 a", "2 b", "3 c"]


def test_existing_rows_get_the_default_of_a_new_column(harness: IcebergHarness) -> None:
    """No row of the log says it, and version 2 of the format has no defaults."""
    column = Column("state", DataType(Kind.VARCHAR, 10), default="new")
    harness.sink().apply(1, [AddColumn(TABLE, column)])
    assert [row["state"] for row in harness.rows(TABLE) or []] == ["new", "new"]
    assert [row["state"] for row in duckdb_rows(harness.table(TABLE).library.metadata_location)] == ["new", "new"]
    harness.sink().apply(2, [AddColumn(TABLE, Column("number", DataType(Kind.INT), default="u"))])
    assert [row["number"] for row in harness.rows(TABLE) or []] == [None, None]


def test_a_clock_that_is_set_back(harness: IcebergHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's readers refuse a table whose snapshots or metadata files are more than a minute out of order."""
    sink, now_s = harness.sink(), time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 7200)
    commit(sink, 1, ("+I", 3, "c"))
    monkeypatch.undo()
    commit(sink, 2, ("+I", 4, "d"))
    sink.apply(3, [AddColumn(TABLE, Column("size", DataType(Kind.INT)))])
    table = harness.table(TABLE)
    metadata = table.metadata
    for logged in (metadata.snapshot_log, metadata.metadata_log):
        times = [entry.timestamp_ms for entry in logged]
        assert [*times, metadata.last_updated_ms] == sorted([*times, metadata.last_updated_ms])


def test_upkeep_leaves_no_file_that_nothing_names(tmp_path: Path, harness: IcebergHarness) -> None:
    sink = harness.sink()
    for batch in range(1, 30):
        commit(sink, batch, ("-U", 1, "x"), ("+U", 1, f"v{batch}"), ("+I", 100 + batch, "n"))
    assert sink.compact(TABLE).endswith("snapshots expired")
    assert sink.compact(TABLE) == "0 files merged, 0 snapshots expired"
    table = harness.table(TABLE)
    assert len(table.metadata.snapshots) == 1
    named = {file.file_path.removeprefix("file://") for file in live_files(table)}
    there = {str(path) for path in (tmp_path / "lake").rglob("*.parquet")} | {
        str(path) for path in (tmp_path / "lake").rglob("*.arrow")
    }
    assert there == named
    assert len(named) == 1
    assert len(rows(harness)) == 31
    assert len(duckdb_rows(table.library.metadata_location)) == 31


@pytest.mark.parametrize(
    ("meanwhile", "left"),
    [
        (["+I", 300, "n"], ["1 v3", "101 n", "102 n", "103 n", "2 b", "300 n"]),
        (["-D", 1, "v3"], ["101 n", "102 n", "103 n", "2 b"]),
    ],
    ids=["other rows", "rows that are merged"],
)
def test_a_merge_beside_a_run_that_commits(
    harness: IcebergHarness, monkeypatch: pytest.MonkeyPatch, meanwhile: Sequence[Any], left: Sequence[str]
) -> None:
    """It is published after commits of other rows, and recreated after one that touches the merged rows."""
    for batch in range(1, 4):
        before = "a" if batch == 1 else f"v{batch - 1}"
        commit(harness.sink(), batch, ("-U", 1, before), ("+U", 1, f"v{batch}"), ("+I", 100 + batch, "n"))
    merges, batches = [], iter([4])

    def publish(catalog: Any, table: Any, change: Any) -> int:
        if change.operation == "replace":
            merges.append(change)
            for other in batches:
                commit(harness.sink(), other, tuple(meanwhile))
        return snapshots.publish(catalog, table, change)

    monkeypatch.setattr(upkeep, "publish", publish)
    assert not harness.sink().compact(TABLE).startswith("0 files")
    assert rows(harness) == left
    assert (
        sorted(f"{row['id']} {row['name']}" for row in duckdb_rows(harness.table(TABLE).library.metadata_location))
        == left
    )
    assert len({id(change) for change in merges}) == (1 if meanwhile[0] == "+I" else 2)
    table = harness.table(TABLE)
    named = {table.library.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    there = Path(table.library.metadata_location.removeprefix("file://")).parent.glob("*.metadata.json")
    assert {f"file://{path}" for path in there} == named, "a commit that came too late leaves no metadata"


def test_an_undecided_batch_leaves_no_file(tmp_path: Path, harness: IcebergHarness) -> None:
    noted: list[Any] = []
    before = set((tmp_path / "lake").rglob("*.*"))
    prepared(harness.sink(), 1, ("+I", 3, "c"), noted=noted)
    assert set((tmp_path / "lake").rglob("*.*")) > before
    harness.sink().abort(1, noted)
    assert set((tmp_path / "lake").rglob("*.*")) == before


def test_tables_with_equality_deletes_are_refused(harness: IcebergHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [replace(file, content=2) for file in live_files(harness.table(TABLE))]
    monkeypatch.setattr(row_positions, "live_files", lambda table: files)
    with pytest.raises(SinkError, match="equality deletes"):
        commit(harness.sink(), 1, ("-D", 1, "a"))


@pytest.mark.parametrize("status", [500, 503, 409], ids=["unknown", "away", "conflict"])
def test_a_rest_catalog_that_loses_an_answer(tmp_path: Path, status: int) -> None:
    """The commit is in, and the client hears of an error; what a shadow table does goes through the same server."""
    with rest_catalog(tmp_path) as (catalog, address):
        options = {"catalog.properties.type": "rest", "catalog.properties.uri": address, "retry-timeout": "30s"}
        harness = IcebergHarness(tmp_path, {**options, "catalog.properties.warehouse": "lake"})
        harness.sink().apply(0, [CreateTable(TABLE, SCHEMA)])
        commit(harness.sink(), 0, ("+I", 1, "a"), ("+I", 2, "b"))
        handles = prepared(harness.sink(), 1, ("-U", 1, "a"), ("+U", 1, "z"), ("-D", 2, "b"))
        catalog.fail_next.append(status)
        harness.sink().commit(1, handles)
        harness.sink().commit(1, handles)
        assert catalog.fail_next == []
        assert rows(harness) == ["1 z"]
        harness.sink().apply(2, [CreateShadow(TABLE, SCHEMA)])
        shadow = replace(block(TABLE, SCHEMA, [("+I", {"id": 7, "name": "new"})]), table=harness.sink().shadow(TABLE))
        harness.sink().commit(2, harness.sink().prepare(TaskAttempt(2, 0, 0, noting=[].append), iter([shadow])))
        assert rows(harness) == ["1 z"]
        catalog.fail_next.append(status)
        with pytest.raises(SinkUnavailable):  # a change that is refused is left out by some behaviors
            harness.sink().apply(3, [SwapShadow(TABLE)])
        harness.sink().apply(3, [SwapShadow(TABLE)])
        assert rows(harness) == ["7 new"]
        harness.sink().apply(4, [DropTable(TABLE)])
        assert not [path for path in (tmp_path / "shop").rglob("*") if path.is_file()]


@pytest.mark.parametrize("login", [{}, {"credential": "id:secret"}], ids=["catalog", "token"])
def test_a_rest_catalog_that_never_answers_is_away(monkeypatch: pytest.MonkeyPatch, login: dict[str, str]) -> None:
    monkeypatch.setattr("connectors.iceberg.rest_catalog.TIMEOUTS_S", (0.1, 0.1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        properties = {"type": "rest", "uri": address, "oauth2-server-uri": f"{address}/tokens", **login}
        with pytest.raises(SinkUnavailable, match="timed out"):
            Catalog(properties).open()
