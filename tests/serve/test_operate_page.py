"""What docs/operate.md shows works: the unit file is systemd's, its DAG runs a pipeline, its tables are complete."""

from __future__ import annotations

import configparser
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import typer.main

from cdc import errors
from cdc.cli import app
from cdc.restarts import FINAL
from cdc.spec.life import LifeOptions

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def test_the_unit_starts_a_command_that_exists_and_signals_it_alone() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini"))
    assert set(unit) >= {"Unit", "Service", "Install"}
    service = unit["Service"]
    assert (service["KillMode"], service["Restart"]) == ("mixed", "on-failure")
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, Path(program).is_absolute()) == ("cdc", True)
    known = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    flags = {flag for parameter in known.params for flag in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("--")} <= flags


def test_the_dag_s_task_runs_a_pipeline_to_where_its_log_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: dict[str, Callable[..., Any]] = {}
    given: dict[str, Any] = {}

    def task(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        given["task"] = options

        def named(function: Callable[..., Any]) -> Callable[..., Any]:
            tasks[function.__name__] = function
            return function

        return named

    def dag(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        given["dag"] = options
        return lambda function: function

    def run(file: str, **options: Any) -> Any:
        given["run"] = (file, options)
        return SimpleNamespace(wait=lambda: SimpleNamespace(rows=7))

    sdk = ModuleType("airflow.sdk")
    sdk.dag, sdk.task = dag, task  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    monkeypatch.setattr("cdc.run", run, raising=False)
    exec(compile(block("python"), "operate.md", "exec"), {})
    assert given["dag"]["max_active_runs"] == 1
    file, options = given["run"]
    assert (Path(file).suffix, options["until_caught_up"]) == (".yaml", True)
    assert tasks["sync"]("p.yaml", "state") == 7


def test_every_strategy_and_every_error_that_is_not_restarted_is_on_the_page() -> None:
    for strategy in ("exponential-delay", "fixed-delay", "failure-rate", "none"):
        assert f"| `{strategy}`" in PAGE
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and "| no: " in line]
    assert set(re.findall(r"`(\w+)`", "".join(rows))) == {error.__name__ for error in FINAL}
    named = set(re.findall(r"`([A-Z]\w+)`", PAGE.partition("## Restarts")[2].partition("## ")[0]))
    assert named <= {name for name in vars(errors) if isinstance(vars(errors)[name], type)}


def test_the_schedule_s_options_are_on_the_page() -> None:
    names = [info.alias or name for name, info in LifeOptions.model_fields.items()]
    for name in names:
        if name.startswith("schedule"):
            assert f"`{name}`" in PAGE or f"{name}:" in PAGE
