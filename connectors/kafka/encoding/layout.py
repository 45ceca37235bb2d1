"""The layout of messages of one table and schema: the parts of their keys and values, as the format defines them."""

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
        version: the version of this tool.
    """

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class MessageLayout:
    """The parts of values and keys; `key` is None for messages without a key.

    Attributes:
        moved: the parts of the key in headers, which tell the other key of a row whose key changed; None for no
            headers.
        prepare: by column, a conversion of values that the kernel cannot read as they are.
        tombstones: whether the delete of a key may be followed by a message without a value.
        deletes: whether a delete has a value. If not, the delete is itself a tombstone, and only tables with a key can
            have updates and deletes.
        split_keys: whether an update that changes the key becomes a delete and an insert.
    """

    value: tuple[Part, ...]
    key: tuple[Part, ...] | None
    prepare: Mapping[str, Prepare] = field(default_factory=dict)
    tombstones: bool = True
    deletes: bool = True
    split_keys: bool = True
    moved: tuple[Part, ...] | None = None
