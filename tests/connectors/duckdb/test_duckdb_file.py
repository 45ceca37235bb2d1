"""The database file: locked, damaged, in the wrong place; staged files: complete, or named."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pyarrow as pa
import pytest
from sink_calls import created

from cdc.errors import ChangeRefused, SinkError, SinkUnavailable
from cdc.schema import Column, CreateTable, DataType, DropTable, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import block
from connectors.duckdb import load as load_module
from connectors.duckdb import shared_opening
from connectors.duckdb.database import Database
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink
from connectors.shared.staging import stage as stage_module

ORDERS = TableId("shop", "orders")
SCHEMA = TableSchema((Column("id", DataType.parse("INT")), Column("name", DataType.parse("STRING"))), ("id",))
KEYLESS = TableSchema(SCHEMA.columns)

HOLD = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read")
print("open", flush=True)
sys.stdin.readline()
connection.close()
"""


def options(folder: Path, **rest: object) -> DuckDbSinkOptions:
    return DuckDbSinkOptions(type="duckdb", path=str(folder / "x.duckdb"), **rest)


def sink_at(folder: Path) -> DuckDbSink:
    return DuckDbSink(options(folder), Context("p", LocalStore(folder / "state")))


def rows(folder: Path) -> list[tuple[object, ...]]:
    with duckdb.connect(str(folder / "x.duckdb"), read_only=True) as connection:
        return list(connection.execute("FROM x.shop.orders ORDER BY ALL").fetchall())


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the file open."""
    duckdb.connect(str(tmp_path / "x.duckdb")).close()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "x.duckdb"), "read"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        if process.poll() is None:
            process.communicate("\n")


def test_a_reader_is_waited_for(tmp_path: Path, reader: subprocess.Popen[str]) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            reader.communicate("\n")

    with Database(options(tmp_path), sleep=sleep).open() as session:
        assert session.rows("SELECT 1") == [(1,)]
    assert len(pauses) == 3


def test_a_reader_that_stays_is_named_by_its_pid(tmp_path: Path, reader: subprocess.Popen[str]) -> None:
    waited: list[float] = []
    database = Database(options(tmp_path, **{"lock-timeout": "2 s"}), clock=lambda: sum(waited), sleep=waited.append)
    message = rf"PID {reader.pid}\).*close it there, or raise lock-timeout"
    with pytest.raises(SinkUnavailable, match=message), database.open():
        pytest.fail("the file is locked")
    assert sum(waited) == pytest.approx(2, abs=0.2)
    assert SinkUnavailable.retryable


@pytest.mark.usefixtures("reader")
def test_a_run_that_is_to_stop_waits_for_no_reader(tmp_path: Path) -> None:
    stop, waited = tmp_path / "stop", list[float]()
    stop.touch()
    database = Database(options(tmp_path), stopping=stop.exists, sleep=waited.append)
    with pytest.raises(SinkUnavailable, match="raise lock-timeout"), database.open():
        pytest.fail("the file is locked")
    assert waited == []


def test_the_file_is_free_between_batches(tmp_path: Path) -> None:
    sink = created(sink_at(tmp_path), ORDERS, SCHEMA)
    sink.commit(0, sink.prepare(TaskAttempt(0, 0, 0), iter([block(ORDERS, SCHEMA, [("+I", {"id": 1})])])))
    code = "import duckdb, sys; print(duckdb.connect(sys.argv[1]).execute('FROM x.shop.orders').fetchall())"
    output = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x.duckdb")], capture_output=True, text=True, check=True
    )
    assert output.stdout == "[(1, None)]\n"


def test_a_pipeline_gets_the_file_while_many_tables_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cdc verify` keeps it open from one table to the next, but not for long."""
    monkeypatch.setattr(shared_opening, "_OPEN_S", 0.05)
    database = Database(options(tmp_path))
    with database.open() as session:
        session.rows("CREATE TABLE t (n INT)")
    reading = shared_opening.SharedOpening(database)
    for number in range(3):
        for _ in range(20):
            with reading.open() as session:
                assert session.rows("SELECT COUNT(*) FROM t") == [(number,)]
        with database.open() as session:
            session.rows("INSERT INTO t VALUES (1)")


def test_memory_and_threads_are_limited(tmp_path: Path) -> None:
    limited = options(tmp_path, **{"memory-limit": "256 mb", "threads": 1})
    with Database(limited).open() as session:
        assert session.rows("SELECT current_setting('memory_limit'), current_setting('threads')") == [("256.0 MiB", 1)]


def test_a_database_in_memory_is_a_problem_of_the_options() -> None:
    remarks = list(DuckDbSinkOptions(type="duckdb", path=":memory:").problems())
    assert [(remark.key, remark.hint) for remark in remarks] == [("path", "name a file: orders.duckdb")]


def test_the_folder_of_the_file_is_made(tmp_path: Path) -> None:
    DuckDbSink(options(tmp_path / "new"), Context("p", LocalStore(tmp_path / "state"))).apply(
        0, [CreateTable(ORDERS, SCHEMA)]
    )
    assert (tmp_path / "new" / "x.duckdb").exists()


def test_a_file_that_duckdb_did_not_write(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_bytes(b"hello" * 10_000)
    with pytest.raises(SinkError, match=r"x\.duckdb: .*not a valid DuckDB database file.*choose another path"):
        sink_at(tmp_path).apply(0, [CreateTable(ORDERS, SCHEMA)])


def test_a_damaged_file(tmp_path: Path) -> None:
    sink_at(tmp_path).apply(0, [CreateTable(ORDERS, SCHEMA)])
    damaged = bytearray((tmp_path / "x.duckdb").read_bytes())
    for header in (0, 4096, 8192):
        damaged[header + 100] ^= 0xFF
    (tmp_path / "x.duckdb").write_bytes(damaged)
    with pytest.raises(SinkError, match=r"x\.duckdb: .*checksum.*restore it"):
        sink_at(tmp_path).commit(0, [])


def test_a_path_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").mkdir()
    with pytest.raises(SinkError, match="name a file in it"):
        sink_at(tmp_path).commit(0, [])


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SinkError, match="cannot create the file or its folder: Not a dir"):
        DuckDbSink(options(tmp_path / "file" / "folder"), Context("p", LocalStore(tmp_path))).commit(0, [])


# staged files


def test_one_file_for_all_tables_of_a_task(tmp_path: Path) -> None:
    tables = [TableId("shop", f"t{number}") for number in range(50)]
    prepared = sink_at(tmp_path).prepare(
        TaskAttempt(3, 1, 7), (block(table, SCHEMA, [("+I", {"id": 1})]) for _ in range(4) for table in tables)
    )
    assert [path.name for path in (tmp_path / "state/staging/3").iterdir()] == ["1-7.arrows"]
    assert {item.handle["file"] for item in prepared} == {"3/1-7.arrows"}
    assert [len(item.handle["segments"]) for item in prepared] == [1] * 50


def test_rows_beyond_the_buffer_go_to_more_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_TABLE_BYTES", 1)
    sink = created(sink_at(tmp_path), ORDERS, KEYLESS)
    blocks = [block(ORDERS, KEYLESS, [("+I", {"id": number})]) for number in range(5)]
    prepared = sink.prepare(TaskAttempt(0, 0, 0), iter(blocks))
    assert [len(item.handle["segments"]) for item in prepared] == [5]
    sink.commit(0, prepared)
    assert [row[0] for row in rows(tmp_path)] == [0, 1, 2, 3, 4]


def test_before_images_of_the_same_key_are_not_staged(tmp_path: Path) -> None:
    changes = [
        ("-U", {"id": 1, "name": "a"}), ("+U", {"id": 1, "name": "b"}),
        ("-U", {"id": 1, "name": "b"}), ("+U", {"id": 2, "name": "b"}),
        ("-U", {"id": 2, "name": "b"}),
    ]  # fmt: skip
    sink = sink_at(tmp_path)
    prepared = sink.prepare(TaskAttempt(0, 0, 0), iter([block(ORDERS, SCHEMA, changes)]))
    staged = pa.Table.from_batches(stage_module.read_staged(sink._staging, prepared))
    assert list(zip(staged[stage_module.KIND].to_pylist(), staged["id"].to_pylist(), strict=True)) == [
        (2, 1), (1, 1), (2, 2), (1, 2),
    ]  # fmt: skip


def test_staged_files_go_with_the_commit_and_with_what_a_crash_left(tmp_path: Path) -> None:
    sink = created(sink_at(tmp_path), ORDERS, SCHEMA)
    for batch in (0, 1, 2):
        sink.prepare(TaskAttempt(batch, 0, 0), iter([block(ORDERS, SCHEMA, [("+I", {"id": batch})])]))
    sink.commit(1, [])
    assert [path.name for path in (tmp_path / "state/staging").iterdir()] == ["2"]


@pytest.mark.usefixtures("files_stay_open")
@pytest.mark.parametrize("shared", [0, 10_000], ids=["streamed", "at once"])
@pytest.mark.parametrize("damage", ["truncated", "missing", "garbled"])
def test_staged_rows_that_are_not_whole_are_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, shared: int
) -> None:
    monkeypatch.setattr(load_module, "_SHARED_ROWS", shared)
    monkeypatch.setattr(load_module, "ROW_GROUP", 1)
    monkeypatch.setattr(stage_module, "_TABLE_BYTES", 1)
    sink = created(sink_at(tmp_path), ORDERS, SCHEMA)
    blocks = [block(ORDERS, SCHEMA, [("+I", {"id": number})]) for number in (1, 2)]
    prepared = sink.prepare(TaskAttempt(0, 0, 0), iter(blocks))
    path = tmp_path / "state/staging/0/0-0.arrows"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "truncated":
        path.write_bytes(content[:-40])
    else:
        second = prepared[0].handle["segments"][1][0]
        path.write_bytes(content[:second] + b"\xff\xff\xff\xff\xff\xff\xff\x7f" + content[second + 8 :])
    with pytest.raises(SinkError, match=r"0-0\.arrows: staged rows cannot be read.*restore the state directory"):
        sink.commit(0, prepared)
    assert rows(tmp_path) == []


def test_two_schemas_in_one_batch_are_refused(tmp_path: Path) -> None:
    wide = TableSchema((*SCHEMA.columns, Column("x", DataType.parse("INT"))), ("id",))
    blocks = [block(ORDERS, SCHEMA, [("+I", {"id": 1})]), block(ORDERS, wide, [("+I", {"id": 2})])]
    with pytest.raises(SinkError, match=r"shop\.orders: rows of two schemas in one batch"):
        sink_at(tmp_path).prepare(TaskAttempt(0, 0, 0), iter(blocks))


def test_a_full_disk_while_staging_names_the_file(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    folder = tmp_path / "state/staging/0"
    folder.mkdir(parents=True)
    (folder / "0-0.arrows").symlink_to("/dev/full")
    with pytest.raises(SinkError, match=r"0-0\.arrows: cannot stage rows: No space left on device \(free some space"):
        sink_at(tmp_path).prepare(TaskAttempt(0, 0, 0), iter([block(ORDERS, SCHEMA, [("+I", {"id": 1})])]))


def test_two_pipelines_share_a_file(tmp_path: Path) -> None:
    first = sink_at(tmp_path)
    second = DuckDbSink(options(tmp_path), Context("other", LocalStore(tmp_path / "other")))
    first.apply(0, [CreateTable(ORDERS, KEYLESS)])
    for sink in (first, second):
        sink.commit(0, sink.prepare(TaskAttempt(0, 0, 0), iter([block(ORDERS, KEYLESS, [("+I", {"id": 1})])])))
    assert rows(tmp_path) == [(1, None)] * 2
    with pytest.raises(ChangeRefused):
        second.apply(0, [CreateTable(ORDERS, SCHEMA)])
    second.apply(0, [DropTable(ORDERS)])
    assert first.describe(ORDERS) is None


@pytest.mark.parametrize("exchanged", ["removed", "emptied", "an older copy", "another pipeline's"])
def test_a_file_that_is_exchanged_while_the_pipeline_runs_is_put_back(tmp_path: Path, exchanged: str) -> None:
    path, kept, older = (tmp_path / name for name in ("x.duckdb", "kept", "older"))
    sink = created(sink_at(tmp_path), ORDERS, KEYLESS)

    def commit(by: DuckDbSink, batch: int) -> None:
        by.commit(batch, by.prepare(TaskAttempt(batch, 0, 0), iter([block(ORDERS, KEYLESS, [("+I", {"id": batch})])])))

    commit(sink, 0)
    older.write_bytes(path.read_bytes())
    commit(sink, 1)
    path.rename(kept)
    if exchanged == "emptied":
        path.touch()
    elif exchanged == "an older copy":
        older.rename(path)
    elif exchanged != "removed":
        other = DuckDbSink(options(tmp_path), Context("other", LocalStore(tmp_path / "other")))
        other.apply(0, [CreateTable(ORDERS, KEYLESS)])
        commit(other, 7)
    reason, hint = {
        "emptied": ("not a valid DuckDB", "restore the original file"),
        "removed": ("it no longer exists, while 1 was committed: it was removed", "restore the original file"),
    }.get(exchanged, ("while 1 was committed: its data was removed, or replaced", "restore the newer data"))
    for again in range(2):
        with pytest.raises(SinkError, match=f"{reason}.*{hint}") as told:
            commit(sink, 2)
        assert not told.value.retryable, again
    with pytest.raises(SinkError, match=reason):
        sink.apply(3, [CreateTable(TableId("shop", "later"), SCHEMA)])
    assert path.exists() == (exchanged != "removed")

    kept.rename(path)
    commit(sink_at(tmp_path), 2)
    assert rows(tmp_path) == [(0, None), (1, None), (2, None)]


def block_bytes(path: Path) -> int:
    with duckdb.connect(str(path), read_only=True) as connection:
        return int(connection.execute("SELECT block_size FROM pragma_database_size()").fetchall()[0][0])


def test_a_new_file_has_small_blocks_and_one_that_exists_keeps_its_own(tmp_path: Path) -> None:
    sink_at(tmp_path).apply(0, [CreateTable(ORDERS, SCHEMA)])
    assert block_bytes(tmp_path / "x.duckdb") == 65_536
    other = tmp_path / "other"
    other.mkdir()
    with duckdb.connect(str(other / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE mine (id INT)")
    sink_at(other).apply(0, [CreateTable(ORDERS, SCHEMA)])
    assert block_bytes(other / "x.duckdb") == 262_144


def test_a_connection_that_cannot_be_set_up_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Mock(execute=Mock(side_effect=duckdb.IOException("No space left on device")))
    (tmp_path / "x.duckdb").touch()
    monkeypatch.setattr(duckdb, "connect", lambda *place, **config: connection)
    with pytest.raises(SinkError, match="No space left"), Database(options(tmp_path)).open():
        pass
    connection.close.assert_called_once()


@pytest.mark.parametrize("linked", [True, False])
def test_a_file_that_could_not_be_created_is_created_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    connect = duckdb.connect

    def full(path: str, **options: object) -> None:
        Path(path).write_bytes(bytes(4096))
        raise duckdb.IOException("No space left on device")

    monkeypatch.setattr(duckdb, "connect", full)
    with pytest.raises(SinkError, match="No space left"), Database(options(tmp_path)).open():
        pass
    monkeypatch.setattr(duckdb, "connect", connect)
    if not linked:
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError))
    with Database(options(tmp_path)).open() as session:
        assert session.names.catalog == "x"
    assert [path.name for path in tmp_path.iterdir()] == ["x.duckdb"]
