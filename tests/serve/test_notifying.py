"""Notifications of a server's pipelines, and of `cdc run`: who is told of what."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from command_runner import CliRunner

import cdc
from cdc.cli import app
from cdc.errors import CdcError, NotNow, SinkError
from cdc.job.notifying import RunNotifying
from cdc.serve.control import ErrorView, PipelineView
from cdc.serve.notifying import Notifying
from cdc.spec.notify import EVENTS
from cdc.status.notify import NotificationTarget

FILE = "source: {type: values, rows: []}\nsink: {type: values}\n"


def command(folder: Path, name: str) -> str:
    """A program that appends each notification to a file."""
    program = folder / "tell.py"
    program.write_text("import sys\nopen(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')\n")
    return f"{sys.executable} {program} {folder / name}"


def told(folder: Path, name: str) -> list[tuple[str, str]]:
    path = folder / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [(found["pipeline"], found["event"]) for found in map(json.loads, lines)]


class Control:
    """A server of these pipelines."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.views = folder, dict[str, PipelineView]()

    def put(self, name: str, state: Any, attention: str = "") -> None:
        error = ErrorView("SinkError", "the disk is full", "x.duckdb", "free some space", 1.0, False)
        self.views[name] = PipelineView(
            name, f"{name}.yaml", "values", "values", state, "", last_error=None if state == "invalid" else error,
            attention=attention, file_errors=("wrong.yaml:1:1: sink: is missing", "...") if state == "invalid" else (),
        )  # fmt: skip

    def pipelines(self) -> list[PipelineView]:
        return list(self.views.values())

    def spec(self, name: str) -> Any:
        if self.views[name].state == "invalid":
            raise NotNow("its file is invalid")
        more = (
            f"pipeline: {{notify.command: {command(self.folder, 'own')}, notify.on: failing}}\n" if name == "a" else ""
        )
        return cdc.load(f"{name}.yaml", text=FILE + more).spec


def test_files_and_the_server_have_targets_of_their_own_and_an_invalid_file_is_told_to_the_server_s(
    tmp_path: Path,
) -> None:
    control, warned = Control(tmp_path), list[str]()
    everything = NotificationTarget(command=command(tmp_path, "all"), events=frozenset(EVENTS))
    notifying = Notifying(control, everything, warned.append)  # type: ignore[arg-type]
    for state, attention in (("running", ""), ("failed", "failed"), ("running", "")):
        control.put("a", state, attention)
        control.put("b", state, attention)
        control.put("wrong", "invalid", "invalid file")
        notifying.observe(10.0)
    notifying._notifier.close(60)
    assert warned == []
    assert (
        "SpecError: wrong.yaml:1:1: sink: is missing (and 1 more) (next step: correct"
        in ((tmp_path / "all").read_text().splitlines()[0])
    )
    assert told(tmp_path, "own") == [("a", "failing")]
    assert told(tmp_path, "all") == [
        ("wrong", "failing"), ("a", "failing"), ("b", "failing"), ("a", "recovered"), ("b", "recovered"),
    ]  # fmt: skip


def test_a_run_that_fails_is_told_with_its_error(tmp_path: Path) -> None:
    spec = cdc.load(
        "p.yaml", text=FILE + f"pipeline: {{name: shop, notify.command: {command(tmp_path, 'out')}}}\n"
    ).spec
    with pytest.raises(CdcError), RunNotifying(spec, "text"):
        raise SinkError("the disk is full", where="x.duckdb", hint="free some space")
    (line,) = (tmp_path / "out").read_text().splitlines()
    assert json.loads(line)["text"] == (
        "shop: needs attention: failed. SinkError: x.duckdb: the disk is full (next step: free some space)"
    )


def test_a_webhook_is_masked_wherever_options_are_shown() -> None:
    spec = cdc.load(
        "p.yaml", text=FILE + "pipeline: {notify.webhook: 'https://hooks.slack.com/services/T0/PART'}\n"
    ).spec
    assert "T0/PART" not in spec.model_dump_json(by_alias=True) + repr(spec)
    with pytest.raises(CdcError, match=r"notify\.webhook: is not a URL") as raised:
        cdc.load("p.yaml", text=FILE + "pipeline: {notify.webhook: 'secret-part'}\n")
    assert "secret-part" not in str(raised.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--notify-on", "lag"], "has no effect without"),
        (["--notify-command", "x", "--notify-on", "laggy"], "laggy is not an event"),
        (["--notify-command", "x", "--notify-lag", "soon"], "--notify-lag"),
    ],
)
def test_flags_of_the_server_are_checked(tmp_path: Path, flags: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["serve", str(tmp_path), *flags], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert (done.exit_code, said in " ".join(done.output.split())) == (2, True), done.output
