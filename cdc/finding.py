"""Findings of `cdc doctor`: one sentence each, with the next step. Frozen values; connectors create them too."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """A pipeline can run, but may run into trouble."""
    ERROR = "error"
    """A pipeline cannot run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        subject: one or two words, such as `binlog retention`.
        message: what was found, without secrets.
        fix: a statement or a step; empty where nothing needs to be done.
    """

    level: Level
    subject: str
    message: str
    fix: str = ""


def ok(subject: str, message: str) -> Finding:
    """Build a finding that needs no action."""
    return Finding(Level.OK, subject, message)


def warning(subject: str, message: str, fix: str) -> Finding:
    """Build a finding about something that may go wrong."""
    return Finding(Level.WARNING, subject, message, fix)


def error(subject: str, message: str, fix: str) -> Finding:
    """Build a finding about something that is wrong."""
    return Finding(Level.ERROR, subject, message, fix)
