"""The one retry policy: retryable errors are tried again with growing pauses, until the time is up or a stop."""

from __future__ import annotations

import pytest

from cdc.errors import SinkError, SinkUnavailable
from cdc.retry import RetryPolicy


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def policy(time: Time, **fields: object) -> RetryPolicy:
    return RetryPolicy(clock=time.clock, sleep=time.sleep, **fields)  # type: ignore[arg-type]


def test_a_retryable_error_is_tried_again_until_it_works() -> None:
    time, failures = Time(), [SinkUnavailable("away")] * 3

    def attempt() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert policy(time).call(attempt, "commit") == "done"
    assert time.now == pytest.approx(0.1 + 0.2 + 0.4)


def test_an_error_that_is_final_is_raised_at_once() -> None:
    time = Time()
    with pytest.raises(SinkError):
        policy(time).call(lambda: _raise(SinkError("no")), "commit")
    assert time.now == 0.0


def test_the_last_error_is_raised_when_the_time_is_up() -> None:
    time = Time()
    with pytest.raises(SinkUnavailable):
        policy(time, timeout_s=30.0).call(lambda: _raise(SinkUnavailable("away")), "commit")
    assert time.now == pytest.approx(30.0)


def test_a_stop_ends_a_pause_at_its_next_look() -> None:
    time = Time()
    stopping = policy(time, stopping=lambda: time.now >= 5.0)
    with pytest.raises(SinkUnavailable):
        stopping.call(lambda: _raise(SinkUnavailable("away")), "commit")
    assert 5.0 <= time.now <= 5.3


@pytest.mark.parametrize(("own_s", "limit_s"), [(60.0, 60.0), (20.0, 30.0)])
def test_a_wait_around_another_one_does_not_begin_anew(own_s: float, limit_s: float) -> None:
    """The engine's around a sink's: they added up."""
    time = Time()
    inner, outer = policy(time, timeout_s=own_s), policy(time, timeout_s=30.0)
    with pytest.raises(SinkUnavailable):
        outer.call(lambda: inner.call(lambda: _raise(SinkUnavailable("away")), "a session"), "commit")
    assert limit_s <= time.now < limit_s + own_s / 2 + 1


def _raise(error: Exception) -> None:
    raise error
