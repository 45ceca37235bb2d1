"""A signal while what earlier runs decided is committed, and the sink does not answer."""

from __future__ import annotations

import io

import pytest
from together import together

from cdc.errors import CdcError, CommitUnknown, SinkError, SinkUnavailable
from cdc.job.first_checks import finish_earlier_runs
from cdc.job.report import Reporter
from cdc.process.signals import Signals


@together(
    "stopping, error, ends",
    [(True, SinkUnavailable("no front end"), True), (True, CommitUnknown("no answer"), True),
     (True, SinkError("refused"), False), (False, SinkUnavailable("no front end"), False)],
)  # fmt: skip
def test_a_stop_while_earlier_decisions_are_committed_says_so(stopping: bool, error: CdcError, ends: bool) -> None:
    signals, out = Signals(), io.StringIO()
    steps: list[str] = []

    def waits() -> None:
        if stopping:
            signals.stop.set()
        raise error

    given = (lambda: steps.append("looked"), waits, lambda: steps.append("never"))
    if ends:
        assert not finish_earlier_runs(given, signals, Reporter("text", out=out, err=out))
        assert "earlier runs decided were being committed; the next run commits them" in out.getvalue()
    else:
        with pytest.raises(type(error)):
            finish_earlier_runs(given, signals, Reporter("text", out=out, err=out))
    assert steps == ["looked"]
