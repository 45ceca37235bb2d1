"""Preference among equal servers: the one that answered last comes first, so that a server that is down costs one wait.

Remembered per process, as a sink is recreated in every task. Thread-safe.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

S = TypeVar("S", bound=Hashable)
"""The identity of a server: an address, a URL."""

_ANSWERED: dict[tuple[Any, ...], Any] = {}


def in_order(servers: tuple[S, ...]) -> tuple[S, ...]:
    """Return each server once, starting with the one that answered last; unchanged when none has."""
    first = _ANSWERED.get(servers)
    if first is None:
        return servers
    at = servers.index(first)
    return servers[at:] + servers[:at]


def note_answered(servers: tuple[S, ...], server: S) -> None:
    """Record that this server answered."""
    _ANSWERED[servers] = server
