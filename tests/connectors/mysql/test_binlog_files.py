"""The binlog-files source: which files, in which order, where they end; tables and definitions without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from binlog_builder import Event, event, format_description, log, query
from log_script import STANDALONE, XID, insert, mariadb, seen, sql

from cdc.errors import CorruptLog, PositionLost, SchemaUnknown, SourceError, StateError, UnsupportedChange
from cdc.schema import AddColumn, CreateTable, TableId
from cdc.source import Context, Limits, Offset
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import ReadBatch, all_images, drain, read
from connectors.mysql import events
from connectors.mysql.binlog_files import BinlogFilesSource
from connectors.mysql.options import BinlogFilesSourceOptions

T = TableId("shop", "t")
CREATE = "CREATE TABLE shop.t (id INT PRIMARY KEY)"


def create(number: int = 1) -> list[Event]:
    return [seen(number), sql(CREATE)]


def one_row(number: int, value: int) -> list[Event]:
    """A transaction that inserts (value) into shop.t, an INT column."""
    gtid, begin, _, _, xid = insert(number, "shop.t")
    head = (1).to_bytes(6, "little")
    table_map = head + b"\1\0\4shop\0\1t\0" + b"\1\3\0\0"
    rows = head + b"\1\0\2\0\1\xff\0" + value.to_bytes(4, "little")
    return [gtid, begin, (events.TABLE_MAP, table_map), (events.WRITE_ROWS_V2, rows), xid]


class Archive:
    """A folder of binlog files, and sources on it that share one state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.state.mkdir()

    def write(self, name: str, *script: Event) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(log(script))
        return path

    def write_mariadb(self, name: str, sql_text: str) -> None:
        data = events.MAGIC + format_description(True, version=b"10.11.19-MariaDB-log")
        for kind, body in (mariadb(1, STANDALONE), sql(sql_text)):
            data += event(kind, body, len(data))
        (self.folder / name).write_bytes(data)

    def source(self, path: str | list[str] = "binlog.*", **options: Any) -> BinlogFilesSource:
        paths = [str(self.folder / one) for one in ([path] if isinstance(path, str) else path)]
        given = {"type": "binlog-files", "path": paths, "tables": r"shop.\.*", **options}
        return BinlogFilesSource(BinlogFilesSourceOptions.model_validate(given), Context("p-1", LocalStore(self.state)))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def ids(batches: list[ReadBatch]) -> list[int]:
    return [row["id"] for _, row in all_images(batches)]


def test_files_are_read_in_the_order_of_their_numbers(archive: Archive) -> None:
    archive.write("binlog.999999", *create(), *one_row(2, 1))
    archive.write("binlog.1000000", *one_row(3, 2))
    archive.write("binlog.1000001", *one_row(4, 3))
    for beside in ("binlog.index", "binlog.999999.idx", "binlog.state"):
        (archive.folder / beside).write_text("binlog.999999\n")
    batches = drain(archive.source())
    assert ids(batches) == [1, 2, 3]
    assert batches[-1].end["file"] == "binlog.1000001"
    assert batches[0].changes[0] == CreateTable(T, archive.source().tables()[T])


def test_batches_splits_and_replays_may_span_files(archive: Archive) -> None:
    for number in (1, 2, 3):
        script = [event for at in range(10) for event in one_row(10 * number + at, 10 * number + at)]
        archive.write(f"binlog.00000{number}", *(create() if number == 1 else ()), *script)
    whole = drain(archive.source())
    assert ids(whole) == list(range(10, 40))
    assert len([batch for batch in whole if batch.blocks]) == 1
    assert read(archive.source(), whole[0].start, whole[-1].end).images == all_images(whole)
    small = drain(archive.source(), limits=Limits(1000, 1 << 40))
    assert len(small) > 3
    assert ids(small) == list(range(10, 40))


def test_a_run_goes_on_with_files_that_came_later(archive: Archive) -> None:
    archive.write("binlog.000001", *create(), *one_row(2, 1))
    first = drain(archive.source())
    assert drain(archive.source(), first[-1].end) == []
    archive.write("binlog.000002", *one_row(3, 2))
    rest = drain(archive.source(), first[-1].end)
    assert ids(rest) == [2]
    archive.write("binlog.000002", *one_row(3, 2), *one_row(4, 3))  # the last file has grown
    assert ids(drain(archive.source(), rest[-1].end)) == [3]


@pytest.mark.parametrize("at", [4, 9], ids=["opened at another time", "another server"])
def test_other_files_of_the_same_names_are_not_read_on(archive: Archive, at: int) -> None:
    """Positions alone would go on in the middle of them, and what is before would be missing without a word."""
    archive.write("binlog.000001", *create(), *one_row(2, 1))
    first = drain(archive.source())
    path = archive.write("binlog.000001", *create(), *one_row(2, 7), *one_row(3, 8))
    assert ids(drain(archive.source(), first[-1].end)) == [8]
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(PositionLost, match=r"binlog\.000001 is not the file"):
        drain(archive.source(), first[-1].end)


def test_a_missing_file_between_two_others_is_refused(archive: Archive) -> None:
    archive.write("binlog.000001", *create())
    archive.write("binlog.000003", *one_row(2, 1))
    with pytest.raises(SourceError, match=r"between binlog\.000001 and binlog\.000003 files are missing"):
        drain(archive.source())


def test_two_files_of_one_number_are_refused(archive: Archive) -> None:
    archive.write("binlog.000001", *create())
    archive.write("other/binlog.000001", *create())
    with pytest.raises(SourceError, match=r"have the same number: .*binlog\.000001 and .*other/binlog\.000001"):
        drain(archive.source(["binlog.*", "other/*"]))
    archive.write("a.log", *create())
    archive.write("b.log", *one_row(2, 1))
    with pytest.raises(SourceError, match="have the same number"):
        drain(archive.source("*.log"))
    assert len(drain(archive.source("a.log"))) == 1


def test_one_file_named_twice_is_read_once(archive: Archive) -> None:
    archive.write("binlog.000001", *create(), *one_row(2, 1))
    assert ids(drain(archive.source(["binlog.000001", "binlog.*"]))) == [1]


def test_no_file_is_an_error(archive: Archive) -> None:
    with pytest.raises(SourceError, match=r"source\.path: no file matches .*binlog\.\*"):
        archive.source().initial_offset()


def test_a_file_that_is_gone_is_named(archive: Archive) -> None:
    archive.write("binlog.000001", *create())
    path = archive.write("binlog.000002", *one_row(2, 1))
    batches = drain(archive.source())
    path.unlink()
    with pytest.raises(SourceError, match=r"the file binlog\.000002 no longer exists"):
        archive.source().latest_offset(batches[-1].end, None, 0.0)


def test_an_unfinished_transaction_at_the_end_waits_for_its_rest(archive: Archive) -> None:
    whole = one_row(3, 2)
    archive.write("binlog.000001", *create(), *one_row(2, 1), *whole[:-1])
    first = drain(archive.source())
    assert ids(first) == [1]
    archive.write("binlog.000001", *create(), *one_row(2, 1), *whole)
    assert ids(drain(archive.source(), first[-1].end)) == [2]


def test_a_torn_file_is_corrupt_after_what_is_whole(archive: Archive) -> None:
    path = archive.write("binlog.000001", *create(), *one_row(2, 1), *one_row(3, 2))
    path.write_bytes(path.read_bytes()[:-7])
    source = archive.source()
    start = source.initial_offset()
    with pytest.raises(CorruptLog, match="ends inside an event"):
        follow(source, start)


def follow(source: BinlogFilesSource, at: Offset) -> None:
    for _ in range(9):
        at = source.latest_offset(at, None, 0.0)


def test_rows_of_a_table_that_nothing_defines_are_refused(archive: Archive) -> None:
    archive.write("binlog.000001", *one_row(1, 1))
    with pytest.raises(SchemaUnknown, match=r"rows of shop\.t.*add schema-files"):
        drain(archive.source())


def test_statements_are_read_as_the_server_that_wrote_them_did(archive: Archive) -> None:
    text = "CREATE TABLE shop.t (id INT PRIMARY KEY, j JSON /*M! , k INT */)"
    archive.write("binlog.000001", seen(1), sql(text))
    assert [str(column.type) for column in archive.source().tables()[T].columns] == ["INT", "JSON"]
    archive.write_mariadb("binlog.000001", text)
    assert [str(column.type) for column in archive.source().tables()[T].columns] == ["INT", "STRING", "INT"]
    assert len(drain(archive.source())) == 1


def test_definitions_come_from_schema_files(archive: Archive) -> None:
    archive.write("binlog.000001", *one_row(1, 1), seen(2), sql("ALTER TABLE shop.t ADD note TEXT"))
    dump = archive.folder / "dump.sql"
    dump.write_text(f"-- a dump\nUSE `shop`;\n{CREATE};\nCREATE TABLE `u` (a INT);\nCREATE TABLE hidden.x (a INT);\n")
    source = archive.source(**{"schema-files": str(dump)})
    batches = drain(source)
    assert batches[0].start["schemas"] == 0
    assert {change.table for change in batches[0].changes} == {T, TableId("shop", "u")}
    assert batches[0].blocks == ()
    assert ids(batches) == [1]
    assert [type(change) for change in batches[-1].changes] == [AddColumn]
    assert archive.source(**{"schema-files": str(dump)}).tables()[T].names == ("id", "note")
    first = archive.source(**{"schema-files": str(dump)}).first_tables()
    assert {table: schema.names for table, schema in first.items()} == {T: ("id",), TableId("shop", "u"): ("a",)}
    assert archive.source().first_tables() == {}


def test_statements_that_are_refused_come_after_the_rows_before_them(archive: Archive) -> None:
    archive.write("binlog.000001", *create(), *one_row(2, 1), seen(3), *dml("INSERT INTO t VALUES (7)"))
    source = archive.source()
    start = source.initial_offset()
    end = source.latest_offset(start, None, 0.0)
    assert [row for _, row in read(source, start, end).images] == [{"id": 1}]
    with pytest.raises(UnsupportedChange, match=r"INSERT was logged as a statement.*set binlog_format=ROW"):
        source.latest_offset(end, None, 0.0)


def dml(text: str) -> list[Event]:
    return [(events.QUERY, query(b"BEGIN")), sql(text), XID]


def test_a_history_shorter_than_the_offset_is_no_state_to_go_on_with(archive: Archive) -> None:
    archive.write("binlog.000001", *create(), *one_row(2, 1))
    end = drain(archive.source())[-1].end
    for path in archive.state.iterdir():
        path.unlink()
    with pytest.raises(StateError, match="the schema history holds 0 entries, 1 are needed"):
        archive.source().latest_offset(end, None, 0.0)


def test_a_crashed_plan_is_planned_again_alike(archive: Archive) -> None:
    script = [*one_row(2, 1), seen(3), sql("ALTER TABLE shop.t ADD note TEXT"), seen(4), sql("DROP TABLE shop.t")]
    archive.write("binlog.000001", *create(), *script)
    source = archive.source()
    start = source.initial_offset()
    ahead = source.latest_offset(start, Limits(1, 1), 0.0)  # its history may hold what comes later already
    again = archive.source()
    assert again.latest_offset(start, Limits(1, 1), 0.0) == ahead
    assert again.events(start, ahead) == source.events(start, ahead)
    rest = drain(archive.source(), ahead)
    assert [type(change).__name__ for batch in rest for change in batch.changes] == ["AddColumn", "DropTable"]


def test_an_offset_of_an_earlier_version_goes_on_and_nothing_new_leaves_it_as_it_is(archive: Archive) -> None:
    archive.write("binlog.000001", *create(), *one_row(2, 1))
    unversioned = {name: value for name, value in drain(archive.source())[-1].end.items() if name != "version"}
    assert archive.source().latest_offset(unversioned, None, 0.0) == unversioned  # so that no empty batch begins
    archive.write("binlog.000002", *one_row(3, 2))
    assert ids(drain(archive.source(), unversioned)) == [2]


@pytest.mark.parametrize("repeats", [False, True], ids=["", "the run without it only repeats a batch"])
def test_a_table_that_was_left_out_cannot_be_taken_in_again(archive: Archive, repeats: bool) -> None:
    """Its rows in the part that was read are not in the sink, and nothing here can be copied."""
    archive.write("binlog.000001", *create(1), *one_row(2, 1))
    first = archive.source()
    at = drain(first, first.initial_offset())[-1].end
    archive.write("binlog.000002", *one_row(3, 2))
    left_out = archive.source(**{"tables.exclude": "shop.t"})
    start, at = at, (archive.source() if repeats else left_out).latest_offset(at, None, 0.0)
    left_out.events(start, at)
    archive.write("binlog.000003", *one_row(4, 3))
    with pytest.raises(SourceError, match=r"shop\.t: matches since the pipeline file was edited.*--state-dir"):
        archive.source().latest_offset(at, None, 0.0)
    assert archive.source(**{"tables.exclude": "shop.t"}).latest_offset(at, None, 0.0)


def test_a_table_whose_rows_were_read_when_nobody_wanted_it_cannot_be_taken_in(archive: Archive) -> None:
    archive.write("binlog.000001", *create(1), *one_row(2, 1))
    first = archive.source(tables="shop.other")
    start = first.initial_offset()
    at = first.latest_offset(start, None, 0.0)
    archive.write("binlog.000002", *one_row(3, 2))
    with pytest.raises(SourceError, match=r"shop\.t: matches since"):
        archive.source().latest_offset(at, None, 0.0)
