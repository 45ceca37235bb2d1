"""`cdc run` of a file with a restart strategy."""

from __future__ import annotations

import pytest

import cdc
from cdc.errors import EngineError, SourceUnavailable
from cdc.job.control import RunControl
from cdc.job.report import Reporter
from cdc.job.restarting import run_with_restarts
from cdc.retry import RetryPolicy

FILE = "source:\n  type: values\n  rows: []\nsink:\n  type: values\npipeline: {restart.fixed-delay.attempts: 2"
AWAY = SourceUnavailable("no connection")


class Attempts:
    """A run that fails with these errors, one after the other, and then ends well."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.controls = list(errors), list[RunControl]()

    def __call__(self, control: RunControl) -> int:
        self.controls.append(control)
        if self.errors:
            raise self.errors.pop(0)
        return 0


def run(attempts: Attempts, more: str) -> int:
    spec = cdc.load("p.yaml", text=FILE + more + "}\n").spec
    return run_with_restarts(spec, attempts, Reporter("text"), RetryPolicy(sleep=lambda seconds: None))


def test_it_runs_again_as_the_file_says_and_tells(capsys: pytest.CaptureFixture[str]) -> None:
    attempts = Attempts(AWAY, AWAY)
    assert run(attempts, ", restart: fixed-delay") == 0
    assert [control.again for control in attempts.controls] == [False, True, True]
    assert capsys.readouterr().err.count("failed, will be restarted in 1.0 s: no connection") == 2
    with pytest.raises(EngineError):
        run(Attempts(AWAY, AWAY, EngineError("the last one")), ", restart: fixed-delay")


def test_without_a_strategy_the_first_failure_ends_it() -> None:
    with pytest.raises(SourceUnavailable):
        run(Attempts(AWAY), "")


def test_a_stop_that_is_asked_for_while_it_waits_for_the_next_run_is_not_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    attempts, pauses = Attempts(AWAY, AWAY), list[float]()
    spec = cdc.load("p.yaml", text=FILE + ", restart: fixed-delay}\n").spec
    asked = lambda: len(pauses) > 1  # noqa: E731 - the answer of a state directory
    assert (
        run_with_restarts(spec, attempts, Reporter("text"), RetryPolicy(sleep=pauses.append), stop_requested=asked) == 0
    )
    assert len(attempts.controls) == 1
    assert "stopped between two runs" in "".join(capsys.readouterr())


def test_a_run_that_was_asked_to_stop_is_not_started_again() -> None:
    attempts = Attempts()

    def fail(control: RunControl) -> int:
        control.stop.set()
        attempts.controls.append(control)
        raise AWAY

    with pytest.raises(SourceUnavailable):
        run_with_restarts(cdc.load("p.yaml", text=FILE + ", restart: fixed-delay}\n").spec, fail, Reporter("text"))
    assert len(attempts.controls) == 1
