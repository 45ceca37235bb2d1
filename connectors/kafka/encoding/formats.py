"""Choose the layout of a table's messages by the name of the format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc.schema import TableId, TableSchema
from connectors.kafka.encoding import avro, canal, debezium, flink, maxwell, plain
from connectors.kafka.encoding.avro import Register
from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.encoding.layout import MessageLayout, Naming
from connectors.kafka.encoding.template import KEY, FieldEncoding, Part, RowPart
from connectors.kafka.sink_options import KafkaSinkOptions

_NAME = "cdc"
"""The `source.name` in Debezium's messages when the options give none."""


def layout_of(
    table: TableId, schema: TableSchema, options: KafkaSinkOptions, version: str, register: Register | None = None
) -> MessageLayout:
    """The layout of a table's messages. Executor; once per table and schema of a task.

    `register` puts schemas into the Schema Registry, if the options name one.
    """
    if register is not None:
        return avro.layout(table, schema, naming_of(options, version), options.modes(), register)
    found = _by_value(table, schema, options, version)
    if options.key_format == "csv" and found.key is not None:
        return replace(found, key=_csv_key(table, found.key))
    return found


def naming_of(options: KafkaSinkOptions, version: str) -> Naming:
    """The names of the origin in Debezium's messages."""
    return Naming(options.topic_prefix or _NAME, version)


def _by_value(table: TableId, schema: TableSchema, options: KafkaSinkOptions, version: str) -> MessageLayout:
    if options.value_format == "canal-json":
        return canal.layout(table, schema)
    if options.value_format == "maxwell-json":
        return maxwell.layout(table, schema)
    if options.value_format == "debezium-json-flink":
        return flink.debezium(table, schema)
    if options.value_format == "canal-json-flink":
        return flink.canal(table, schema)
    if options.value_format == "json":
        return plain.layout(schema)
    naming = naming_of(options, version)
    return debezium.layout(table, schema, naming, options.modes(), with_schema=options.include_schema)


def _csv_key(table: TableId, key: Sequence[Part]) -> tuple[Part, ...]:
    """The parts of a key as a line of CSV: the table, then the values; texts in quotes, with inner quotes doubled."""
    fields = tuple(_csv_field(field) for part in key if isinstance(part, RowPart) for field in part.fields)
    name = str(table).replace('"', '""')
    if not fields:
        return (f'"{name}"'.encode(),)
    return f'"{name}",'.encode(), RowPart(KEY, fields, messages.MEMBERS)


def _csv_field(field: FieldEncoding) -> FieldEncoding:
    unnamed = replace(field, label="")
    if field.op in (values.TEXT, values.RAW):
        return replace(unnamed, op=values.CSV, quoted=True, size=8)
    if field.op == values.LATIN1:  # would be escaped as in JSON, which CSV does not know
        return replace(unnamed, op=values.BASE64, size=8)
    return unnamed
