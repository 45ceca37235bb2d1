"""The content of a split, as the JSON value that the engine stores and as the object that a task reads by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from cdc.source import Split
from connectors.mysql.log.segment import LogRange
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.plan.splits import ChunkRead, CopiedRange

_KINDS = {LogRange: "log", CopiedRange: "copied-log", ChunkRead: "chunks"}


def dump_payloads(splits: Iterable[Split]) -> list[Split]:
    """The splits with JSON values as payloads."""
    return [replace(split, payload={_KINDS[type(split.payload)]: asdict(split.payload)}) for split in splits]


def load_payload(split: Split) -> Split:
    """The split that `dump_payloads` was given, with the object as its payload."""
    ((kind, fields),) = split.payload.items()
    return replace(split, payload=_MAKE[kind](fields))


def _log_range(fields: dict[str, Any]) -> LogRange:
    ends = {name: LogPosition(**fields[name]) for name in ("start", "end")}
    return LogRange(**{**fields, **ends})


def _copied_range(fields: dict[str, Any]) -> CopiedRange:
    return CopiedRange(**{**fields, "part": _log_range(fields["part"])})


def _chunk_read(fields: dict[str, Any]) -> ChunkRead:
    return ChunkRead(**{**fields, "chunks": tuple(fields["chunks"])})


_MAKE = {"log": _log_range, "copied-log": _copied_range, "chunks": _chunk_read}
