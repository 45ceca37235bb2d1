"""Maps connector names to options classes by the entry points `cdc.sources` and `cdc.sinks`. Loads no drivers."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Literal

from cdc.options import Options

Role = Literal["source", "sink"]


class UnknownConnector(KeyError):
    """No connector has that name; the text lists the known ones."""

    def __init__(self, role: Role, name: str) -> None:
        super().__init__(name)
        self.role, self.name = role, name

    def __str__(self) -> str:
        return f"no {self.role} named {self.name!r}; known: {', '.join(names(self.role))}"


class BrokenConnector(RuntimeError):
    """A registered connector whose options cannot be loaded, or a name registered by two packages."""


def names(role: Role) -> tuple[str, ...]:
    """Return the names of all connectors of a role, sorted."""
    return tuple(sorted(_entries(role)))


@cache
def options(role: Role, name: str) -> type[Options]:
    """Return the options class of a connector. Raises UnknownConnector or BrokenConnector."""
    found = _entries(role).get(name)
    if found is None:
        raise UnknownConnector(role, name)
    if len({entry.value for entry in found}) > 1:
        claims = ", ".join(sorted(f"{entry.value} of {entry.dist.name if entry.dist else '?'}" for entry in found))
        raise BrokenConnector(f"two packages register the {role} {name!r}: {claims}; uninstall one")
    try:
        loaded = found[0].load()
    except (ImportError, AttributeError) as error:
        raise BrokenConnector(f"the {role} {name!r} ({found[0].value}) cannot be loaded: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Options)):
        raise BrokenConnector(f"the {role} {name!r} ({found[0].value}) is not an Options class")
    return loaded


@cache
def _entries(role: Role) -> dict[str, list[EntryPoint]]:
    entries: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=f"cdc.{role}s"):
        entries.setdefault(entry.name, []).append(entry)
    return entries
