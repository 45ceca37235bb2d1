"""Findings of `cdc doctor`: one sentence each, with the next step. Frozen values that connectors make too."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """A pipeline runs, and may meet trouble."""
    ERROR = "error"
    """A pipeline does not run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: one or two words, such as `binlog retention`.
        message: what was found, never a secret.
        fix: a statement or a step; empty where nothing is to be done.
    """

    level: Level
    subject: str
    message: str
    fix: str = ""


def ok(subject: str, message: str) -> Finding:
    """Nothing is to be done."""
    return Finding(Level.OK, subject, message)


def warning(subject: str, message: str, fix: str) -> Finding:
    """Something may go wrong."""
    return Finding(Level.WARNING, subject, message, fix)


def error(subject: str, message: str, fix: str) -> Finding:
    """Something is wrong."""
    return Finding(Level.ERROR, subject, message, fix)
