"""Plain rows: the value is the row as an object; a delete is a message with the key and no value."""

from __future__ import annotations

from dataclasses import replace

from cdc.schema import Kind, TableSchema
from connectors.kafka.encoding.kernels import values
from connectors.kafka.encoding.layout import MessageLayout
from connectors.kafka.encoding.natural import fields_of, prepared_of
from connectors.kafka.encoding.template import KEY, RowPart

_INSTANT_ROOM = 40


def layout(schema: TableSchema) -> MessageLayout:
    """The layout of a table's messages: like Maxwell's rows, but a TIMESTAMP is marked as UTC.

    Executor; once per table and schema.
    """
    instants = {column.name for column in schema.columns if column.type.kind is Kind.TIMESTAMP_LTZ}
    fields = tuple(
        replace(field, op=values.INSTANT, size=_INSTANT_ROOM) if field.name in instants else field
        for field in fields_of(schema)
    )
    by_name = {field.name: field for field in fields}
    key = (RowPart(KEY, tuple(by_name[name] for name in schema.primary_key)),)
    return MessageLayout(
        (RowPart(KEY, fields),),
        key if schema.primary_key else None,
        prepared_of(schema),
        tombstones=False,
        deletes=False,
    )
