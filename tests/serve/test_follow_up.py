"""What follows the end of a run, as a value."""

from __future__ import annotations

from cdc.errors import SinkUnavailable, SpecError
from cdc.restarts import Restarts
from cdc.serve.follow_up import FollowUp, after_failure, after_success
from cdc.serve.times import Times
from cdc.spec.life import LifeOptions, restart_policy

NOON_S = 12 * 3600.0


def _life(**options: object) -> tuple[Restarts, Times]:
    made = LifeOptions(**{name.replace("_", "."): value for name, value in options.items()})
    return Restarts(restart_policy(made, "exponential-delay")), Times(made)


def test_a_source_with_an_end_is_finished() -> None:
    assert after_success(_life()[1], NOON_S, NOON_S + 60) == FollowUp(state="finished")


def test_a_schedule_has_its_next_time_after_success_and_after_the_last_try() -> None:
    restarts, times = _life(schedule="every 8 h", restart="none")
    assert after_success(times, NOON_S, NOON_S + 60) == FollowUp("schedule", 16 * 3600.0)
    failed = after_failure(SinkUnavailable("away"), restarts, times, batch=None, committed=False, now_s=NOON_S)
    assert (failed.why, failed.begins_s, failed.level) == ("schedule", 16 * 3600.0, "error")
    assert "is not restarted" in failed.message


def test_what_may_pass_is_tried_again_after_a_pause_and_what_a_file_says_wrongly_is_not() -> None:
    restarts, times = _life()
    again = after_failure(SinkUnavailable("away"), restarts, times, batch=3, committed=True, now_s=NOON_S)
    assert (again.why, again.begins_s, again.level) == ("restart", None, "warning")
    assert again.pause_s is not None
    assert 0 < again.pause_s < 2
    never = after_failure(SpecError("wrong"), restarts, times, batch=None, committed=False, now_s=NOON_S)
    assert (never.why, never.state) == (None, "failed")
