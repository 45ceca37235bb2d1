"""What follows the end of a run, as a value."""

from __future__ import annotations

from cdc.errors import SinkUnavailable, SpecError
from cdc.serve.follow_up import FollowUp, RunPolicy
from cdc.spec.life import LifeOptions

NOON_S = 12 * 3600.0


def _policy(**options: object) -> RunPolicy:
    return RunPolicy(LifeOptions(**{name.replace("_", "."): value for name, value in options.items()}))


def test_a_source_with_an_end_is_finished() -> None:
    assert _policy().after_success(NOON_S, NOON_S + 60) == FollowUp(state="finished")


def test_a_schedule_has_its_next_time_after_success_and_after_the_last_try() -> None:
    policy = _policy(schedule="every 8 h", restart="none")
    assert policy.after_success(NOON_S, NOON_S + 60) == FollowUp("schedule", 16 * 3600.0)
    failed = policy.after_failure(SinkUnavailable("away"), batch=None, committed=False, now_s=NOON_S)
    assert (failed.why, failed.begins_s, failed.level) == ("schedule", 16 * 3600.0, "error")
    assert "is not restarted" in failed.message


def test_what_may_pass_is_tried_again_after_a_pause_and_what_a_file_says_wrongly_is_not() -> None:
    policy = _policy()
    again = policy.after_failure(SinkUnavailable("away"), batch=3, committed=True, now_s=NOON_S)
    assert (again.why, again.begins_s, again.level) == ("restart", None, "warning")
    assert again.pause_s is not None
    assert 0 < again.pause_s < 2
    never = policy.after_failure(SpecError("wrong"), batch=None, committed=False, now_s=NOON_S)
    assert (never.why, never.state) == (None, "failed")
