"""Expands TRANSACTION_PAYLOAD and MariaDB's compressed events into plain ones."""

from __future__ import annotations

from collections.abc import Iterator

from connectors.mysql.chunk import EventChunk


def expand(chunk: EventChunk) -> Iterator[EventChunk]:
    """The same events in order, expanded."""
    yield chunk
