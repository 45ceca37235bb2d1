"""Make messages about schema changes in the formats of Debezium, Canal and Maxwell. Pure; driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.schema import TableId
from cdc.sink import Announced
from connectors.kafka.encoding import canal, debezium_statements, maxwell
from connectors.kafka.encoding.layout import Naming
from connectors.kafka.encoding.table_changes import TableChange, table_changes
from connectors.kafka.encoding.template import json_text
from connectors.kafka.sink_options import KafkaSinkOptions


@dataclass(frozen=True, slots=True)
class SchemaMessage:
    """One message about a schema change.

    Attributes:
        table: the table's name in the rows before the message.
        key, value: JSON texts; the key may be None.
        of_rows: whether it goes to the topic of the table's rows, wherever other schema changes go.
    """

    table: TableId
    key: bytes | None
    value: bytes
    of_rows: bool = False


def schema_messages(
    announced: Sequence[Announced], options: KafkaSinkOptions, naming: Naming, now_ms: int
) -> Iterator[SchemaMessage]:
    """The messages about the changes of a batch, in order; the options may want none."""
    # One topic keeps their order, so each step of a RENAME has a message; Canal has one for the whole statement.
    each_rename = options.schema_changes == "topic" and options.value_format != "canal-json"
    for change in table_changes(announced, each_rename=each_rename):
        if options.schema_changes != "none":
            yield from _of_schema(change, options, naming, now_ms)
        if options.value_format == "debezium-json" and options.skipped_operations == "none" and change.emptied:
            modes = options.modes() if options.include_schema else None
            value = debezium_statements.truncated(change, naming, now_ms, modes)
            yield SchemaMessage(change.old_table, None, json_text(value), of_rows=True)


def _of_schema(change: TableChange, options: KafkaSinkOptions, naming: Naming, now_ms: int) -> Iterator[SchemaMessage]:
    key: Any = None
    if options.value_format == "canal-json":
        value = canal.schema_message(change, now_ms, one_topic=options.schema_changes == "topic")
    elif options.value_format == "maxwell-json":
        value = maxwell.schema_message(change)
    else:
        key = debezium_statements.key(change, with_schema=options.include_schema)
        value = debezium_statements.message(change, naming, now_ms, with_schema=options.include_schema)
    if value is not None:
        yield SchemaMessage(change.old_table, None if key is None else json_text(key), json_text(value))
