"""Keys as a line of CSV: the table, then the key's values; texts in quotes that are doubled inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc.schema import TableId
from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.encoding.template import KEY, FieldEncoding, Part, RowPart


def csv_key(table: TableId, key: Sequence[Part]) -> tuple[Part, ...]:
    """A key in JSON as CSV: its values are encoded as there."""
    fields = tuple(_field(field) for part in key if isinstance(part, RowPart) for field in part.fields)
    name = str(table).replace('"', '""')
    if not fields:
        return (f'"{name}"'.encode(),)
    return f'"{name}",'.encode(), RowPart(KEY, fields, messages.MEMBERS)


def _field(field: FieldEncoding) -> FieldEncoding:
    unnamed = replace(field, label="")
    if field.op in (values.TEXT, values.RAW):
        return replace(unnamed, op=values.CSV, quoted=True, room=8)
    if field.op == values.LATIN1:  # escaped as JSON, which CSV does not know
        return replace(unnamed, op=values.BASE64, room=8)
    return unnamed
