"""Schemas while the log is followed: what begins the history, what is refused, what the sink is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from binlog_builder import Event, query
from log_script import BEGIN, XID, chunk, insert, seen, sql, table_map
from together import together

from cdc import events as on
from cdc.errors import SchemaUnknown, UnsupportedChange
from cdc.schema import AddColumn, CreateTable, DataType, Kind, TableId
from cdc.state.store import LocalStore
from connectors.mysql import events
from connectors.mysql.follow.segmenter import Segmenter
from connectors.mysql.log.segment import Segment
from connectors.mysql.options import BinlogFilesSourceOptions
from connectors.mysql.schema.schemas import Schemas, StartingDefinitions, Tracker, shown_schema
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.table import MySqlColumn, MySqlTable, difference
from connectors.shared.ddl.dialect import DdlDialect

T = TableId("shop", "t")
DEFINED = MySqlTable(
    T,
    (MySqlColumn("id", "int", nullable=False), MySqlColumn("flag", "tinyint", 1, comment="on or off")),
    ("id",),
    comment="all of it",
)
AT = LogPosition("binlog.000001", 4)


def wanted(table: TableId) -> bool:
    return table.database == "shop"


def schemas(folder: Path, **options: Any) -> Schemas:
    given = {"type": "binlog-files", "path": "x", "tables": r"shop.\.*"}
    given |= {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return Schemas(LocalStore(folder), BinlogFilesSourceOptions.model_validate(given))


def begun(folder: Path, *tables: MySqlTable, **options: Any) -> Schemas:
    made = schemas(folder, **options)
    made.begin(StartingDefinitions(tables), wanted, AT, DdlDialect())
    return made


def tracker(made: Schemas, count: int) -> Tracker:
    return made.tracker(count, wanted, DdlDialect(), 0, [])


def told(made: Tracker, statement: str) -> frozenset[TableId]:
    return made.statement(chunk([seen(1), sql(statement)]), 1, "")


def test_the_history_begins_with_what_holds_at_the_start(tmp_path: Path) -> None:
    made = begun(tmp_path, DEFINED)
    assert made.first_entries() == 1
    (created,) = on.changes(made.events(0, 1))
    assert isinstance(created, CreateTable)
    assert created.schema.names == ("id", "flag")
    made.begin(StartingDefinitions((DEFINED,)), wanted, AT, DdlDialect())  # a crash before the offset was stored
    assert made.history.count() == 1


def test_without_definitions_it_begins_with_the_log(tmp_path: Path) -> None:
    made = begun(tmp_path)
    assert made.first_entries() == 0
    told(tracker(made, 0), "CREATE TABLE t (id INT)")
    assert made.first_entries() == 0


def test_statements_are_written_before_they_are_told_of(tmp_path: Path) -> None:
    made = begun(tmp_path, DEFINED)
    following = tracker(made, 1)
    assert told(following, "ALTER TABLE t ADD note TEXT") == {T}
    assert following.entries == 2
    assert [type(change) for change in on.changes(schemas(tmp_path).events(1, 2))] == [AddColumn]
    assert told(following, "CREATE TABLE other.x (id INT)") == frozenset()
    assert told(following, "DROP USER someone") == frozenset()


def test_what_a_crashed_run_wrote_beyond_its_offset_is_cut_off(tmp_path: Path) -> None:
    made = begun(tmp_path, DEFINED)
    told(tracker(made, 1), "ALTER TABLE t ADD note TEXT")
    again = tracker(schemas(tmp_path), 1)
    assert again.entries == 1
    assert told(again, "ALTER TABLE t ADD other TEXT") == {T}
    assert [change.column.name for change in on.changes(made.events(1, 2))] == ["other"]
    assert tracker(schemas(tmp_path), 0).entries == 0


def _of_labels(metadata: bytes) -> Event:
    """Rows of shop.t with one ENUM column."""
    return events.TABLE_MAP, b"\1\0\0\0\0\0" + b"\1\0" + b"\4shop\0\1t\0" + b"\1\xfe\2\xf7\1\1" + metadata


def test_labels_are_spelled_as_the_metadata_of_rows_has_them(tmp_path: Path) -> None:
    asked = MySqlTable(T, (MySqlColumn("e", "enum", charset="utf8mb4", labels=("a", "?x")),), ())
    notices: list[str] = []
    made = begun(tmp_path, asked)
    following = made.tracker(1, wanted, DdlDialect(), 0, notices)
    assert following.table(chunk([_of_labels(b"")]), 0, T) == frozenset()
    assert following.table(chunk([_of_labels(b"")]), 0, T) == frozenset()
    assert [notice.partition(":")[0] for notice in notices] == ["shop.t"]
    labels = b"\2\1a\5" + "😀x".encode()
    full = b"\4\2\1e" + b"\6" + bytes([len(labels)]) + labels + b"\x0a\3\xfc\xff\0"
    following = made.tracker(1, wanted, DdlDialect(), 0, notices)
    assert following.table(chunk([_of_labels(full)]), 0, T) == {T}
    spelled = made.history.tables(2)[T]
    assert spelled.columns[0].labels == ("a", "😀x")
    assert difference(spelled, asked) == ""  # what the server shows at the next start


def test_labels_of_bytes_are_alike_with_and_without_a_character_set() -> None:
    old, new = (
        MySqlTable(T, (MySqlColumn("e", "enum", charset=given, labels=("a",)),), ()) for given in (None, "binary")
    )
    assert difference(old, new) == ""


def test_rows_of_a_table_that_nothing_defines_are_refused(tmp_path: Path) -> None:
    following = tracker(begun(tmp_path, DEFINED), 1)
    log = chunk(insert(1, "shop.u"))
    assert following.table(chunk(insert(1, "shop.t")), 2, T) == frozenset()
    with pytest.raises(SchemaUnknown, match=r"binlog\.000001:\d+: the log has rows of shop\.u"):
        following.table(log, 2, TableId("shop", "u"))
    assert len(chunk([table_map(1, "shop.u")])) == 1


@together(
    "statement, reason",
    [
        ("INSERT INTO t VALUES (1)", "logged as a statement"),
        ("INSERT INTO view_of VALUES (1)", "views, triggers and functions may write to captured ones"),
        ("SELECT shop.writes(1)", "logged as a statement"),
        ("ALTER TABLE t FROBNICATE", "not understood"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, statement: str, reason: str) -> None:
    following = tracker(begun(tmp_path, DEFINED), 1)
    with pytest.raises(UnsupportedChange, match=reason):
        told(following, statement)
    assert following.entries == 1


@pytest.mark.parametrize("statement", ["INSERT INTO other.x VALUES (1)", "ALTER TABLE other.x FROBNICATE"])
def test_what_cannot_be_followed_of_other_databases_does_not_matter(tmp_path: Path, statement: str) -> None:
    assert told(tracker(begun(tmp_path, DEFINED), 1), statement) == frozenset()


def test_a_file_loaded_by_a_statement_is_refused(tmp_path: Path) -> None:
    following = tracker(begun(tmp_path, DEFINED), 1)

    def follow(table: str) -> list[Segment]:
        body = query(f"LOAD DATA LOCAL INFILE '/tmp/SQL_LOAD_MB-1-0' INTO TABLE {table} (id)".encode())
        load = events.EXECUTE_LOAD_QUERY, body[:13] + bytes(13) + body[13:]
        log = chunk([seen(1), BEGIN, (events.BEGIN_LOAD_QUERY, bytes(4) + b"7\n"), load, XID])
        return list(Segmenter(following, wanted, file="binlog.000001", position=4).feed(log))

    with pytest.raises(UnsupportedChange, match=r"LOAD was logged as a statement.*LOAD DATA LOCAL INFILE"):
        follow("`t`")
    assert [len(segment.tables) for segment in follow("`other`.`t`")] == [0]


def test_changes_may_be_forbidden(tmp_path: Path) -> None:
    following = tracker(begun(tmp_path, DEFINED, schema_change__enabled=False), 1)
    with pytest.raises(UnsupportedChange, match=r"schema-change\.enabled is false"):
        told(following, "ALTER TABLE t ADD note TEXT")
    assert told(following, "ALTER TABLE t ADD INDEX (flag)") == frozenset()


def test_comments_reach_the_sink_only_when_asked_for(tmp_path: Path) -> None:
    statements = ("ALTER TABLE t COMMENT 'new'", "ALTER TABLE t MODIFY flag TINYINT(1) COMMENT 'x'")
    for asked in (False, True):
        folder = tmp_path / str(asked)
        folder.mkdir()
        made = begun(folder, DEFINED, include_comments__enabled=asked)
        for statement in statements:
            told(tracker(made, made.history.count()), statement)
        created, *others = on.changes(made.events(0, made.history.count()))
        assert isinstance(created, CreateTable)
        assert (created.schema.comment, created.schema.columns[1].comment) == (
            ("all of it", "on or off") if asked else ("", "")
        )
        assert len(others) == (2 if asked else 0)


def test_the_shown_schema_follows_the_options(tmp_path: Path) -> None:
    options = BinlogFilesSourceOptions.model_validate(
        {"type": "binlog-files", "path": "x", "tables": "shop.t", "treat-tinyint1-as-boolean.enabled": True}
    )
    assert shown_schema(DEFINED, options).columns[1].type == DataType(Kind.BOOLEAN)
    assert shown_schema(DEFINED, options).comment == ""
