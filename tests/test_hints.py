"""What errors tell people to do names options and commands that there are."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

import cdc.cli.entry  # noqa: F401 - which makes all commands known
from cdc.cli.root import app

ROOT = Path(__file__).parents[1]
_KEY = re.compile(r"(?<![\w./%{-])[a-z][a-zA-Z0-9]*(?:[.-][a-zA-Z0-9]+)+(?![\w/(={-])")
_COMMAND = re.compile(r"(?:`|run |with |\()cdc ([a-z]+)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_OF_OTHERS = frozenset({"--verify-binlog-checksum", "--ulimit"})
"""Options of the server's own tools, and of container engines."""


@cache
def hints() -> tuple[tuple[str, str], ...]:
    """Where each one is, and its text with {} for what is put in."""
    return tuple(_hints())


def _hints() -> Iterator[tuple[str, str]]:
    for path in sorted([*ROOT.glob("cdc/**/*.py"), *ROOT.glob("connectors/**/*.py")]):
        source = path.read_text(encoding="utf-8")
        if "hint=" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.keyword) and node.arg == "hint" and (text := _text(node.value)):
                yield f"{path.relative_to(ROOT)}:{node.value.lineno}", text


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values))
        case ast.FormattedValue():
            return "{}"
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case ast.IfExp(body=body, orelse=orelse):
            return f"{_text(body)} | {_text(orelse)}"
        case _:
            return ""


def option_names() -> set[str]:
    """Every key that a pipeline file may have, by itself and after where it stands."""
    names: set[str] = set()

    def walk(schema: Any) -> None:
        if isinstance(schema, dict):
            names.update(schema.get("properties", {}))
            for each in schema.values():
                walk(each)
        elif isinstance(schema, list):
            for each in schema:
                walk(each)

    for file in (ROOT / "schemas").rglob("*.json"):
        walk(json.loads(file.read_text(encoding="utf-8")))
    return names | {f"{place}.{name}" for name in names for place in ("source", "sink", "pipeline")}


def test_options_that_hints_name_are_options() -> None:
    known = option_names()
    families = {name.split(".")[0] for name in known if "." in name} - {"properties"}
    wrong = [
        (where, key)
        for where, text in hints()
        for key in _KEY.findall(text)
        if "." in key and key.split(".")[0] in families and key not in known
    ]
    assert wrong == []


def test_commands_that_hints_name_are_commands() -> None:
    command: Any = typer.main.get_command(app)
    named = {name: where for where, text in hints() for name in _COMMAND.findall(text)}
    assert {name: where for name, where in named.items() if name not in command.commands} == {}
    options = {
        option
        for each in command.commands.values()
        for parameter in each.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    found = [(where, name) for where, text in hints() for name in _OPTION.findall(text)]
    assert [each for each in found if each[1] not in options | _OF_OTHERS] == []
