"""The follower's thread: order, reconnects, time-outs, back pressure, end of a bounded run, errors at their turn."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from fake_stream import FakeServer, FakeStream, Step
from log_script import chunk, insert, pieces
from test_segmenter import FILE, Tracker, ends, wanted
from waits import Waits

from cdc.errors import CorruptLog, PositionLost, SourceError, SourceUnavailable, UnsupportedChange
from cdc.retry import RetryPolicy
from cdc.source import Limits
from connectors.mysql.follow.follower import QUIET_S, Follower
from connectors.mysql.follow.segmenter import Segmenter
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import Segment
from connectors.mysql.log.stream import EndOfLog
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.same_server import AnotherServer

LONG_S = 60.0
SCRIPT = [*insert(1, "shop.t"), *insert(2, "shop.u", id_=2), *insert(3, "shop.t")]
ONE_BY_ONE = Limits(1, 1)
CUT = SourceUnavailable("the connection broke", where="db:3306")


def transactions(script: Any = SCRIPT) -> list[ReceiveBuffer]:
    """One chunk for each transaction of five events."""
    return list(pieces(chunk(script), range(5, len(script), 5)))


@contextmanager
def following(server: FakeServer, **options: Any) -> Iterator[Follower]:
    given = {"ahead_bytes": 1 << 20, "retry": Waits().policy, **options}
    segmenter = Segmenter(Tracker(), wanted, file=FILE, position=4, limits=ONE_BY_ONE)
    follower = Follower(server.open, segmenter, **given)  # type: ignore[arg-type]
    with patch("connectors.mysql.follow.follower.READ_S", 0.02):
        follower.start()
        try:
            yield follower
        finally:
            follower.stop()
            follower.join(LONG_S)
            assert not follower.is_alive()


def taken(follower: Follower, count: int, limits: Limits | None = ONE_BY_ONE) -> list[int]:
    """End positions of the next `count` segments."""
    found: list[Segment] = []
    while len(found) < count:
        batch = follower.poll(limits, LONG_S)
        assert batch, "nothing came"
        found += batch
    return [segment.position for segment in found]


def waited(event: threading.Event) -> None:
    assert event.wait(LONG_S)


def test_segments_come_in_log_order() -> None:
    with following(FakeServer(FakeStream([None, *transactions(), None]))) as follower:
        assert taken(follower, 3) == ends(SCRIPT, 4, 9, 14)
        assert follower.poll(None, 0.0) == []
        assert follower.waiting[0] == 0


def test_it_goes_on_behind_the_last_event_after_a_cut() -> None:
    first, second, third = transactions()
    half = list(pieces(second, [2]))  # the connection is cut inside the transaction
    server = FakeServer(
        FakeStream([first, half[0], CUT]), SourceUnavailable("refused"), FakeStream([half[1], third])
    )  # fmt: skip
    with following(server) as follower:
        assert taken(follower, 3) == ends(SCRIPT, 4, 9, 14)
    assert server.opened == [(FILE, 4, False), (FILE, ends(SCRIPT, 6)[0], False), (FILE, ends(SCRIPT, 6)[0], False)]


def test_what_cannot_be_read_is_asked_for_once_more() -> None:
    first, second, third = transactions()
    damaged = CorruptLog("a wrong checksum")
    server = FakeServer(FakeStream([first, damaged]), FakeStream([second, damaged]), FakeStream([damaged, third]))
    with following(server) as follower:
        assert taken(follower, 2) == ends(SCRIPT, 4, 9)
        with pytest.raises(CorruptLog):
            follower.poll(None, LONG_S)
    lost = FakeServer(FakeStream([first, damaged]), PositionLost("the server's log was reset"))
    with following(lost) as follower:
        taken(follower, 1)
        with pytest.raises(PositionLost):
            follower.poll(None, LONG_S)


def test_a_stream_that_stays_silent_while_the_log_goes_on_is_opened_again() -> None:
    first, second, third = transactions()
    server, elsewhere = FakeServer(FakeStream([first]), FakeStream([second, third])), [True, False, True, True]
    with (
        patch("connectors.mysql.follow.follower.SILENCE_S", 0.0),
        following(server, ends_elsewhere=lambda here: bool(elsewhere) and elsewhere.pop(0)) as follower,
    ):
        assert taken(follower, 3) == ends(SCRIPT, 4, 9, 14)
    assert elsewhere == []


def test_streams_are_closed() -> None:
    streams = [FakeStream([*transactions()[:1], CUT]), FakeStream([*transactions()[1:]])]
    with following(FakeServer(*streams)) as follower:
        taken(follower, 3)
    assert all(stream.closed for stream in streams)


def test_while_the_server_is_away_the_user_is_told() -> None:
    here = threading.Event()

    def refuse(at: LogPosition, until_end: bool) -> Any:
        if len(calls) > 1:
            here.set()
        calls.append(at)
        raise CUT

    calls: list[LogPosition] = []
    segmenter = Segmenter(Tracker(), wanted, file=FILE, position=4)
    follower = Follower(refuse, segmenter, ahead_bytes=1, retry=RetryPolicy(LONG_S, first_pause_s=0.01))
    follower.start()
    waited(here)
    assert follower.note == "waiting for the server: the connection broke"
    follower.stop()
    follower.join(LONG_S)


class Clock:
    """Goes on by `step` seconds each time it is asked, once it is let go."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_a_server_that_stays_away_ends_the_run() -> None:
    server, waits = FakeServer(*[CUT] * 100), Waits()
    with following(server, retry=waits.policy) as follower:
        with pytest.raises(SourceUnavailable, match="the connection broke"):
            follower.poll(None, LONG_S)
        assert waits.total_s == pytest.approx(600)


def test_an_hour_of_silence_between_two_cuts_is_not_an_hour_of_absence() -> None:
    clock = Clock(0.0)

    def an_hour_later() -> Step:
        clock.now += 3600.0
        return CUT

    server = FakeServer(CUT, FakeStream([None], an_hour_later), FakeStream(transactions()))
    with following(server, clock=clock) as follower:
        assert taken(follower, 1) == ends(SCRIPT, 4)
    assert len(server.opened) == 3


def test_with_much_waiting_it_does_not_read_on() -> None:
    asked = threading.Event()

    def unexpected() -> Step:
        asked.set()
        return None

    server = FakeServer(FakeStream(transactions()[:1], unexpected))
    with following(server, ahead_bytes=0) as follower:
        assert not asked.wait(0.2)
        taken(follower, 1)
        waited(asked)


def test_an_error_comes_after_everything_read_before_it() -> None:
    refused = UnsupportedChange("an incident", where="binlog.000001:9")
    with following(FakeServer(FakeStream([*transactions(), refused]))) as follower:
        assert taken(follower, 3) == ends(SCRIPT, 4, 9, 14)
        for _ in range(2):  # and every time after that
            with pytest.raises(UnsupportedChange, match="an incident"):
                follower.poll(None, LONG_S)


def test_an_unexpected_error_becomes_one_that_names_it() -> None:
    with (
        following(FakeServer(FakeStream([ZeroDivisionError("oops")]))) as follower,
        pytest.raises(SourceError, match=r"reading the log failed: ZeroDivisionError\('oops'\)"),
    ):
        follower.poll(None, LONG_S)


@pytest.mark.parametrize("end", [[EndOfLog()], []])
def test_a_bounded_follower_ends_behind_its_position(end: list[Step]) -> None:
    until = LogPosition(FILE, ends(SCRIPT, 9)[0])
    server = FakeServer(FakeStream([None, *transactions()[:2], *end], unread))
    with following(server, until=until) as follower:
        # It waits for its end, not for a time.
        assert [follower.poll(ONE_BY_ONE, 0.0)[0].position for _ in range(2)] == ends(SCRIPT, 4, 9)
        assert follower.poll(ONE_BY_ONE, 0.0) == []
    assert server.opened == [(FILE, 4, True)]


def unread() -> Step:
    return AssertionError("read on after the end")


def test_a_bounded_follower_at_its_end_reads_nothing() -> None:
    server = FakeServer(FakeStream([], unread))
    with following(server, until=LogPosition(FILE, 4)) as follower:
        assert follower.poll(None, 0.0) == []


def test_a_bounded_follower_delivers_what_concerns_nobody() -> None:
    script = [*insert(1, "else.x"), *insert(2, "else.x")]
    server = FakeServer(FakeStream([chunk(script), EndOfLog()]))
    with following(server, until=LogPosition(FILE, ends(script, -1)[0])) as follower:
        (found,) = follower.poll(None, 0.0)
        assert (found.position, found.relevant) == (ends(script, -1)[0], False)


def test_what_concerns_nobody_never_blocks_what_follows() -> None:
    script = [*insert(1, "else.x"), *insert(2, "else.x"), *insert(3, "shop.t")]
    with following(FakeServer(FakeStream(transactions(script))), ahead_bytes=0, clock=Clock(0.0)) as follower:
        assert taken(follower, 3) == ends(script, 4, 9, 14)


def test_what_concerns_nobody_moves_the_offset_now_and_then() -> None:
    script = [*insert(1, "else.x"), *insert(2, "else.x")]
    clock, read = Clock(0.0), threading.Event()

    def done() -> Step:
        read.set()
        return None

    with following(FakeServer(FakeStream([chunk(script)], done)), clock=clock) as follower:
        waited(read)
        clock.now = QUIET_S / 2
        assert follower.poll(None, 0.0) == []
        clock.now = QUIET_S
        assert [segment.position for segment in follower.poll(None, 0.0)] == ends(script, -1)


def test_take_waits_for_what_is_on_its_way() -> None:
    gate = threading.Event()

    def when_asked() -> Step:
        waited(gate)
        return next(steps, None)

    steps: Iterator[Step] = itertools.chain(transactions())
    with following(FakeServer(FakeStream([], when_asked))) as follower:
        assert follower.poll(None, 0.0) == []
        opener = threading.Timer(0.05, gate.set)
        opener.start()
        assert follower.poll(ONE_BY_ONE, LONG_S)[0].position == ends(SCRIPT, 4)[0]
        opener.join()


def test_a_bounded_wait_for_a_server_that_is_gone_ends_when_it_is_stopped() -> None:
    asked = threading.Event()

    def refuse(at: LogPosition, until_end: bool) -> Any:
        asked.set()
        raise CUT

    segmenter = Segmenter(Tracker(), wanted, file=FILE, position=4)
    follower = Follower(refuse, segmenter, ahead_bytes=1, until=LogPosition(FILE, 99))
    follower.start()
    waited(asked)
    stopper = threading.Timer(0.05, follower.stop)
    stopper.start()
    assert follower.poll(None, 0.0) == []
    stopper.join(LONG_S)
    follower.join(LONG_S)
    assert not follower.is_alive()


def test_another_server_is_told_at_once_as_what_waits_is_of_no_use() -> None:
    server = FakeServer(FakeStream([*transactions(), CUT]), AnotherServer("moved"))
    with following(server) as follower:
        follower.join(LONG_S)
        assert follower.waiting[0]
        with pytest.raises(AnotherServer):
            follower.poll(ONE_BY_ONE, LONG_S)


def test_a_log_that_ends_before_the_end_that_was_named_is_read_again() -> None:
    """A bounded run has caught up at the end that the server has named, not where a connection says that it is over."""
    first, second, third = transactions()
    server = FakeServer(FakeStream([first, EndOfLog()]), FakeStream([second, third, EndOfLog()]))
    until = LogPosition(FILE, ends(SCRIPT, 14)[0])
    with following(server, until=until) as follower:
        assert taken(follower, 3) == ends(SCRIPT, 4, 9, 14)


def test_an_end_that_is_reached_inside_of_a_transaction_is_not_the_end() -> None:
    """As in the first of several buffers of a compressed transaction, whose events all have its end position."""
    first, second, _ = transactions()
    head, tail = pieces(second, [2])
    head = replace(head, end_position=np.full(len(head), tail.end_position[-1]))
    server = FakeServer(FakeStream([first, head, tail, EndOfLog()]))
    with following(server, until=LogPosition(FILE, int(tail.end_position[-1]))) as follower:
        assert taken(follower, 2) == ends(SCRIPT, 4, 9)
