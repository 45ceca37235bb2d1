"""Conversion of split payloads between the JSON value stored by the engine and the object used by a task."""

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
    """Convert the payloads of splits to JSON values."""
    return [replace(split, payload={_KINDS[type(split.payload)]: asdict(split.payload)}) for split in splits]


def load_payload(split: Split) -> Split:
    """Convert the JSON payload of a split back to its object."""
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
