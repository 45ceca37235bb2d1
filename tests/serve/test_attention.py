"""When a pipeline needs a person: the rule behind the page, the list, `cdc_up` and notifications."""

from __future__ import annotations

from together import together

from cdc.serve.attention import Streak, Waiting, reason, streak
from cdc.serve.control import Outcome, RunView


def run(began: float, ended: float | None, outcome: Outcome | None, batches: int = 0) -> RunView:
    return RunView(began, ended, outcome, "restart", batches=batches)


def failed(at: float, batches: int = 0, length: float = 1.0) -> RunView:
    return run(at - length, at, "failed", batches)


UNDER_WAY = run(1_000.0, None, None)


@together(
    "runs, expected",
    [
        ([], Streak()),
        ([failed(9), failed(5)], Streak(2, 5)),
        ([UNDER_WAY, failed(9)], Streak(1, 9)),
        ([run(1_000, None, None, 1), failed(9)], Streak()),
        ([failed(9), run(3, 6, "stopped"), failed(2)], Streak(2, 2)),
        ([failed(9), run(3, 6, "lost"), run(6, 6, "skipped"), failed(2)], Streak(2, 2)),
        ([failed(9), run(3, 6, "stopped", 4), failed(2)], Streak(1, 9)),
        ([failed(9), run(3, 6, "finished"), failed(2)], Streak(1, 9)),
        ([failed(9, batches=2), failed(5, batches=2)], Streak(2, 5)),
        ([failed(90_000, batches=2, length=40_000), failed(5)], Streak(1, 90_000)),
    ],
)
def test_failures_in_a_row(runs: list[RunView], expected: Streak) -> None:
    assert streak(runs) == expected


def test_what_waits_for_its_next_try_needs_attention_after_five_minutes_or_three_failures() -> None:
    assert reason("waiting", [failed(1_000)], Waiting(), 1_299.0) == ""
    assert reason("waiting", [failed(1_000)], Waiting(), 1_300.0) == "failing for 5 min"
    assert reason("running", [UNDER_WAY, failed(1_000)], Waiting(), 9_000.0) == "failing for 2 h"
    assert reason("waiting", [failed(1_002), failed(1_001), failed(1_000)], Waiting(), 1_003.0) == (
        "failed 3 times in a row"
    )


def test_a_run_that_reads_for_a_minute_has_recovered_though_there_was_nothing_to_commit() -> None:
    failures = [UNDER_WAY, failed(999), failed(990), failed(980)]
    reads = Waiting().after(running=True, note="", now_s=1_010.0)
    assert reason("running", failures, reads, 1_069.0) == "failed 3 times in a row"
    assert reason("running", failures, reads.after(running=True, note="", now_s=1_060.0), 1_070.0) == ""


def test_a_run_that_waits_for_its_server_needs_attention_after_five_minutes() -> None:
    waits = Waiting().after(running=True, note="no connection to db:3306", now_s=1_000.0)
    waits = waits.after(running=True, note="no connection to db:3306", now_s=1_200.0)
    assert reason("running", [UNDER_WAY], waits, 1_299.0) == ""
    assert reason("running", [UNDER_WAY], waits, 1_300.0) == "waits for 5 min: no connection to db:3306"
    assert waits.after(running=True, note="", now_s=1_400.0) == Waiting(1_400.0)


def test_what_is_over_for_good_and_what_was_stopped() -> None:
    failures = [failed(3), failed(2), failed(1)]
    assert reason("failed", [failed(1)], Waiting(), 2.0) == "failed"
    assert reason("invalid", [], Waiting(), 0.0) == "invalid file"
    assert reason("stopped", failures, Waiting(), 9_000.0) == ""
