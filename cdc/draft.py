"""A pipeline file's source block as `cdc init` writes it: what a connector found on a server, as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from cdc.finding import Finding


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """`scheme://username:password@hostname:port/database`, taken apart; empty where a part is not given."""

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
    """A key of the block with its value as text, and comments that go above it."""

    name: str
    value: str
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """The facts about a server that a draft of a pipeline file is made of.

    Attributes:
        server: what it is, in a few words.
        keys: of the source block, `type` left out; no secret among them.
        findings: what stands in the way or is worth knowing.
        databases: that the tables are in.
    """

    server: str
    keys: tuple[Key, ...]
    findings: tuple[Finding, ...]
    databases: tuple[str, ...]


@runtime_checkable
class Drafts(Protocol):
    """Optional capability of a source's options class itself (not of its objects).

    `drafted_by` is `module:function`, imported when it is asked for: it looks at a server and gives a Draft. It takes a
    ServerUrl and further options of the block, and raises SourceError when the server cannot be reached.
    """

    drafted_by: str
    url_schemes: Sequence[str]
    """Schemes of URLs that name such a source."""
