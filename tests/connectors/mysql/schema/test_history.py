"""The schema history: what is written is read back, through torn lines, cuts and readers that run beside the writer."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from ddl_tables import tables
from hypothesis import given
from together import together

from cdc.errors import StateError
from cdc.schema import CreateTable, DropTable, RenameTable, TableId
from cdc.state.store import LocalStore
from connectors.mysql.ddl.catalog import TableDefinitions
from connectors.mysql.ddl.delta import Delta, delta_from_json, delta_to_json
from connectors.mysql.schema.history import FILE_NAME, SchemaEntry, SchemaHistory
from connectors.mysql.table import MySqlTable
from connectors.shared.ddl.dialect import DdlDialect

T, U = TableId("shop", "t"), TableId("shop", "u")
STATEMENTS = (
    "CREATE DATABASE shop CHARACTER SET latin1",
    "CREATE TABLE t (a INT PRIMARY KEY, b ENUM('x','ü') NOT NULL DEFAULT 'ü' COMMENT 'it''s') COMMENT 'c'",
    "ALTER TABLE t ADD c DECIMAL(5,2) UNSIGNED AFTER a",
    "CREATE TABLE other LIKE t",
    "RENAME TABLE t TO u",
    "RENAME TABLE u TO elsewhere",
)


def wanted(table: TableId) -> bool:
    return table in (T, U)


def written(folder: Path, statements: tuple[str, ...] = STATEMENTS) -> tuple[SchemaHistory, TableDefinitions]:
    history, catalog = SchemaHistory(LocalStore(folder)), TableDefinitions(captures=wanted)
    for number, sql in enumerate(statements):
        result = catalog.apply(sql, "shop")
        entry = SchemaEntry.of(result, {"file": "binlog.000001", "pos": 100 + number}, sql)
        assert history.append(entry) == number + 1
    return history, catalog


def test_an_empty_history_has_no_entries(tmp_path: Path) -> None:
    history = SchemaHistory(LocalStore(tmp_path / "missing"))
    assert history.count() == 0
    assert history.changes(0, 0) == []
    assert history.tables(0) == {}


def test_another_process_reads_what_was_written(tmp_path: Path) -> None:
    history, catalog = written(tmp_path)
    reader = pickle.loads(pickle.dumps(SchemaHistory(LocalStore(tmp_path))))
    assert reader.count() == len(STATEMENTS)
    assert reader.entries(0, 6) == history.entries(0, 6)
    assert [entry.sql for entry in reader.entries(0, 6)] == list(STATEMENTS)
    assert reader.entries(2, 3)[0].at == {"file": "binlog.000001", "pos": 102}
    again = reader.fill(TableDefinitions(captures=wanted, dialect=DdlDialect()), 6)
    assert (again.tables, again.databases, again.marks) == (catalog.tables, catalog.databases, catalog.marks)
    assert again.marks == {U: "left"}


def test_changes_and_tables_are_those_of_the_first_entries(tmp_path: Path) -> None:
    history, _ = written(tmp_path)
    assert [type(change) for change in history.changes(0, 2)] == [CreateTable]
    assert history.changes(4, 6) == [RenameTable(T, U)]
    assert [column.name for column in history.tables(2)[T].columns] == ["a", "b"]
    assert [column.name for column in history.tables(3)[T].columns] == ["a", "c", "b"]
    assert history.tables(6).keys() == {TableId("shop", "other"), TableId("shop", "elsewhere")}
    assert history.tables(1) == {}
    assert history.tables(5).keys() == {TableId("shop", "other"), U}


def test_a_reader_follows_the_writer(tmp_path: Path) -> None:
    reader = SchemaHistory(LocalStore(tmp_path))
    assert reader.count() == 0
    writer, _ = written(tmp_path, STATEMENTS[:2])
    assert reader.count() == 2
    writer.append(SchemaEntry({}, (DropTable(T),), Delta({T: None})))
    assert reader.changes(2, 3) == [DropTable(T)]
    assert reader.tables(3) == {}


def test_several_entries_are_one_append(tmp_path: Path) -> None:
    history = SchemaHistory(LocalStore(tmp_path))
    assert history.append(SchemaEntry({}), SchemaEntry({"pos": 1})) == 2
    assert [entry.at for entry in SchemaHistory(LocalStore(tmp_path)).entries(0, 2)] == [{}, {"pos": 1}]


@pytest.mark.parametrize("lost", [1, 2, 40])
def test_a_torn_last_line_does_not_count_and_is_cut_by_the_next_append(tmp_path: Path, lost: int) -> None:
    written(tmp_path, STATEMENTS[:3])
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes()[:-lost])
    history = SchemaHistory(LocalStore(tmp_path))
    assert history.count() == 2
    assert history.append(SchemaEntry({"pos": 7})) == 3
    assert SchemaHistory(LocalStore(tmp_path)).entries(2, 3) == [SchemaEntry({"pos": 7})]
    assert path.read_bytes().endswith(b"\n")


def test_cut_entries_are_gone_for_readers_that_had_seen_them(tmp_path: Path) -> None:
    writer, _ = written(tmp_path)
    reader = SchemaHistory(LocalStore(tmp_path))
    assert reader.tables(6)
    writer.truncate(2)
    # The file is longer again than what the reader knows, with other entries.
    for number in range(8):
        writer.append(SchemaEntry({"pos": number}, (), Delta({}, {"x": "latin1"})))
    assert reader.count() == 10
    assert [entry.at for entry in reader.entries(2, 4)] == [{"pos": 0}, {"pos": 1}]
    assert reader.tables(10).keys() == {T}


def test_cutting_twice_changes_nothing(tmp_path: Path) -> None:
    writer, _ = written(tmp_path)
    writer.truncate(3)
    content = (tmp_path / FILE_NAME).read_bytes()
    writer.truncate(3)
    assert (tmp_path / FILE_NAME).read_bytes() == content
    assert writer.count() == 3


def test_entries_that_an_offset_asks_for_and_are_not_there(tmp_path: Path) -> None:
    history, _ = written(tmp_path, STATEMENTS[:2])
    with pytest.raises(StateError, match="holds 2 entries, 3 are needed"):
        history.tables(3)
    with pytest.raises(StateError, match="holds 2 entries"):
        history.truncate(3)


@together(
    "line, text, reason",
    [
        (0, b"{}", "does not name a format"),
        (0, b'{"schema_history": 99, "generation": 1}', "its schema_history is 99, this version reads 1"),
        (2, b"{not json", "entry 1 cannot be read"),
        (2, b'{"entry": 5, "at": {}, "changes": [], "tables": []}', "it is numbered 5"),
        (2, b'{"entry": 1, "at": {}, "changes": [{"change": "frob"}], "tables": []}', "unknown schema change"),
    ],
)
def test_a_damaged_history_is_refused(tmp_path: Path, line: int, text: bytes, reason: str) -> None:
    written(tmp_path, STATEMENTS[:3])
    path = tmp_path / FILE_NAME
    lines = path.read_bytes().splitlines()
    lines[line] = text
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(StateError, match=reason):
        SchemaHistory(LocalStore(tmp_path)).count()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    with pytest.raises(StateError, match="the schema history cannot be"):
        SchemaHistory(LocalStore(tmp_path / "state")).append(SchemaEntry({}))


@given(tables(T))
def test_a_definition_reads_back(table: MySqlTable) -> None:
    delta = Delta({T: table, U: None}, {"d": "latin1", "e": None}, {U: "left", T: None})
    assert delta_from_json(json.loads(json.dumps(delta_to_json(delta)))) == delta
