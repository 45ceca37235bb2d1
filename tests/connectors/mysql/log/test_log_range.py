"""A part of the log read by a task: every event once, whatever breaks, and never past its end."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import waits
from binlog_builder import Event, flat
from fake_stream import FakeServer, FakeStream
from log_script import BEGIN, COMMIT, XID, chunk, insert, pieces, rows, seen, sql, table_map
from servers import ServerFactory
from together import together
from waits import Waits

from cdc.errors import CorruptLog, PositionLost, SourceUnavailable
from cdc.retry import RetryPolicy
from cdc_services.server import StartedServer
from connectors.mysql import events
from connectors.mysql.log.log_range import LogRange, read_range, within
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.stream import BinlogStream
from connectors.mysql.server.positions import LogPosition

FILE, NEXT = "binlog.000001", "binlog.000002"
CUT = SourceUnavailable("the connection broke")
SCRIPT = [*insert(1, "shop.t"), *insert(2, "shop.t"), *insert(3, "shop.t")]


@cache
def script() -> ReceiveBuffer:
    """The events, made by a kernel that not every process needs."""
    return chunk(SCRIPT)


def at(index: int, whole: ReceiveBuffer | None = None) -> LogPosition:
    """The position after an event."""
    found = script() if whole is None else whole
    return LogPosition(found.file, int(found.end_position[index]))


def part(first: int, last: int, whole: ReceiveBuffer | None = None) -> ReceiveBuffer:
    return (script() if whole is None else whole).part(first, last)


def read(wanted: LogRange, server: FakeServer, retry: RetryPolicy | None = None) -> list[ReceiveBuffer]:
    return list(read_range(wanted, server.open, retry or waits.none()))  # type: ignore[arg-type]


def same(found: Iterable[ReceiveBuffer], *wanted: ReceiveBuffer) -> bool:
    return flat(found) == flat(wanted)


def test_it_ends_exactly_at_its_end() -> None:
    server = FakeServer(FakeStream([part(5, 15)]))
    assert same(read(LogRange(at(4), at(9), 0), server), part(5, 10))
    assert server.opened == [(FILE, at(4).position, False)]


def test_an_empty_range_asks_nobody() -> None:
    assert read(LogRange(at(4), at(4), 0), FakeServer()) == []


def test_each_event_comes_once_however_often_the_connection_breaks() -> None:
    chance = random.Random(3)
    for _ in range(50):
        streams: list[FakeStream | Exception] = []
        done = 0
        while done < len(script()):
            upto = chance.randrange(done + 1, len(script()) + 1)
            cuts = sorted(chance.sample(range(done + 1, upto), min(2, max(0, upto - done - 1))))
            edges = [done, *cuts, upto]
            steps = [part(low, high) for low, high in pairwise(edges)]
            streams.append(FakeStream([*steps, None if chance.random() < 0.3 else CUT]))
            if chance.random() < 0.2:
                streams.append(CUT)
            done = upto
        server = FakeServer(*streams)
        found = read(LogRange(LogPosition(FILE), at(-1), 0), server, Waits().policy)
        assert same(found, script())
        assert [position for _, position, _ in server.opened] == sorted(position for _, position, _ in server.opened)


def test_the_time_that_a_server_may_be_away_starts_over_with_every_event() -> None:
    gone, tries = Waits(), 100
    with pytest.raises(SourceUnavailable, match="the connection broke"):
        read(LogRange(LogPosition(FILE), at(-1), 0), FakeServer(*[CUT] * tries), gone.policy)
    assert gone.total_s == pytest.approx(600)
    cuts = [CUT] * 30  # 400 s
    twice = [*cuts, FakeStream([part(0, 5), CUT]), *cuts, FakeStream([part(5, 15)])]
    back = Waits()
    assert same(read(LogRange(LogPosition(FILE), at(-1), 0), FakeServer(*twice), back.policy), script())
    assert back.total_s > 600


def test_a_run_that_is_to_stop_waits_for_no_server() -> None:
    policy = RetryPolicy(stopping=lambda: True)
    with pytest.raises(SourceUnavailable, match="the connection broke"):
        read(LogRange(LogPosition(FILE), at(-1), 0), FakeServer(CUT), policy)


def test_a_purged_log_is_not_tried_again() -> None:
    with pytest.raises(PositionLost):
        read(LogRange(LogPosition(FILE), at(-1), 0), FakeServer(PositionLost("purged")))


def test_streams_are_closed_also_when_the_reader_stops_early() -> None:
    stream = FakeStream([part(0, 5), part(5, 15)])
    chunks = read_range(LogRange(LogPosition(FILE), at(-1), 0), FakeServer(stream).open)  # type: ignore[arg-type]
    assert len(next(chunks)) == 5
    chunks.close()  # type: ignore[attr-defined]
    assert stream.closed


def test_a_range_may_span_files() -> None:
    second = chunk(insert(4, "shop.t"), NEXT)
    server = FakeServer(FakeStream([part(5, 15), CUT]), FakeStream([second, part(0, 5, second)]))
    assert same(read(LogRange(at(4), at(-1, second), 0), server, Waits().policy), part(5, 15), second)
    assert server.opened[1][:2] == (FILE, at(-1).position)


def test_without_its_end_the_log_is_another() -> None:
    middle = LogPosition(FILE, at(9).position + 1)
    with pytest.raises(CorruptLog, match=f"no event ends at {middle}"):
        read(LogRange(at(4), middle, 0), FakeServer(FakeStream([part(5, 15)])))
    second = chunk(insert(4, "shop.t"), NEXT)
    with pytest.raises(CorruptLog, match=rf"the log continues in {NEXT} before {FILE}:99999 came"):
        read(LogRange(at(4), LogPosition(FILE, 99_999), 0), FakeServer(FakeStream([part(5, 15), second])))
    beyond = LogRange(at(4), LogPosition(FILE, at(9).position - 1), 0)
    with pytest.raises(CorruptLog, match="no event ends at"):
        read(beyond, FakeServer(FakeStream([part(5, 9), part(9, 10)])))


def payload_log() -> ReceiveBuffer:
    """Two transactions; the events of the second but its GTID came out of one compressed payload."""
    inner = [BEGIN, table_map(1, "shop.t"), rows(1), sql("SAVEPOINT `a`"), rows(1), rows(1), XID]
    whole = chunk([*insert(1, "shop.t"), seen(2), *inner, *insert(3, "shop.t")])
    whole.end_position[6:13] = whole.end_position[12]
    return whole


@together("cut", range(7, 13))
def test_a_payload_in_several_chunks_is_read_to_its_end(cut: int) -> None:
    whole = payload_log()
    server = FakeServer(FakeStream([part(5, cut, whole), part(cut, 13, whole), part(13, 18, whole)]))
    assert same(read(LogRange(at(4, whole), at(12, whole), 0), server), part(5, 13, whole))


@together(
    "script",
    [
        [seen(2), BEGIN, table_map(1, "shop.t"), rows(1), COMMIT],
        [seen(2), BEGIN, sql("ROLLBACK")],
        [seen(2), sql("ALTER TABLE shop.t ADD a INT")],
        [seen(2), sql("FLUSH TABLES")],
        [seen(2), sql("XA START X'78',X'',1"), rows(1), (events.XA_PREPARE, bytes(13))],
    ],
)
def test_a_range_ends_with_whatever_ends_a_transaction(script: Sequence[Event]) -> None:
    whole = chunk([*insert(1, "shop.t"), *script])
    wanted = LogRange(at(4, whole), at(-1, whole), 0)
    assert within(wanted, part(5, len(whole), whole))[1]
    server = FakeServer(FakeStream(list(pieces(part(5, len(whole), whole))), lambda: AssertionError("it went on")))
    assert same(read(wanted, server), part(5, len(whole), whole))


@pytest.mark.mysql
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_real_log_read_with_cuts_after_every_event_is_the_same(flavor: str, server_factory: ServerFactory) -> None:
    server = server_factory(flavor)
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, note VARCHAR(99))")
    server.execute("INSERT INTO shop.t VALUES (1, 'a'), (2, 'b')", "UPDATE shop.t SET note = 'c'", "FLUSH LOGS")
    server.execute("DELETE FROM shop.t WHERE id = 1")
    end = log_end(server)
    whole = list(read_range(LogRange(LogPosition("binlog.000001"), end, 0), opener(server), waits.none()))
    opened = 0

    def open_broken(position: LogPosition) -> BinlogStream:
        nonlocal opened
        opened += 1
        return OneEvent(opener(server)(position))  # type: ignore[return-value]

    again = list(read_range(LogRange(LogPosition("binlog.000001"), end, 0), open_broken, Waits().policy))

    def untimed(chunks: Iterable[ReceiveBuffer]) -> list[tuple[object, ...]]:
        # After the transaction's GTID event its commit time is not known: the event's own second stands in.
        control = (events.FORMAT_DESCRIPTION, events.PREVIOUS_GTIDS, events.MARIADB_GTID_LIST)
        return [(*entry[:3], *entry[4:]) for entry in flat(chunks) if entry[2] not in control]

    assert opened > 12
    assert untimed(again) == untimed(whole)


class OneEvent:
    """A stream that breaks after its first event."""

    def __init__(self, stream: BinlogStream) -> None:
        self._stream, self._left = stream, 1
        self.file, self.position = "", 4

    def read(self, timeout_s: float, up_to: LogPosition | None = None) -> ReceiveBuffer | None:
        while self._left:
            chunk = self._stream.read(timeout_s, up_to)
            assert chunk is not None
            events_left = np.flatnonzero(chunk.type != events.FORMAT_DESCRIPTION)
            if len(events_left):
                self._left = 0
                return chunk.part(0, int(events_left[0]) + 1)
        raise CUT

    def close(self) -> None:
        self._stream.close()


def opener(server: StartedServer):  # type: ignore[no-untyped-def]
    def open_stream(at: LogPosition) -> BinlogStream:
        return BinlogStream(server.connect(), server_id=777, file=at.file, position=at.position)

    return open_stream


def log_end(server: StartedServer) -> LogPosition:
    statement = "SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS"
    file, position, *_ = server.execute(statement)[0]
    return LogPosition(str(file), int(position))
