"""What follows a failed run, by strategy and by error."""

from __future__ import annotations

import pytest
from together import together

from cdc.errors import CdcError, EngineError, SourceUnavailable, SpecError, StateError, TransformError
from cdc.restarts import RestartPolicy, Restarts, Strategy

AWAY = SourceUnavailable("no connection")
STRANGE = EngineError("KeyError: 'x'")


def delays(policy: RestartPolicy, *failures: tuple[CdcError, float]) -> list[float | None]:
    """The pauses after failures at these times, with the middle of what is left to chance."""
    restarts = Restarts(policy, chance=lambda: 0.5)
    return [restarts.plan(error, batch=None, committed=False, now_s=now_s) for error, now_s in failures]


def test_pauses_grow_to_the_longest_and_begin_anew_after_a_quiet_time() -> None:
    policy = RestartPolicy(first_backoff_s=10, longest_backoff_s=30, backoff_factor=2, backoff_reset_s=100)
    found = delays(policy, *((AWAY, at_s) for at_s in (0, 20, 60, 100, 140, 300)))
    assert found == [10, 20, 30, 30, 30, 10]


def test_a_pause_is_left_to_chance_by_a_tenth() -> None:
    for chance, expected in ((0.0, 0.9), (1.0, 1.1)):
        restarts = Restarts(RestartPolicy(), chance=lambda found=chance: found)  # type: ignore[misc]
        assert restarts.plan(AWAY, batch=None, committed=False, now_s=0) == pytest.approx(expected)


def test_a_fixed_number_of_restarts_counts_from_the_last_committed_batch() -> None:
    restarts = Restarts(RestartPolicy("fixed-delay", fixed_attempts=2, fixed_delay_s=5))
    found = [restarts.plan(AWAY, batch=7, committed=committed, now_s=0) for committed in (False, False, True, False)]
    assert found == [5, 5, 5, 5]
    assert restarts.plan(AWAY, batch=7, committed=False, now_s=0) is None
    assert (restarts.given_up, restarts.hopeless) == ("restarted as often as fixed-delay allows", False)


def test_more_failures_in_an_interval_than_are_allowed_end_it() -> None:
    policy = RestartPolicy("failure-rate", most_failures=2, failure_interval_s=60, failure_delay_s=3)
    assert delays(policy, (AWAY, 0), (AWAY, 50), (AWAY, 70), (AWAY, 80)) == [3, 3, 3, None]


@together("strategy", ["none", "fixed-delay", "exponential-delay", "failure-rate"])
@together("error", [SpecError([]), TransformError("a value")])
def test_what_the_next_run_would_meet_again_is_not_restarted(strategy: Strategy, error: CdcError) -> None:
    restarts = Restarts(RestartPolicy(strategy))
    assert restarts.plan(error, batch=3, committed=True, now_s=0) is None
    assert restarts.hopeless


def test_none_is_none() -> None:
    assert delays(RestartPolicy("none"), (AWAY, 0)) == [None]


def test_a_batch_that_fails_again_and_again_ends_it_unless_something_was_away_or_a_disk_was_full() -> None:
    restarts = Restarts(RestartPolicy(same_batch_attempts=3))
    for error in (STRANGE, STRANGE, AWAY, *[StateError("full")] * 4, STRANGE, STRANGE):
        assert restarts.plan(error, batch=9, committed=False, now_s=0) is not None
    assert restarts.plan(STRANGE, batch=9, committed=False, now_s=0) is None
    assert (restarts.given_up, restarts.hopeless) == ("3 runs failed in batch 9", True)
    restarts.forget()
    for batch in (9, 9, 10, 10, 11):
        assert restarts.plan(STRANGE, batch=batch, committed=False, now_s=0) is not None
