"""Reading archived binary logs: recorded ones, and made ones for what servers do not write on demand."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from binlog_builder import FIXTURES, event, flat, format_description, gtid, log, names, query
from together import together

from cdc.errors import CorruptLog, SourceUnavailable, UnsupportedChange
from connectors.mysql import events
from connectors.mysql.log.log_file import read_buffers

RECORDED = ("mysql.binlog", "mysql-no-checksum.binlog", "mariadb.binlog")
MYSQL_EVENTS = {
    "FORMAT_DESCRIPTION": 1, "PREVIOUS_GTIDS": 1, "GTID": 11, "GTID_TAGGED": 2, "QUERY": 15, "TABLE_MAP": 9,
    "WRITE_ROWS_V2": 5, "UPDATE_ROWS_V2": 1, "PARTIAL_UPDATE_ROWS": 2, "ROWS_QUERY": 2, "DELETE_ROWS_V2": 1, "XID": 8,
    "XA_PREPARE": 1, "ROTATE": 1,
}  # fmt: skip


def made(tmp_path: Path, data: bytes, name: str = "binlog.000007") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["mysql.binlog", "mysql-no-checksum.binlog"])
def test_mysql_with_compressed_transactions_tagged_gtids_partial_updates_and_xa(name: str) -> None:
    assert names(read_buffers(FIXTURES / name)) == MYSQL_EVENTS


def test_mariadb_with_compressed_rows_and_statements() -> None:
    assert names(read_buffers(FIXTURES / "mariadb.binlog")) == {
        "FORMAT_DESCRIPTION": 1, "MARIADB_GTID_LIST": 1, "MARIADB_BINLOG_CHECKPOINT": 1, "MARIADB_GTID": 8, "QUERY": 3,
        "MARIADB_ANNOTATE_ROWS": 5, "TABLE_MAP": 5, "WRITE_ROWS_V1": 3, "UPDATE_ROWS_V1": 1, "DELETE_ROWS_V1": 1,
        "XID": 5, "ROTATE": 1,
    }  # fmt: skip


def test_expanded_events_hold_what_was_written() -> None:
    for name in ("mysql.binlog", "mariadb.binlog"):
        bodies = [body for _, _, kind, *_, body in flat(read_buffers(FIXTURES / name)) if kind in events.ROWS_TYPES]
        assert sum(b"compressed compressed " in body for body in bodies) >= 1, name
    sql = [body for _, _, kind, *_, body in flat(read_buffers(FIXTURES / "mariadb.binlog")) if kind == events.QUERY]
    assert sql[-1].endswith(b"COMMENT 'one two one two one two one two'")


def test_events_out_of_a_payload_carry_its_end_position_and_commit_time() -> None:
    found = flat(read_buffers(FIXTURES / "mysql.binlog"))
    positions = [position for _, position, *_ in found]
    assert positions == sorted(positions)
    repeated = {position for position in positions if positions.count(position) > 1}
    assert len(repeated) == 2  # the compressed INSERT and the compressed XA transaction
    for position in repeated:
        inside = [entry for entry in found if entry[1] == position]
        assert len({commit for *_, commit, _, _ in inside}) == 1
        assert inside[-1][2] in (events.XID, events.XA_PREPARE)


def test_positions_are_file_offsets() -> None:
    data = (FIXTURES / "mysql.binlog").read_bytes()
    assert flat(read_buffers(FIXTURES / "mysql.binlog"))[-1][1] == len(data)


@together("name", RECORDED)
@together("chunk_bytes", [1, 64, 1000])
def test_small_reads_give_the_same_events(name: str, chunk_bytes: int) -> None:
    assert flat(read_buffers(FIXTURES / name, buffer_bytes=chunk_bytes)) == flat(read_buffers(FIXTURES / name))


@together("name", RECORDED)
def test_every_start_and_end_cuts_the_same_list(name: str) -> None:
    every = flat(read_buffers(FIXTURES / name))
    for cut in sorted({position for _, position, *_ in every}):
        later = [entry[:3] + entry[4:] for entry in every if entry[1] > cut]
        assert [entry[:3] + entry[4:] for entry in flat(read_buffers(FIXTURES / name, start=cut))] == later
        assert flat(read_buffers(FIXTURES / name, end=cut)) == [entry for entry in every if entry[1] <= cut]


def test_a_chunk_can_be_cut_at_positions() -> None:
    chunk = max(read_buffers(FIXTURES / "mariadb.binlog"), key=len)
    middle = int(chunk.end_position[5])
    assert flat([chunk.until(middle)]) + flat([chunk.after(middle)]) == flat([chunk])
    assert len(chunk.until(0)) == 0


def test_chunks_own_writable_buffers() -> None:
    chunks, seen = [], []
    for chunk in read_buffers(FIXTURES / "mysql.binlog", buffer_bytes=256):
        chunks.append(chunk)
        seen += flat([chunk])
    assert len(chunks) > 3
    assert flat(chunks) == seen  # reading on has not changed what was handed out before
    for chunk in chunks:
        assert chunk.data.dtype == np.uint8
        assert chunk.data.flags.c_contiguous
        assert chunk.data.flags.writeable


def test_commit_time_comes_from_the_gtid_event_until_the_next_one(tmp_path: Path) -> None:
    parts = [
        (events.GTID, gtid(bytes(16), 1)), (events.QUERY, query(b"BEGIN")), (events.XID, bytes(8)),
        (events.GTID, gtid(bytes(16), 2)[:42]), (events.QUERY, query(b"BEGIN")),
    ]  # fmt: skip
    found = flat(read_buffers(made(tmp_path, log(parts))))
    assert [commit for _, _, _, commit, *_ in found[1:]] == [1_700_000_000_123] * 3 + [1_700_000_000_000] * 2


def test_a_file_that_is_still_in_use_is_read(tmp_path: Path) -> None:
    data = events.MAGIC + format_description(True, flags=events.FLAG_IN_USE)
    data += event(events.XID, bytes(8), len(data))
    assert names(read_buffers(made(tmp_path, data))) == {"FORMAT_DESCRIPTION": 1, "XID": 1}


def test_unknown_events_are_refused_unless_they_say_they_may_be_ignored(tmp_path: Path) -> None:
    unknown = made(tmp_path, log([(200, b"new"), (events.XID, bytes(8))]))
    with pytest.raises(UnsupportedChange, match=r"binlog\.000007:127: events of type 200 are not read"):
        list(read_buffers(unknown))
    ignorable = made(tmp_path, log([(200, b"new"), (events.XID, bytes(8))], flags=events.FLAG_IGNORABLE))
    assert names(read_buffers(ignorable)) == {"FORMAT_DESCRIPTION": 1, "XID": 1}
    parts = made(tmp_path, log([(events.MARIADB_PARTIAL_ROW_DATA, b"part")], flags=events.FLAG_IGNORABLE))
    with pytest.raises(UnsupportedChange, match="rows are logged in parts"):
        list(read_buffers(parts))


def test_an_incident_stops_with_its_text(tmp_path: Path) -> None:
    body = struct.pack("<HB", 1, 11) + b"LOST_EVENTS"
    with pytest.raises(UnsupportedChange, match="the server reports an incident: LOST_EVENTS"):
        list(read_buffers(made(tmp_path, log([(events.INCIDENT, body)]))))


def test_encrypted_logs_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedChange, match=r"mariadb-encrypted\.binlog:256: .*encrypted.*type: mysql"):
        list(read_buffers(FIXTURES / "mariadb-encrypted.binlog"))
    with pytest.raises(UnsupportedChange, match="encrypted"):
        list(read_buffers(made(tmp_path, events.ENCRYPTED_MAGIC + bytes(600))))


@together(
    "data, message",
    [
        (b"", "not a binary log file"),
        (b"PAR1" + bytes(100), "not a binary log file"),
        (events.MAGIC + event(events.XID, bytes(8), 4), "does not begin with a format description"),
        (events.MAGIC + format_description(True)[:50], "ends inside an event"),
        (log([(events.GTID, bytes(20))]), "a GTID event that cannot be read"),
        (log([(events.QUERY, bytes(10))]), "a QUERY event with inconsistent lengths"),
        (log([(events.TRANSACTION_PAYLOAD, b"\2\1\0\0xyz")]), "a TRANSACTION_PAYLOAD event cannot be expanded"),
        (log([(events.MARIADB_QUERY_COMPRESSED, query(b"\x81\x05xyz"))]), "a MARIADB_QUERY_COMPRESSED event cannot be"),
        (log([(events.XID, bytes(8))])[:-1], r"ends inside an event \(30 bytes of it are there\)"),
    ],
)
def test_what_cannot_be_a_log_is_corrupt(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(CorruptLog, match=message):
        list(read_buffers(made(tmp_path, data)))


def test_a_log_that_begins_elsewhere_is_refused(tmp_path: Path) -> None:
    """Relay logs keep the source's positions in their events."""
    data = events.MAGIC + format_description(True)
    data += event(events.XID, bytes(8), len(data), stated=99_999)
    with pytest.raises(CorruptLog, match="relay log"):
        list(read_buffers(made(tmp_path, data)))


def test_a_missing_end_is_noticed(tmp_path: Path) -> None:
    data = log([(events.XID, bytes(8))])
    with pytest.raises(CorruptLog, match="the file ends before position 400"):
        list(read_buffers(made(tmp_path, data), end=400))


def test_a_missing_file_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match=r"cannot read the binary log file: No such file"):
        list(read_buffers(tmp_path / "binlog.000001"))
