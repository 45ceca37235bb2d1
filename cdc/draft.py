"""Values for the source block that `cdc init` writes, found by a connector on a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from cdc.finding import Finding


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The parts of `scheme://username:password@hostname:port/database`; missing parts are empty."""

    scheme: str
    hostname: str
    port: int | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    database: str = ""

    def __str__(self) -> str:
        port = f":{self.port}" if self.port is not None else ""
        return f"{self.scheme}://{self.username}@{self.hostname}{port}/{self.database}"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the block with its value as text, and the comments above it."""

    name: str
    value: str
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """The facts about a server from which `cdc init` drafts a pipeline file.

    Attributes:
        server: a short description.
        keys: keys of the source block, except `type`; no secrets.
        findings: obstacles and remarks.
        databases: databases of the tables.
    """

    server: str
    keys: tuple[Key, ...]
    findings: tuple[Finding, ...]
    databases: tuple[str, ...]


@runtime_checkable
class Drafts(Protocol):
    """Optional capability of a source's options class itself (not of its objects).

    `drafted_by` is `module:function`, imported on use: the function examines a server and returns a Draft. It takes a
    ServerUrl and further options of the block, and raises SourceError when the server cannot be reached.
    """

    drafted_by: str
    url_schemes: Sequence[str]
    """Schemes of URLs that name such a source."""
