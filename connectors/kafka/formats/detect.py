"""The format of each topic: as the pipeline file says, else told by the first message that has a value."""

from __future__ import annotations

from typing import Protocol

from cdc.errors import UnsupportedChange
from connectors.kafka.formats.debezium import DebeziumFormat
from connectors.kafka.formats.groups import Format, Messages
from connectors.kafka.formats.scan import Texts, Tree
from connectors.kafka.kernels import ABSENT

_MARKS = Tree({"op": None, "source": None, "schema": None, "payload": None, "ddl": None, "status": None})
DEBEZIUM = "debezium-json"


class FormatChoice(Protocol):
    """What the options say about formats."""

    @property
    def value_format(self) -> str:
        """The name of a format, or `auto`."""


class Formats:
    """One format object per topic; they keep what they learn of schemas."""

    def __init__(self, options: FormatChoice) -> None:
        self._options = options
        self._by_topic: dict[str, Format] = {}

    def of(self, topic: str, messages: Messages) -> Format:
        """The format of a topic. Raises UnsupportedChange when its messages are of none."""
        found = self._by_topic.get(topic)
        if found is None:
            name = self._options.value_format
            found = _made(detected(messages) if name == "auto" else name)
            if any(value is not None for value in messages.values):
                self._by_topic[topic] = found
        return found


def _made(name: str) -> Format:
    return DebeziumFormat()


def detected(messages: Messages) -> str:
    """The name of the format that the first message with a value has."""
    number = next((number for number, value in enumerate(messages.values) if value is not None), None)
    if number is None:
        return DEBEZIUM
    value = messages.values[number] or b""
    found = _MARKS.scan(Texts.of([value]))
    there = {name for name in ("op", "source", "schema", "payload", "ddl", "status")
             if found.cells(name).kinds[0] != ABSENT}  # fmt: skip
    if not found.faults[0] and (there >= {"schema", "payload"} or there & {"op", "ddl", "status"}):
        return DEBEZIUM
    raise UnsupportedChange(
        "the format of this message is not known",
        where=messages.where(number),
        hint="say which in value.format, or leave the topic out",
    )
