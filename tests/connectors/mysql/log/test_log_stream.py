"""The replication stream of real servers, and of a scripted peer for what servers do not do on demand."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from binlog_builder import event, flat, format_description, names, packets
from servers import ServerFactory, own_servers

from cdc.errors import CorruptLog, PositionLost, SourceError, SourceUnavailable, UnsupportedChange
from cdc_services.server import MySqlServer, StartedServer
from connectors.mysql import events
from connectors.mysql.gtid import GtidSet
from connectors.mysql.log import dump_command
from connectors.mysql.log.event_bodies import gtid_runs
from connectors.mysql.log.log_file import read_buffers
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.stream import BinlogStream, EndOfLog
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.positions import LogPosition

LONG_S = 60.0


@contextmanager
def opened(connection: MySqlConnection, **options: Any) -> Iterator[BinlogStream]:
    stream = BinlogStream(connection, **{"server_id": 4242, **options})
    try:
        yield stream
    finally:
        stream.close()


def drained(server: MySqlServer, *, connect: dict[str, Any] | None = None, **options: Any) -> list[ReceiveBuffer]:
    """Everything up to the end of the log."""
    chunks: list[ReceiveBuffer] = []
    with opened(server.connect(**(connect or {})), until_end=True, **options) as stream, pytest.raises(EndOfLog):
        chunks.extend(arriving(stream, LONG_S))
    return chunks


def arriving(stream: BinlogStream, timeout_s: float, up_to: LogPosition | None = None) -> Iterator[ReceiveBuffer]:
    """Chunks until none comes in time."""
    while (chunk := stream.read(timeout_s, up_to)) is not None:
        yield chunk


def files(server: StartedServer) -> list[ReceiveBuffer]:
    """The same from the server's own files."""
    paths = sorted(path for path in server.datadir.glob("binlog.0*[0-9]"))
    return [chunk for path in paths for chunk in read_buffers(path)]


def sent(chunks: list[ReceiveBuffer]) -> list[tuple[Any, ...]]:
    """What can be compared: MariaDB does not send annotations, and writes checkpoints at any time."""
    left_out = (events.MARIADB_ANNOTATE_ROWS, events.MARIADB_BINLOG_CHECKPOINT)
    return [entry for entry in flat(chunks) if entry[2] not in left_out]


def workload(server: MySqlServer) -> None:
    server.execute(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(300), body LONGBLOB)",
        "INSERT INTO shop.t (note) VALUES ('one'), ('two')",
        "FLUSH LOGS",
        "UPDATE shop.t SET note = 'zwei' WHERE id = 2",
        "DELETE FROM shop.t WHERE id = 1",
    )
    if server.flavor == "mysql":
        server.execute("SET gtid_next = 'AUTOMATIC:nightly'", "INSERT INTO shop.t (note) VALUES ('tagged')")
        server.execute("SET binlog_transaction_compression = 1", "INSERT INTO shop.t (note) VALUES (REPEAT('x', 200))")
    else:
        server.execute("SET GLOBAL log_bin_compress = 1, GLOBAL log_bin_compress_min_len = 10")
        server.execute("INSERT INTO shop.t (note) VALUES (REPEAT('x', 200))", "SET GLOBAL log_bin_compress = 0")


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def logged(request: pytest.FixtureRequest) -> Iterator[StartedServer]:
    """A server with two log files that tests read and append to, and do nothing else with."""
    with own_servers() as make:
        server = make(request.param)
        workload(server)
        yield server


@pytest.fixture(params=["mysql", "mariadb"])
def worked(request: pytest.FixtureRequest, server_factory: ServerFactory) -> StartedServer:
    server = server_factory(request.param)
    workload(server)
    return server


@pytest.mark.mysql
def test_a_stream_gives_what_the_files_hold(logged: StartedServer) -> None:
    found = drained(logged)
    assert sent(found) == sent(files(logged))
    assert {chunk.file for chunk in found} == {"binlog.000001", "binlog.000002"}
    assert {chunk.file_number for chunk in found} == {1, 2}
    assert all(chunk.checksum for chunk in found)


@pytest.mark.mysql
def test_it_starts_at_any_position_of_the_log(logged: StartedServer) -> None:
    def untimed(entries: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [entry[:3] + entry[4:] for entry in entries if entry[2] != events.FORMAT_DESCRIPTION]

    every = sent(files(logged))
    for file, position in sorted({entry[:2] for entry in every})[::5]:
        later = [entry for entry in every if entry[:2] > (file, position)]
        assert untimed(sent(drained(logged, file=file, position=position))) == untimed(later)


@pytest.mark.mysql
def test_checksums_may_be_off(server_factory: ServerFactory) -> None:
    for flavor in ("mysql", "mariadb"):
        server = server_factory(flavor, extra_args=["--binlog-checksum=NONE"])
        workload(server)
        found = drained(server)
        assert sent(found) == sent(files(server))
        assert not any(chunk.checksum for chunk in found)
        middle = sent(found)[5][:2]
        inside = sent(drained(server, file=middle[0], position=middle[1]))
        assert [entry[:2] for entry in inside] == [entry[:2] for entry in sent(found) if entry[:2] > middle]
        first = "0-1-1" if flavor == "mariadb" else f"{server.execute('SELECT @@server_uuid')[0][0]}:1"
        assert sent(drained(server, gtid_set=first))[-1] == sent(found)[-1]


@pytest.mark.mysql
def test_by_gtid_from_nothing_from_the_middle_and_from_the_end(server_factory: ServerFactory) -> None:
    server = server_factory("mysql")
    assert names(drained(server, gtid_set="")) == {"FORMAT_DESCRIPTION": 1, "PREVIOUS_GTIDS": 1}  # an empty set, too
    workload(server)
    assert sent(drained(server, gtid_set="")) == sent(files(server))
    executed = GtidSet.parse(str(server.execute("SELECT @@GLOBAL.gtid_executed")[0][0]))
    assert "nightly" in str(executed)
    seen = GtidSet.parse(str(executed).partition(":")[0] + ":1-4:nightly:1")
    chunks = drained(server, gtid_set=str(seen))
    runs = [run for chunk in chunks for run in gtid_runs(chunk, 0, len(chunk))]
    assert GtidSet().add_all(runs) == executed.minus(seen)
    assert "XID" not in names(drained(server, gtid_set=str(executed)))


@pytest.mark.mysql
def test_by_gtid_of_mariadb(server_factory: ServerFactory) -> None:
    server = server_factory("mariadb")
    workload(server)
    every, found = sent(files(server)), sent(drained(server, gtid_set=""))
    head = every[: len(every) - len(found)]  # since 11.4 the server begins at the first transaction
    assert head + found == every
    assert {entry[2] for entry in head} <= {events.FORMAT_DESCRIPTION, events.MARIADB_GTID_LIST}
    last = str(server.execute("SELECT @@GLOBAL.gtid_binlog_pos")[0][0])
    assert "XID" not in names(drained(server, gtid_set=last))
    earlier = last.rpartition("-")[0] + "-4"
    assert names(drained(server, gtid_set=earlier))["MARIADB_GTID"] == int(last.rpartition("-")[2]) - 4


@pytest.mark.mysql
def test_tls(server_factory: ServerFactory) -> None:
    server = server_factory("mysql")
    workload(server)
    server.execute("INSERT INTO shop.t (body) VALUES (REPEAT('b', 3000000))")
    found = drained(server, connect={"ssl": {"check_hostname": False, "verify_mode": False}})
    assert sent(found) == sent(files(server))


@pytest.mark.mysql
def test_new_events_arrive_without_polling_and_silence_is_none(logged: StartedServer) -> None:
    with opened(logged.connect(), file="binlog.000002") as stream:
        assert names(arriving(stream, 0.3))["XID"] > 0
        assert stream.file == "binlog.000002"
        assert stream.version.startswith(logged.version)
        logged.execute("INSERT INTO shop.t (note) VALUES ('now')")
        seen: list[ReceiveBuffer] = []
        while "XID" not in names(seen):
            chunk = stream.read(LONG_S)
            assert chunk is not None
            seen.append(chunk)
        assert stream.position == int(seen[-1].end_position[-1])
        assert stream.read(0) is None


@pytest.mark.mysql
def test_a_read_that_waits_is_interrupted(logged: StartedServer) -> None:
    """With TLS too, which MariaDB has here none of."""
    tls = {"ssl": {"check_hostname": False, "verify_mode": False}} if logged.flavor == "mysql" else {}
    with opened(logged.connect(**tls), file="binlog.000002") as stream, ThreadPoolExecutor(1) as pool:
        ended = pool.submit(lambda: list(arriving(stream, 600.0)))
        stream.interrupt()
        with pytest.raises(SourceUnavailable, match=r"closed the connection|connection broke"):
            ended.result(LONG_S)


@pytest.mark.mysql
def test_little_more_is_received_than_was_asked_for(logged: StartedServer) -> None:
    logged.execute("FLUSH LOGS")
    start = files(logged)[-1]
    for _ in range(40):
        logged.execute("INSERT INTO shop.t (body) VALUES (REPEAT('b', 100000))")
    positions = [position for file, position, *_ in sent(files(logged)) if file == start.file]
    up_to = LogPosition(files(logged)[-1].file, positions[len(positions) // 4])
    with opened(logged.connect(), file=up_to.file) as stream:
        while stream.position < up_to.position:
            assert stream.read(LONG_S, up_to) is not None
        assert stream.position < positions[-1] / 2


@pytest.mark.mysql
def test_everything_comes_whatever_is_said_to_be_the_end(logged: StartedServer) -> None:
    last = sent(files(logged))[-1]
    for file, position in [(last[0], 4), (last[0], last[1] - 1), (last[0], 1 << 40), ("binlog.000001", 200)]:
        found: list[ReceiveBuffer] = []
        with opened(logged.connect(), until_end=True) as stream, pytest.raises(EndOfLog):
            found.extend(arriving(stream, LONG_S, LogPosition(file, position)))
        assert sent(found) == sent(files(logged))


@pytest.mark.mysql
def test_heartbeats_are_signs_of_life_and_no_data(logged: StartedServer) -> None:
    with opened(logged.connect(), heartbeat_s=0.5) as stream:
        assert names(arriving(stream, 0.3))["XID"] > 0
        before = stream.last_seen
        reads = (stream.read(1) for _ in range(20) if stream.last_seen == before)
        late = [chunk for chunk in reads if chunk is not None]
        assert stream.last_seen > before
        assert set(names(late)) <= {"MARIADB_BINLOG_CHECKPOINT"}  # written in the background


@pytest.mark.mysql
def test_a_purged_position_says_so(worked: StartedServer) -> None:
    worked.execute("FLUSH LOGS")
    # MariaDB keeps a file, silently, until its storage engines have let go of it.
    while worked.execute("SHOW BINARY LOGS")[0][0] == "binlog.000001":
        worked.execute("PURGE BINARY LOGS TO 'binlog.000002'")
    with pytest.raises(PositionLost, match="no longer has"):
        drained(worked, file="binlog.000001")
    with pytest.raises(PositionLost, match="no longer has"):
        drained(worked, gtid_set="")


@pytest.mark.mysql
@pytest.mark.parametrize("position", [1 << 30, (1 << 32) + 4])
def test_a_position_behind_the_end_of_the_file_says_so(logged: StartedServer, position: int) -> None:
    with pytest.raises(PositionLost):
        drained(logged, file="binlog.000001", position=position)


@pytest.mark.mysql
def test_a_server_that_dies_is_unavailable(worked: StartedServer) -> None:
    with opened(worked.connect()) as stream:
        assert stream.read(LONG_S) is not None
        worked.kill9()
        with pytest.raises(SourceUnavailable, match=r"root@127\.0\.0\.1:\d+ at binlog"):
            list(arriving(stream, LONG_S))


@pytest.mark.mysql
def test_encrypted_logs_are_read_from_the_server(server_factory: ServerFactory, tmp_path_factory: Any) -> None:
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("1;a7addd9adea9978fda19f21e6be987880e68ac92632ca052e5bb42b1a506939a\n")
    for folder in (keys.parent, keys.parent.parent, keys.parent.parent.parent):
        folder.chmod(0o755)
    options = [
        "--plugin-load-add=file_key_management", f"--file-key-management-filename={keys}", "--encrypt-binlog=1",
    ]  # fmt: skip
    server = server_factory("mariadb", extra_args=options)
    workload(server)
    assert names(drained(server))["XID"] >= 3
    every = flat(drained(server, file="binlog.000002"))
    for _, position, *_ in every[:4]:
        assert flat(drained(server, file="binlog.000002", position=position))[-1] == every[-1]
    with pytest.raises(UnsupportedChange, match="encrypted"):
        files(server)


@pytest.mark.mysql
@pytest.mark.slow
def test_events_of_16_mb_and_more(logged: StartedServer) -> None:
    """The size of the event runs over the packet limit byte by byte, then well beyond."""
    full = events.MAX_PACKET
    for size in (*range(full - 60, full - 40, 3), full, 2 * full + 5):
        logged.execute(f"INSERT INTO shop.t (body) VALUES (REPEAT('b', {size}))")
    assert sent(drained(logged)) == sent(files(logged))


class Peer:
    """A connection whose server side is the test: what is fed is what the stream receives."""

    def __init__(self) -> None:
        self._sock, self.far = socket.socketpair()
        self.open, self.host, self.port, self.user = True, "peer", 3306, b"u"

    def get_server_info(self) -> str:
        return "9.7.0"

    def close(self) -> None:
        self.open = False
        self._sock.close()
        self.far.close()


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    for name in ("prepare_session", "register", "start_dump"):
        monkeypatch.setattr(dump_command, name, lambda *_, **__: None)
    monkeypatch.setattr("connectors.mysql.log.stream.where_of", lambda _: "u@peer:3306")
    peer = Peer()
    yield peer
    if peer.open:
        peer.close()


def preamble(checksum: bool = True) -> list[bytes]:
    """The packets that open a stream in the middle of a file: a made-up ROTATE and a format description."""
    target = (4).to_bytes(8, "little") + b"binlog.000009"
    rotate = event(events.ROTATE, target, 0, stated=0, flags=events.FLAG_ARTIFICIAL)
    description = format_description(checksum, at=-19 - 57 - 42 - 1 - 4)
    return [rotate, description]


def stream_bytes(*parts: bytes) -> bytes:
    out, sequence = b"", 1
    for part in parts:
        out += packets(part, sequence)
        sequence += 1 + len(part) // events.MAX_PACKET
    return out


def fed(peer: Peer, data: bytes, *, end: bool = True) -> Callable[[], list[tuple[Any, ...]]]:
    peer.far.sendall(data)
    if end:
        peer.far.shutdown(socket.SHUT_WR)
    stream = BinlogStream(peer, server_id=1)  # type: ignore[arg-type]
    chunks: list[ReceiveBuffer] = []

    def read() -> list[tuple[Any, ...]]:
        while (chunk := stream.read(0.2)) is not None:
            chunks.append(chunk)
        return flat(chunks)

    return read


def xid(at: int, **options: Any) -> bytes:
    return event(events.XID, bytes(8), at, **options)


def test_positions_beyond_4_gib_do_not_wrap(peer: Peer) -> None:
    near = (1 << 32) - 100
    heartbeat = b"\x01\x0dbinlog.000009" + b"\x02\x09\xfe" + near.to_bytes(8, "little") + b"\0"
    beat = event(events.HEARTBEAT_V2, heartbeat, 0, stated=0)
    parts = [*preamble(), beat, xid(near), xid(near + 31), xid(near + 62), xid(near + 93), xid(near + 1000)]
    read = fed(peer, stream_bytes(*parts), end=False)
    assert [position - (1 << 32) for _, position, *_ in read()] == [-69, -38, -7, 24, 931]


def test_a_reader_does_not_register_where_its_record_would_outlive_it(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "get_server_info", lambda: "8.0.12")
    monkeypatch.setattr(dump_command, "register", lambda *_: pytest.fail("it registered"))
    BinlogStream(peer, server_id=7)  # type: ignore[arg-type]


def test_a_cut_inside_an_event_is_unavailable_after_what_came_before(peer: Peer) -> None:
    data = stream_bytes(*preamble(), xid(4), xid(35))
    stream = BinlogStream(peer, server_id=1)  # type: ignore[arg-type]
    peer.far.sendall(data[:-10])
    peer.far.shutdown(socket.SHUT_WR)
    chunk = stream.read(LONG_S)
    assert chunk is not None
    assert flat([chunk])[0][:3] == ("binlog.000009", 35, events.XID)
    with pytest.raises(SourceUnavailable, match=r"closed the connection inside an event"):
        stream.read(LONG_S)


@pytest.mark.parametrize("step", [1, 7, 30])
def test_packets_may_arrive_in_any_pieces(peer: Peer, step: int) -> None:
    data = stream_bytes(*preamble(), xid(4), xid(35))
    stream = BinlogStream(peer, server_id=1)  # type: ignore[arg-type]
    chunks = []
    for at in range(0, len(data), step):
        peer.far.sendall(data[at : at + step])
        chunk = stream.read(0)
        if chunk is not None:
            chunks.append(chunk)
    assert [position for _, position, *_ in flat(chunks)] == [35, 66]


ERROR = b"\xff" + (1236).to_bytes(2, "little") + b"#HY000binary log purged"


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (packets(xid(4), 1), CorruptLog, "does not begin with a format description"),
        (stream_bytes(*preamble(), xid(4)[:-1] + b"\0"), CorruptLog, "wrong checksum"),
        (stream_bytes(*preamble(), xid(4)[:20]), CorruptLog, "impossible length"),
        (stream_bytes(*preamble(), b""), CorruptLog, "impossible length"),
        (stream_bytes(*preamble()) + packets(xid(4), 9), CorruptLog, "packet out of sequence"),
        (stream_bytes(*preamble(), xid(4, stated=20)), CorruptLog, "contradicts the place"),
        (stream_bytes(*preamble()) + b"\x01\0\0\3\xfe", SourceUnavailable, "ended the replication stream"),
        (stream_bytes(*preamble()) + b"\0\0\0\3", SourceUnavailable, "ended the replication stream"),
        (len(ERROR).to_bytes(3, "little") + b"\1" + ERROR, PositionLost, "binary log purged"),
        (b"\x0b\0\0\1\xff\x01\x02#HY000no", SourceError, "no"),
    ],
)
def test_what_a_server_must_not_send(peer: Peer, data: bytes, kind: type[SourceError], message: str) -> None:
    with pytest.raises(kind, match=message):
        fed(peer, data, end=False)()


def test_silence_beyond_the_heartbeats_is_a_lost_connection(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.mysql.log.stream._LEAST_SILENCE_S", 0.0)
    stream = BinlogStream(peer, server_id=1, heartbeat_s=0.01)  # type: ignore[arg-type]
    with pytest.raises(SourceUnavailable, match="not even a heartbeat"):
        list(itertools.takewhile(lambda chunk: chunk is None, (stream.read(0.02) for _ in range(20))))
