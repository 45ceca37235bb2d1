"""Reading single events: statements, GTIDs, rotations; and which statements matter."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pytest
from binlog_builder import FIXTURES, gtid, log, query
from together import together

from cdc.errors import CorruptLog
from connectors.mysql import events
from connectors.mysql.gtid import GtidSet
from connectors.mysql.kernels.query_kind import statement_kind
from connectors.mysql.log import event_bodies
from connectors.mysql.log.dump_command import encode_gtid_set
from connectors.mysql.log.event_bodies import gtid_runs, mariadb_gtid_runs, parse_gtid
from connectors.mysql.log.log_file import read_buffers
from connectors.mysql.log.query_event import QueryEvent, parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.server.positions import file_number

ONE = uuid.UUID("11111111-2222-3333-4444-555555555555")
TWO = uuid.UUID("ffffffff-2222-3333-4444-555555555555")


def chunk_of(tmp_path: Path, *parts: tuple[int, bytes]) -> ReceiveBuffer:
    """The given events, without the format description before them."""
    path = tmp_path / "binlog.000003"
    path.write_bytes(log(parts))
    return max(read_buffers(path), key=len) if len(parts) > 1 else list(read_buffers(path))[-1]


def recorded(name: str, kind: int) -> list[tuple[ReceiveBuffer, int]]:
    return [
        (chunk, index)
        for chunk in read_buffers(FIXTURES / name)
        for index in np.flatnonzero(chunk.type == kind).tolist()
    ]


@together(
    "sql, kind",
    [
        ("BEGIN", events.BEGIN),
        ("begin", events.BEGIN),
        ("BEGIN WORK;", events.BEGIN),
        ("START TRANSACTION", events.BEGIN),
        ("BEGIN NOT ATOMIC DELETE FROM t; END", events.OTHER),
        ("COMMIT", events.COMMIT),
        ("  commit /* 2 */", events.COMMIT),
        ("ROLLBACK", events.ROLLBACK),
        ("ROLLBACK TO `s`", events.ROLLBACK),
        ("SAVEPOINT `s`", events.HARMLESS),
        ("RELEASE SAVEPOINT s", events.HARMLESS),
        ("XA START X'78',X'',1", events.HARMLESS),
        ("xa end X'78',X'',1", events.HARMLESS),
        ("XA COMMIT X'78',X'',1", events.OTHER),
        ("XA ROLLBACK X'78',X'',1", events.OTHER),
        ("FLUSH TABLES", events.HARMLESS),
        ("GRANT SELECT ON *.* TO u", events.HARMLESS),
        ("ANALYZE TABLE t", events.HARMLESS),
        ("ANALYZE UPDATE t SET a = 1", events.OTHER),
        ("# Dummy event replacing event type 160", events.HARMLESS),
        ("-- nothing\n", events.HARMLESS),
        ("/* only */ /* comments */", events.HARMLESS),
        ("", events.HARMLESS),
        ("/* app */ BEGIN", events.BEGIN),
        ("# note\nALTER TABLE t ADD a INT", events.OTHER),
        ("/*!40000 ALTER TABLE t ADD a INT */", events.OTHER),
        ("/*M!100000 ALTER TABLE t ADD a INT */", events.OTHER),
        ("-1", events.OTHER),
        ("/", events.OTHER),
        ("BEGINNING", events.OTHER),
        ("FLUSHED", events.OTHER),
        ("SAVEPOINT", events.HARMLESS),
        ("CREATE TABLE t (a INT)", events.OTHER),
        ("INSERT INTO t VALUES (1)", events.OTHER),
    ],
)
def test_statement_kinds(sql: str, kind: int) -> None:
    text = np.frombuffer(bytearray(b"XX" + sql.encode() + b"YY"), np.uint8)
    assert statement_kind(text, 2, 2 + len(sql.encode())) == kind


def test_a_statement_with_its_settings(tmp_path: Path) -> None:
    variables = (
        b"\x00\x00\x00\x00\x00" + b"\x01\x04\x00\x10\x00\x00\x00\x00\x00" + b"\x06\x03std" + b"\x03\x01\x00\x01\x00"
        b"\x04\x08\x00\x2d\x00\xff\x00" + b"\x05\x06+02:00" + b"\x07\x01\x00" + b"\x08\x1c\x00" + bytes([9, *[0] * 8])
        + b"\x0b\x04root\x09localhost" + b"\x0c\x02shop\x00other\x00" + b"\x0d\x01\x02\x03" + b"\x10\x01"
        + bytes([17, *[0] * 8]) + b"\x12\xff\x00" + b"\x13\x01" + b"\xfa???"
    )  # fmt: skip
    chunk = chunk_of(tmp_path, (events.QUERY, query("CREATE TABLE grün (a INT)".encode("cp1252"), b"shop", variables)))
    assert parse_query(chunk, 0) == QueryEvent(
        schema="shop", sql="CREATE TABLE grün (a INT)", sql_mode=0x100004, server_collation=255, time_zone="+02:00",
        explicit_timestamp=True, explicit_timestamp_flag=False,
    )  # fmt: skip


def test_mariadb_tells_in_a_flag_how_timestamps_are_defined(tmp_path: Path) -> None:
    """Beside others: foreign keys are not checked (bit 26)."""
    for flags, explicit in ((b"\0\0\0\x05", True), (b"\0\0\0\x04", False)):
        chunk = chunk_of(tmp_path, (events.QUERY, query(b"CREATE TABLE t (a TIMESTAMP)", b"shop", b"\0" + flags)))
        assert parse_query(chunk, 0).explicit_timestamp_flag == explicit


@together("ids, literals", [((45, 8), "cp1252"), ((8, 8), ""), ((8, 45), ""), ((45, 11), "ascii"), ((33, 33), "ucs2")])
def test_literals_that_a_session_converts(tmp_path: Path, ids: tuple[int, int], literals: str) -> None:
    client, connection = (one.to_bytes(2, "little") for one in ids)
    variables = b"\x04" + client + connection + b"\xff\x00"
    chunk = chunk_of(tmp_path, (events.QUERY, query(b"TRUNCATE t", b"shop", variables)))
    assert parse_query(chunk, 0).literals == literals


def test_a_statement_without_settings(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, (events.QUERY, query(b"TRUNCATE t", b"")))
    assert parse_query(chunk, 0) == QueryEvent(schema="", sql="TRUNCATE t")


@pytest.mark.parametrize("name", ["mysql.binlog", "mariadb.binlog"])
def test_recorded_statements(name: str) -> None:
    found = [parse_query(*place) for place in recorded(name, events.QUERY)]
    assert found[0].sql == "CREATE DATABASE shop"
    assert [entry.schema for entry in found][:2] == ["shop", ""]
    assert all(entry.sql_mode for entry in found)


def test_runs_join_neighbours_of_one_source(tmp_path: Path) -> None:
    numbers = [(ONE, 1), (ONE, 2), (ONE, 3), (TWO, 9), (ONE, 4), (ONE, 6)]
    parts = [(events.GTID, gtid(source.bytes, number)) for source, number in numbers]
    chunk = chunk_of(tmp_path, *parts, (events.ANONYMOUS_GTID, gtid(bytes(16), 0)))
    assert gtid_runs(chunk, 0, len(chunk)) == [
        (str(ONE), 1, 3), (str(TWO), 9, 9), (str(ONE), 4, 4), (str(ONE), 6, 6)
    ]  # fmt: skip
    assert gtid_runs(chunk, 1, 2) == [(str(ONE), 2, 2)]
    assert gtid_runs(chunk, 2, 2) == []
    with pytest.raises(IndexError):
        gtid_runs(chunk, 0, len(chunk) + 1)


def test_recorded_gtids_with_tags() -> None:
    chunks = list(read_buffers(FIXTURES / "mysql.binlog"))
    runs = [run for chunk in chunks for run in gtid_runs(chunk, 0, len(chunk))]
    source = runs[0][0]
    assert runs == [(source, 1, 4), (f"{source}:nightly", 1, 2), (source, 5, 11)]
    assert str(GtidSet().add_all(runs)) == f"{source}:1-11:nightly:1-2"
    place = recorded("mysql.binlog", events.GTID_TAGGED)[0]
    assert str(parse_gtid(*place)) == f"{source}:nightly:1"


def test_recorded_gtids_of_mariadb() -> None:
    chunks = list(read_buffers(FIXTURES / "mariadb.binlog"))
    assert [run for chunk in chunks for run in mariadb_gtid_runs(chunk, 0, len(chunk))] == [(0, 1, 7), (7, 1, 1)]
    gtids = [parse_gtid(*place) for place in recorded("mariadb.binlog", events.MARIADB_GTID)]
    assert [str(entry) for entry in gtids][:2] == ["0-1-1", "0-1-2"]


def test_rotation_names_the_next_file() -> None:
    for name in ("mysql.binlog", "mariadb.binlog"):
        buffer, index = recorded(name, events.ROTATE)[0]
        assert event_bodies.rotate_target(buffer.body(index), "") == ("binlog.000002", 4)
    assert file_number("binlog.000002") == 2
    assert file_number("binlog") == 0


@pytest.mark.parametrize("text", ["", f"{ONE}:1-5:9", f"{ONE}:1-3:night:2-7:8,{TWO}:1:zulu:4"])
def test_gtid_sets_survive_their_binary_form(tmp_path: Path, text: str) -> None:
    gtids = GtidSet.parse(text)
    chunk = chunk_of(tmp_path, (events.PREVIOUS_GTIDS, encode_gtid_set(gtids)))
    assert GtidSet().add_all(event_bodies.parse_previous_gtids(chunk, 0)) == gtids


def test_truncated_gtid_sets_are_corrupt(tmp_path: Path) -> None:
    data = encode_gtid_set(GtidSet.parse(f"{ONE}:1-3:night:2-7"))
    for size in range(len(data)):
        with pytest.raises(CorruptLog):
            event_bodies.parse_previous_gtids(chunk_of(tmp_path, (events.PREVIOUS_GTIDS, data[:size])), 0)


def test_the_state_before_a_mariadb_file(tmp_path: Path) -> None:
    body = (2).to_bytes(4, "little") + b"".join(value.to_bytes(size, "little") for value, size in (
        (0, 4), (1, 4), (77, 8), (7, 4), (2, 4), (5, 8)))  # fmt: skip
    chunk = chunk_of(tmp_path, (events.MARIADB_GTID_LIST, body))
    assert event_bodies.parse_gtid_list(chunk, 0) == [(0, 1, 77), (7, 2, 5)]
    with pytest.raises(CorruptLog, match="MARIADB_GTID_LIST event of 30 bytes"):
        event_bodies.parse_gtid_list(chunk_of(tmp_path, (events.MARIADB_GTID_LIST, body[:30])), 0)


def test_heartbeats_of_version_two_carry_long_positions() -> None:
    body = b"\x01\x0dbinlog.000004" + b"\x02\x09\xfe" + (5 << 30).to_bytes(8, "little") + b"\0"
    assert event_bodies.heartbeat_position(body, "x") == ("binlog.000004", 5 << 30)
    with pytest.raises(CorruptLog):
        event_bodies.heartbeat_position(b"\x01\x0dbin", "x")
