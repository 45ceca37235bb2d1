"""Find the format of each topic: from the pipeline file, or else from the first message with a value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from cdc.errors import UnsupportedChange
from connectors.kafka.formats import connect
from connectors.kafka.formats.canal import CanalFormat
from connectors.kafka.formats.debezium import DebeziumFormat, row_fields
from connectors.kafka.formats.groups import Format, Messages
from connectors.kafka.formats.maxwell import MaxwellFormat
from connectors.kafka.formats.plain import PlainFormat
from connectors.kafka.formats.scan import Scan, Texts, Tree
from connectors.kafka.kernels import ABSENT, INTEGER, OBJECT

if TYPE_CHECKING:
    from connectors.kafka.avro.registry import Registry
    from connectors.kafka.formats.wrapped import Opener
    from connectors.kafka.source_options import KafkaSourceOptions

DEBEZIUM, CANAL, MAXWELL, PLAIN = "debezium-json", "canal-json", "maxwell-json", "json"
DEBEZIUM_AVRO, AVRO = "debezium-avro", "avro"

_SIGNS: tuple[tuple[str, frozenset[str]], ...] = (
    (DEBEZIUM, frozenset({"schema", "payload"})),
    (DEBEZIUM, frozenset({"op", "source"})),
    (DEBEZIUM, frozenset({"ddl", "source"})),
    (DEBEZIUM, frozenset({"status", "id", "ts_ms"})),
    (CANAL, frozenset({"type", "database", "table", "isDdl"})),
    (CANAL, frozenset({"type", "database", "table", "pkNames"})),
    (MAXWELL, frozenset({"type", "database", "ts"})),
)
"""The formats, and the members that together identify each."""

_ENVELOPE = ("op", "ddl", "status", "ts_ms")
"""Members of which Debezium's payloads have at least one, unlike rows that were taken out of their envelope."""
_PAYLOAD = Tree({"payload": dict.fromkeys(_ENVELOPE)})

_NAMES = sorted({name for _, names in _SIGNS for name in names})
_MARKS = Tree(dict.fromkeys(_NAMES))


class Formats:
    """One format object per topic, which remembers its schemas. `registry` has the schemas of messages in Avro."""

    def __init__(self, options: KafkaSourceOptions, registry: Registry | None = None) -> None:
        self._options, self._registry = options, registry
        self._by_topic: dict[str, Format] = {}

    def of(self, topic: str, messages: Messages) -> Format:
        """The format of a topic. Raises UnsupportedChange when its messages have no known format."""
        found = self._by_topic.get(topic)
        if found is None:
            name = detect_format(messages) if self._options.value_format == "auto" else self._options.value_format
            if name == DEBEZIUM_AVRO and self._registry is None:
                hint = "name the Schema Registry that it is of in schema-registry.url, or leave the topic out"
                raise UnsupportedChange("messages begin with a zero byte, as Avro does", where=topic, hint=hint)
            found = self._create_format(name or DEBEZIUM)
            if name and messages.values.present.any():
                self._by_topic[topic] = found
        return found

    def _create_format(self, name: str) -> Format:
        if self._registry is not None and AVRO in name:
            from connectors.kafka.avro.unwrapper import AvroUnwrapper

            if name.startswith(DEBEZIUM_AVRO):
                return DebeziumFormat(self._options.modes, AvroUnwrapper(row_fields, self._registry, rows=2))
            return self._plain(AvroUnwrapper(connect.fields_of, self._registry, rows=1))
        if name == CANAL:
            return CanalFormat(self._options.zone)
        if name == MAXWELL:
            return MaxwellFormat(self._options.zone)
        return self._plain() if name == PLAIN else DebeziumFormat(self._options.modes)

    def _plain(self, wrapped: Opener | None = None) -> PlainFormat:
        return PlainFormat(self._options.zone, wrapped, self._options.modes if self._options.modes_given else None)


def detect_format(messages: Messages) -> str | None:
    """The name of the format of the first message with a value; None if there are only Debezium's heartbeats.

    Raises UnsupportedChange when it has no known format.
    """
    values = messages.values
    numbers = np.flatnonzero(values.present)
    if not len(numbers):
        return None
    first = 0
    if values.bytes_of(int(numbers[0])).startswith(b"\0"):
        return DEBEZIUM_AVRO
    if _heartbeats(_MARKS.scan(values.take(numbers[:1]).inline_heads()))[0]:
        others = np.flatnonzero(~_heartbeats(_MARKS.scan(values.take(numbers).inline_heads())))
        if not len(others):
            return None
        first = int(others[0])
    number = int(numbers[first])
    found = _MARKS.scan(values.take([number]).inline_heads())
    names = {name for name in _NAMES if found.cells(name).kinds[0] != ABSENT}
    for name, signs in _SIGNS:
        if not found.faults[0] and signs <= names and (name != DEBEZIUM or _is_envelope(values.take([number]))):
            return name
    raise UnsupportedChange(
        f"the format of this message is not known: {_members(values.bytes_of(number))}",
        where=messages.where(number),
        hint="have its producer write as Debezium, Canal or Maxwell do, say which in value.format (json for rows as "
        "they are), or leave the topic out",
    )


def _members(value: bytes) -> str:
    """The names of a message's members, without the values, which may be secrets."""
    try:
        message = json.loads(value)
    except (ValueError, RecursionError):
        return "it is not JSON"
    if not isinstance(message, dict):
        return "it is not a JSON object"
    return f"its members are {', '.join(list(message)[:12])}" if message else "it has no members"


def _is_envelope(value: Texts) -> bool:
    """Whether the payload of a value, if it has one, is an envelope of Debezium."""
    found = _PAYLOAD.scan(value.inline_heads())
    cells = [found.cells("payload", name).kinds[0] for name in _ENVELOPE]
    return found.cells("payload").kinds[0] != OBJECT or any(kind != ABSENT for kind in cells)


def _heartbeats(found: Scan) -> Any:
    """The messages (bool[n]) that are Debezium's heartbeats, {"ts_ms": 7}, which do not tell a topic's format."""
    only_time = (found.unknown < 0) & (found.faults == 0) & (found.cells("ts_ms").kinds == INTEGER)
    for name in _NAMES:
        only_time &= (found.cells(name).kinds == ABSENT) | (name == "ts_ms")
    return only_time
