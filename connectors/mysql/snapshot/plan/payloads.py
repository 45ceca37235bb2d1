"""Conversion of split payloads between the JSON value stored by the engine and the object used by a task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pydantic import TypeAdapter

from cdc.source import Split
from connectors.mysql.log.segment import LogRange
from connectors.mysql.snapshot.plan.splits import ChunkRead, FilteredRange

_PAYLOADS: TypeAdapter[LogRange | FilteredRange | ChunkRead] = TypeAdapter(LogRange | FilteredRange | ChunkRead)


def dump_payloads(splits: Iterable[Split]) -> list[Split]:
    """Convert the payloads of splits to JSON values."""
    return [replace(split, payload=_PAYLOADS.dump_python(split.payload, mode="json")) for split in splits]


def load_payload(split: Split) -> Split:
    """Convert the JSON payload of a split back to its object."""
    return replace(split, payload=_PAYLOADS.validate_python(split.payload))
