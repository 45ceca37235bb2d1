"""The parts of keys and values of one table at one schema, as a format decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from connectors.kafka.encoding.template import Part

Prepare = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of the origin in messages.

    Attributes:
        name: Debezium's logical name of the server (`topic.prefix`), part of the names of Connect schemas.
        version: of this tool.
    """

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """The parts of values and keys; `key` is None for messages without one.

    Attributes:
        moved: the parts of a key in headers, which say where a row went whose key changed; None for no headers.
        prepare: columns that the kernel cannot read as they are, each with what makes them readable.
        tombstones: whether a delete of a key may be followed by a message without a value.
        deletes: whether a delete has a value; without, it is a tombstone itself, and only tables with a key can be
            updated.
        split_keys: whether an update that changes the key is a delete and an insert.
    """

    value: tuple[Part, ...]
    key: tuple[Part, ...] | None
    prepare: Mapping[str, Prepare] = field(default_factory=dict)
    tombstones: bool = True
    deletes: bool = True
    split_keys: bool = True
    moved: tuple[Part, ...] | None = None
