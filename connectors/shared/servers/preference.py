"""Which of several equal servers is asked first: the one that answered last, so that one that is gone costs one wait.

Remembered per process, as a sink is built again in every task. Thread safe.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeVar

S = TypeVar("S", bound=Hashable)
"""What names a server: an address, a URL."""

_ANSWERED: dict[tuple[Any, ...], Any] = {}


def in_order(servers: tuple[S, ...]) -> tuple[S, ...]:
    """All of them once, from the one that answered last on; as given when none has."""
    first = _ANSWERED.get(servers)
    if first is None:
        return servers
    at = servers.index(first)
    return servers[at:] + servers[:at]


def note_answered(servers: tuple[S, ...], server: S) -> None:
    """This one of them is there."""
    _ANSWERED[servers] = server
