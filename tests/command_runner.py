"""Typer's runner of commands in this process, which makes the parsers of all commands once, not for each call."""

from __future__ import annotations

from functools import cache

from typer import testing
from typer.testing import CliRunner, Result

__all__ = ["CliRunner", "Result"]

testing._get_command = cache(testing._get_command)
