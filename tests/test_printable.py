"""Names and server messages cannot move the cursor, turn text around, fake lines, or fill the screen."""

from __future__ import annotations

import io
import json

import pytest

from cdc.cli.output import complain
from cdc.errors import Problem, SourceError, SpecError
from cdc.job.report import Reporter
from cdc.printable import LONGEST, printable
from cdc.progress import ProgressTotals, TableTotals
from cdc.schema import TableId

EVIL = "or\x1b[2Jders\u202e\x00\x9b31m\u2066\r\x07"
HARMFUL = ("\x1b", "\u202e", "\x00", "\x9b", "\u2066", "\r", "\x07")


def harmless(text: str) -> bool:
    return not any(character in text for character in HARMFUL)


def test_control_and_direction_characters_are_escaped_and_what_people_write_is_not() -> None:
    assert printable(EVIL) == r"or\x1b[2Jders\u202e\x00\x9b31m\u2066\x0d\x07"
    assert printable("häuser 日本 \U0001f600 שלום\ttab") == "häuser 日本 \U0001f600 שלום\ttab"
    assert printable("\ud800") == r"\ud800"


def test_a_long_text_loses_its_middle() -> None:
    text = printable("begin " + "x" * 5000 + " end")
    assert len(text) < LONGEST + 50
    assert text.startswith("begin xxx")
    assert text.endswith("xxx end")
    assert "4,510 characters left out" in text


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_lines_and_the_summary(log_format: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    reporter = Reporter(log_format, out, err)
    reporter.line(f"added {EVIL}\n12:00:00 batch committed", table=EVIL, rows=1)
    reporter.line("x" * 5000)
    now = ProgressTotals(tables={TableId("shop", EVIL): TableTotals(1)}, counts={f"reason {EVIL}": 2}, batches=1)
    reporter.summary(now)
    assert harmless(out.getvalue() + err.getvalue())
    lines = err.getvalue().splitlines()
    assert max(map(len, lines)) < LONGEST + 200
    if log_format == "json":
        told = [json.loads(line) for line in lines]
        assert all(harmless(json.dumps(each, ensure_ascii=False)) for each in told)
        assert told[0]["rows"] == 1
    else:
        assert lines[1].startswith("  12:00:00")  # not a line of log


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_errors(log_format: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = SourceError(f"server said {EVIL}{'x' * 5000}", where=EVIL, hint=f"GRANT SELECT {EVIL}")
    assert complain(error, log_format) == 3
    assert complain(SpecError([Problem("p.yaml", 1, 1, EVIL, EVIL, EVIL)]), log_format) == 2
    assert complain(RuntimeError(EVIL), log_format) == 5
    said = capsys.readouterr().err
    assert harmless(said)
    assert "GRANT SELECT" in said
    assert max(map(len, said.splitlines())) < 1_200
